//! Whether the next attempt is measured on phantom GPUs before it is submitted, and what follows from that.
//!
//! What does not fit there is answered as a failure of an attempt would be. What fits there is submitted, and proves nothing
//! against a failure on a GPU: the phantom does not see everything.

use super::outcome::Verdict;
use super::phantom::{PhantomCheck, PhantomMeasurement};
use super::state::{Run, RunPhase};
use crate::core::ladder::{Decision, Past, Peak};
use oomctl_diagnose::{Class, Incident};

/// Configurations that are measured at most before one attempt.
const MEASUREMENTS_MAX: usize = 8;
/// Seconds after which no further one is measured.
const MEASURING_MAX_S: u64 = 900;

impl Run {
    /// Is the next attempt to be measured first? One that a rung changed, or the first, where the project asks for it.
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
            peaks: &Peak::on_phantom(&measurement.summary),
            left_out: &self.history.left_out(),
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

    /// Why no further configuration is measured before an attempt; `None` while one may be.
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
