//! A configuration that was measured on phantom GPUs before it is submitted, and what follows from that.
//!
//! What does not fit there is answered as a failure of an attempt would be. What fits there is submitted, and proves nothing
//! against a failure on a GPU: the phantom does not see everything.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::outcome::Verdict;
use super::state::{History, Run, RunPhase};
use crate::core::ladder::{Decision, Past, PastAttempt, Step};
use crate::core::measure::PhantomSummary;
use crate::core::recipe::Layer;
use oomctl_diagnose::{Class, Incident, Scanner};

/// Configurations that are measured at most before one attempt.
pub const MEASUREMENTS_MAX: usize = 8;
/// Seconds after which no further one is measured.
pub const MEASURING_MAX_S: u64 = 900;

/// What one measurement said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PhantomMeasurement {
    /// The type of the card, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_type: Option<String>,
    /// The card's memory.
    #[serde(default)]
    pub gpu_bytes: u64,
    /// What was measured.
    #[serde(flatten)]
    pub summary: PhantomSummary,
    /// Seconds that it took; none where it was measured before.
    #[serde(default)]
    pub seconds: u64,
}

/// A measurement before an attempt, and what follows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PhantomCheck {
    /// What was measured.
    #[serde(flatten)]
    pub measurement: PhantomMeasurement,
    /// Rungs that the attempt takes besides, because it does not fit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    /// Why nothing more is measured, although this does not fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
}

impl PhantomMeasurement {
    /// Nothing could be measured, and why.
    #[must_use]
    pub fn impossible(why: &str) -> Self {
        Self {
            gpu_type: None,
            gpu_bytes: 0,
            summary: PhantomSummary::unmeasured(why),
            seconds: 0,
        }
    }

    /// The failure that PyTorch reported there; none where there was none.
    #[must_use]
    pub fn incident(&self) -> Option<Incident> {
        let summary = &self.summary;
        if summary.fits != Some(false) {
            return None;
        }
        let text = summary.message.as_deref().unwrap_or("CUDA out of memory.");
        let mut scanner = Scanner::new(&[]);
        let source = scanner.source("phantom");
        let line = format!("torch.OutOfMemoryError: {text}\n");
        scanner.feed(source, 0, line.as_bytes());
        scanner.finish_source(source);
        let mut incident = scanner.verdict(None);
        if incident.class != Class::GpuOom {
            incident = Incident::bare("cuda_oom", Class::GpuOom);
        }
        if let Some(phase) = &summary.reason {
            incident.phase = phase.replace(' ', "_");
        }
        Some(incident)
    }
}

impl PhantomCheck {
    /// Is nothing measured after it before the attempt?
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.steps.is_empty() || self.stopped.is_some()
    }

    /// The layers of its rungs.
    pub fn layers(&self) -> impl Iterator<Item = Layer> {
        self.steps.iter().map(|step| step.layer.clone())
    }
}

impl History {
    /// What was measured before an attempt, in order.
    pub fn phantoms(&self, attempt: u32) -> impl Iterator<Item = &PhantomCheck> {
        let of = self.phantoms.iter().filter(move |(n, _)| *n == attempt);
        of.map(|(_, check)| check)
    }
}

impl Run {
    /// Is the next attempt to be measured first? One that a rung changed, or the first, where the project asks for it.
    #[must_use]
    pub fn to_be_measured(&self) -> Option<u32> {
        let RunPhase::Preparing(number) = self.phase() else {
            return None;
        };
        let supervision = self.request.supervision();
        let died = self.history.attempt();
        let changed = died.is_none_or(|last| {
            let of_gpu = |i: &Incident| i.class == Class::GpuOom;
            matches!(last.verdict, Some(Verdict::Climb { .. }))
                && last.incident.as_ref().is_some_and(of_gpu)
        });
        let over = self.history.phantoms(number).any(PhantomCheck::is_last);
        (supervision.measure && changed && !over).then_some(number)
    }

    /// What follows from a measurement before an attempt: the rungs that answer the same failure of an attempt.
    pub(super) fn checked(&self, attempt: u32, measurement: &PhantomMeasurement) -> PhantomCheck {
        let mut check = PhantomCheck {
            measurement: measurement.clone(),
            steps: Vec::new(),
            stopped: None,
        };
        let Some(incident) = measurement.incident() else {
            return check;
        };
        let past = Past {
            earlier: &self.history.all_tried(),
            left_out: self
                .history
                .attempt()
                .map_or(&[][..], |last| &last.steered.left_out),
            ..Past::default()
        };
        let rungs = self.history.rungs();
        let before = attempt.saturating_sub(1);
        match self.request.ascend(&rungs, past, Some(&incident), before) {
            Ok(Decision::Climb { steps, .. }) => {
                check.steps = steps;
                check.stopped = self.enough(attempt, measurement.seconds);
            }
            Ok(Decision::Exhausted { .. }) => {
                check.stopped = Some("the ladder leads to nothing smaller".to_owned());
            }
            Err(refusal) => check.stopped = Some(refusal.to_string()),
        }
        check
    }

    /// That no further configuration is measured before an attempt.
    fn enough(&self, attempt: u32, seconds: u64) -> Option<String> {
        let measured = self.history.phantoms(attempt);
        let (count, before_s) =
            measured.fold((1, 0), |(n, s), c| (n + 1, s + c.measurement.seconds));
        let seconds = seconds + before_s;
        if count >= MEASUREMENTS_MAX {
            return Some(format!(
                "{count} configurations were measured; the next one is not"
            ));
        }
        (seconds >= MEASURING_MAX_S).then(|| {
            format!("measuring took {seconds} s of {MEASURING_MAX_S}; the next one is not measured")
        })
    }
}

/// Adds what was measured before an attempt to what died, and its rungs to those taken.
pub(super) fn add_tried(
    history: &History,
    attempt: u32,
    rungs: &mut Vec<Layer>,
    tried: &mut Vec<PastAttempt>,
) {
    for check in history.phantoms(attempt) {
        let incident = check.measurement.incident();
        tried.extend(incident.map(|i| PastAttempt::new(rungs.clone(), i, Vec::new())));
        rungs.extend(check.layers());
    }
}
