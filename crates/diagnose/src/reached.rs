//! How far training has come.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How far training has come, as the log shows it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Progress {
    /// Last finished training step, as printed: a bar may begin anew in every epoch, or count what is left
    /// of a run that was resumed.
    pub step: u64,
    /// Steps in all, where the log says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// Steps that this attempt itself has finished, where these are not `step`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<u64>,
}

impl Progress {
    /// The step that a log shows, and how many there are in all.
    pub fn new(step: u64, total: Option<u64>) -> Self {
        Self {
            step,
            total,
            own: None,
        }
    }

    /// Steps that the attempt itself has finished.
    pub fn done(&self) -> u64 {
        self.own.unwrap_or(self.step)
    }

    /// Did it come further than another attempt of the run did? `None` where the printed steps cannot tell.
    pub fn is_further_than(&self, before: &Self) -> Option<bool> {
        if self.done() == 0 {
            return Some(false);
        }
        // A bar that began anew tells no place, and one with another end counts from another beginning.
        let restarted = |p: &Self| p.done() > p.step;
        let same_end = self.total.is_none() || before.total.is_none() || self.total == before.total;
        let told = same_end && !restarted(self) && !restarted(before);
        told.then_some(self.step > before.step)
    }

    /// The tenth of the way in which this step is, or its tens where the end is not known: what is worth a
    /// line, where each step is not.
    pub fn tenth(&self) -> u64 {
        match self.total {
            Some(total) if total > 0 => self.step.saturating_mul(10) / total,
            _ => self.step / 10,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(step: u64, total: Option<u64>, own: Option<u64>) -> Progress {
        Progress { step, total, own }
    }

    #[test]
    fn how_far_two_attempts_came_is_compared_only_where_their_steps_are_places() {
        let further = |now: Progress, before: Progress| now.is_further_than(&before);
        let of = |step| progress(step, Some(100), None);
        assert_eq!(further(of(40), of(40)), Some(false));
        assert_eq!(further(of(41), of(40)), Some(true));
        // Resumed, and nothing came of it.
        assert_eq!(
            further(progress(40, Some(100), Some(0)), of(30)),
            Some(false)
        );
        // A bar of what was left, and bars of epochs.
        assert_eq!(further(progress(40, Some(60), None), of(40)), None);
        assert_eq!(further(of(10), progress(50, Some(100), Some(150))), None);
    }
}
