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
    /// The maintenance that the job reaches into if it starts now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maintenance: Option<InTheWay>,
}

/// A maintenance of the whole cluster that the job reaches into.
#[derive(Serialize, JsonSchema)]
pub struct InTheWay {
    /// When it begins.
    pub start: Timestamp,
    /// When it ends.
    pub end: Timestamp,
    /// The time limit of the job.
    pub time_limit_s: u64,
}

impl InTheWay {
    /// `queue      maintenance in 3h 00m, for 1h 00m: …`.
    fn line(&self, now: Timestamp) -> String {
        let span = |from: Timestamp, to: Timestamp| duration(to.duration_since(from).as_secs());
        let ahead = span(now, self.start);
        if self.start <= now {
            let left = span(now, self.end);
            return format!(
                "queue      maintenance for another {left}: no job starts before its end\n"
            );
        }
        let limit = duration(i64::try_from(self.time_limit_s).unwrap_or(i64::MAX));
        format!(
            "queue      maintenance in {ahead}, for {}: with its time limit of {limit} the job starts after it, below {ahead} it can start before\n",
            span(self.start, self.end)
        )
    }
}

impl StartsView {
    /// A line: `queue      as it is: 4 GPUs now; more-gpus: 8 GPUs in about 9h 04m`, and one of a maintenance; none where nothing
    /// is known.
    pub fn line(&self) -> String {
        let maintenance = self.maintenance.as_ref();
        self.each() + &maintenance.map_or_else(String::new, |m| m.line(self.asked_at))
    }

    fn each(&self) -> String {
        if self.starts.is_empty() {
            return String::new();
        }
        // A change that starts as the job itself would says nothing.
        let as_it_is = self.starts.iter().find(|s| s.rungs.is_empty());
        let as_it_is = as_it_is.map(|s| self.when(s));
        let told = |s: &&QueueStart| s.rungs.is_empty() || as_it_is != Some(self.when(s));
        let each = self.starts.iter().filter(told).map(|s| self.one(s));
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
        format!("{what}: {}", self.when(of))
    }

    /// `8 GPUs in about 9h 04m`.
    fn when(&self, of: &QueueStart) -> String {
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
        format!("{gpus}{when}")
    }
}
