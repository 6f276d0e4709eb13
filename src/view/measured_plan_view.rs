//! What `plan --measure` and `submit --measure` show: the phantom peak of each configuration, until one fits.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

use super::figures::{gib, in_gib, of_gib};
use super::style::{BAD, GOOD, Paint, WARN};
use crate::core::engine::{History, PhantomCheck, PhantomMeasurement};
use crate::core::ladder::Step;
use crate::core::measure::PhantomSummary;
use crate::core::request::KeptMeasurement;
use oomctl_diagnose::sanitize;

/// Attempts that were measured.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MeasuredPlanView {
    schema_version: u32,
    /// Where the figures come from: never a GPU.
    source: &'static str,
    /// In order.
    pub attempts: Vec<MeasuredAttempt>,
    /// Rungs that the last one, which does not fit, leads to, and that were not measured.
    pub then: Vec<Step>,
    /// Why nothing more was measured, although the last one does not fit.
    pub stopped: Option<String>,
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
    /// It fits with so little room that a real card may be too small.
    pub is_close: bool,
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
            then: Vec::new(),
            stopped: None,
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
        rungs(&self.then, &mut text);
        if let Some(why) = &self.stopped {
            let _ = writeln!(text, "{}", sanitize(why.as_bytes()));
        }
        let last = self.attempts.last();
        if let Some(context) = last.and_then(|attempt| attempt.summary.context.as_ref()) {
            let _ = writeln!(text, "{}", sanitize(context.as_bytes()));
        }
        text.push_str("phantom figures: measured without a GPU (docs/measure.md)\n");
        text
    }
}

impl MeasuredAttempt {
    /// A configuration with these rungs, and what was measured of it, now or before.
    pub fn new(
        attempt: usize,
        rungs: Vec<Step>,
        measured: &PhantomMeasurement,
        measured_before: bool,
    ) -> Self {
        Self {
            attempt,
            rungs,
            gpu_bytes: measured.gpu_bytes,
            measured_before,
            is_close: measured.summary.is_close(measured.gpu_bytes),
            summary: measured.summary.clone(),
        }
    }

    /// In one line, without what is changed.
    pub fn line(&self) -> String {
        let said = summary_line(&self.summary, self.gpu_bytes);
        let before = if self.measured_before {
            " (measured before)"
        } else {
            ""
        };
        let trust = trust_word(&self.summary);
        format!("phantom run {}  {said}{before}{trust}", self.attempt)
    }

    fn write(&self, text: &mut String) {
        rungs(&self.rungs, text);
        let _ = writeln!(text, "{}", self.line());
    }
}

fn rungs(steps: &[Step], text: &mut String) {
    for step in steps {
        let _ = writeln!(text, "  {}  {}", step.rung, sanitize(step.title.as_bytes()));
        for change in &step.changes {
            let _ = writeln!(
                text,
                "       {}  {} -> {}",
                change.name(),
                change.from,
                change.to
            );
        }
    }
}

/// What a measurement said, in one line.
pub fn summary_line(summary: &PhantomSummary, gpu_bytes: u64) -> String {
    let reserved = gib(summary.peak.reserved as f64, 1);
    let card = of_gib(reserved, gib(gpu_bytes as f64, 1));
    let reason = sanitize(summary.reason.as_deref().unwrap_or("unknown").as_bytes());
    match summary.fits {
        Some(true) if summary.is_close(gpu_bytes) => format!(
            "{}: {card} reserved at the peak; a phantom does not see everything, so a GPU may be too small",
            Paint(WARN, "fits by little")
        ),
        Some(true) => format!("{}: {card} reserved at the peak", Paint(GOOD, "fits")),
        Some(false) => format!(
            "{}: {card} reserved when memory ran out in {reason}",
            Paint(BAD, "does not fit")
        ),
        None => format!("{}: {reason}", Paint(WARN, "not measured")),
    }
}

/// What was measured of a configuration before, in one line.
pub fn kept_line(kept: &KeptMeasurement) -> String {
    let allocated = in_gib(gib(kept.summary.peak.allocated as f64, 1));
    format!(
        "phantom, measured {}: allocated {allocated}; {}{}",
        kept.measured_on,
        summary_line(&kept.summary, kept.gpu_bytes),
        trust_word(&kept.summary)
    )
}

/// How sure it is, behind a line.
fn trust_word(summary: &PhantomSummary) -> String {
    let trust = summary.trust.as_ref();
    trust.map_or(String::new(), |trust| {
        format!("; confidence {}", trust.word())
    })
}

/// What was measured on phantom GPUs and did not fit, so that this knob was moved.
pub fn phantoms_that_moved(history: &History, knob: &str) -> Vec<String> {
    let moved = |check: &&PhantomCheck| {
        let mut changes = check.steps.iter().flat_map(|step| &step.changes);
        changes.any(|change| change.knob == knob)
    };
    let checks = history.phantoms.iter().map(|(_, check)| check);
    let line = |check: &PhantomCheck| {
        summary_line(&check.measurement.summary, check.measurement.gpu_bytes)
    };
    checks.filter(moved).map(line).collect()
}

/// A measurement before an attempt and what followed, in a line.
pub fn check_line(check: &PhantomCheck) -> String {
    let measured = &check.measurement;
    let said = summary_line(&measured.summary, measured.gpu_bytes);
    let changes = check.steps.iter().flat_map(|step| &step.changes);
    let then = changes.map(|change| format!("{} {}", change.name(), change.values("->")));
    let then: Vec<String> = then.collect();
    let then = match then.is_empty() {
        true => String::new(),
        false => format!("; then {}", then.join(", ")),
    };
    let stopped = check.stopped.iter();
    let stopped: String = stopped
        .map(|why| format!("; {}", sanitize(why.as_bytes())))
        .collect();
    format!("phantom: {said}{then}{stopped}")
}
