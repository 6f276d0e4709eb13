//! What the scheduler said against an attempt.

use jiff::Timestamp;

use crate::core::engine::fact::Fact;
use crate::core::engine::time::after;

/// What the scheduler said against an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedulerRefusal {
    /// The scheduler's own words.
    pub reason: String,
    /// What the user can do about it.
    pub hint: Option<String>,
    /// Is it a refusal for now, whose cause passes by itself?
    pub passing: bool,
    /// When it is submitted again; `None` where it is not.
    pub again_at: Option<Timestamp>,
    /// When it was first refused.
    pub(in crate::core::engine) first: Timestamp,
    /// How often, since somebody last asked for it to be submitted.
    pub(in crate::core::engine) times: u32,
    /// Was it submitted again since?
    pub(super) is_over: bool,
}

impl SchedulerRefusal {
    /// What stands against an attempt after a fact, where the fact is a refusal.
    pub(super) fn after(earlier: Option<&Self>, fact: &Fact, at: Timestamp) -> Option<Self> {
        let Fact::SubmitRefused {
            reason,
            hint,
            passing,
            again_s,
            ..
        } = fact
        else {
            return earlier.cloned();
        };
        Some(Self {
            reason: reason.clone(),
            hint: hint.clone(),
            passing: *passing,
            again_at: again_s.and_then(|s| after(at, s)),
            first: earlier.filter(|e| e.times > 0).map_or(at, |e| e.first),
            times: earlier.map_or(1, |e| e.times.saturating_add(1)),
            is_over: false,
        })
    }

    /// The same, now that it is submitted again. What a person asks for begins anew.
    pub(super) fn again(&self, by: Option<&str>) -> Self {
        Self {
            times: by.map_or(self.times, |_| 0),
            is_over: true,
            ..self.clone()
        }
    }
}
