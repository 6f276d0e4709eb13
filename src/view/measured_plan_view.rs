//! What `plan --measure` shows: each attempt's phantom peak, until one fits.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

use super::figures::{gib, of_gib};
use super::style::{BAD, GOOD, Paint, WARN};
use crate::core::ladder::Step;
use crate::core::measure::PhantomSummary;
use oomctl_diagnose::sanitize;

/// Attempts that were measured.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MeasuredPlanView {
    schema_version: u32,
    /// Where the figures come from: never a GPU.
    source: &'static str,
    /// In order.
    pub attempts: Vec<MeasuredAttempt>,
}

/// One of them.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MeasuredAttempt {
    /// Its number.
    pub attempt: usize,
    /// The rungs that are taken for it.
    pub rungs: Vec<Step>,
    /// The card's memory.
    pub gpu_bytes: u64,
    /// It was measured before, and nothing has changed since.
    pub measured_before: bool,
    /// What was measured.
    #[serde(flatten)]
    pub summary: PhantomSummary,
}

impl Default for MeasuredPlanView {
    fn default() -> Self {
        Self {
            schema_version: 1,
            source: "phantom",
            attempts: Vec::new(),
        }
    }
}

impl MeasuredPlanView {
    /// Whether the last attempt fits; none where that was not found out.
    pub fn fits(&self) -> Option<bool> {
        self.attempts.last()?.summary.fits
    }

    /// As text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for attempt in &self.attempts {
            attempt.write(&mut text);
        }
        text.push_str("phantom figures: measured without a GPU (docs/measure.md)\n");
        text
    }
}

impl MeasuredAttempt {
    fn write(&self, text: &mut String) {
        for step in &self.rungs {
            let _ = writeln!(text, "  {}  {}", step.rung, sanitize(step.title.as_bytes()));
            for change in &step.changes {
                let _ = writeln!(
                    text,
                    "       {}  {} -> {}",
                    change.knob, change.from, change.to
                );
            }
        }
        let summary = &self.summary;
        let reserved = gib(summary.peak.reserved as f64, 1);
        let card = of_gib(reserved, gib(self.gpu_bytes as f64, 1));
        let reason = sanitize(summary.reason.as_deref().unwrap_or("unknown").as_bytes());
        let said = match summary.fits {
            Some(true) => format!("{}: {card} reserved at the peak", Paint(GOOD, "fits")),
            Some(false) => format!(
                "{}: {card} reserved when memory ran out in {reason}",
                Paint(BAD, "does not fit")
            ),
            None => format!("{}: {reason}", Paint(WARN, "not measured")),
        };
        let before = if self.measured_before {
            " (measured before)"
        } else {
            ""
        };
        let _ = writeln!(text, "attempt {}  {said}{before}", self.attempt);
    }
}
