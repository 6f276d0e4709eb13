//! When the scheduler would start a job as it is, and each answer to its first out-of-memory.

use std::fmt::Write as _;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::core::request::{QueueStart, StartForecast, started};
use oomctl_base::units::duration;

/// What the scheduler said.
#[derive(Serialize, JsonSchema)]
pub struct StartsView {
    /// When it was asked.
    pub asked_at: Timestamp,
    /// The job as it is, and what answers its first out-of-memory.
    pub starts: Vec<QueueStart>,
}

impl StartsView {
    /// A line: `queue      as it is: 4 GPUs now; more-gpus: 8 GPUs in about 9h 04m`; none where nothing was asked.
    pub fn line(&self) -> String {
        if self.starts.is_empty() {
            return String::new();
        }
        let each = self.starts.iter().map(|s| self.one(s));
        let mut out = format!("queue      {}", each.collect::<Vec<_>>().join("; "));
        if self.starts.iter().any(|s| s.start.is_some()) {
            let _ = write!(out, " (Slurm's estimate)");
        }
        out + "\n"
    }

    fn one(&self, of: &QueueStart) -> String {
        let mut names = of.rungs.clone();
        names.dedup();
        let what = match names.is_empty() {
            true => "as it is".to_owned(),
            false => names.join(", "),
        };
        let gpus = match of.gpus {
            0 => String::new(),
            1 => "1 GPU ".to_owned(),
            n => format!("{n} GPUs "),
        };
        let when = match &of.start {
            Some(StartForecast::At(at)) => match at.duration_since(self.asked_at).as_secs() {
                wait if wait < 60 => "now".to_owned(),
                wait => format!("in about {}", duration(wait)),
            },
            other => started(other.as_ref(), self.asked_at),
        };
        format!("{what}: {gpus}{when}")
    }
}
