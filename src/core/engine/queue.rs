//! Before a rung that asks for more: what the scheduler is asked.

use super::fact::Fact;
use super::outcome::Verdict;
use super::queue_choice::alternatives;
use super::state::{Attempt, Run, RunPhase};
use super::verdict::{answered_incident, verdict};
use crate::core::ladder::{Decision, Policy};
use crate::core::request::{Alternative, QueueStart};

/// The scheduler that can be asked.
const ASKED: &str = "slurm";

impl Run {
    /// The answers to the failure of the present attempt of which the scheduler is to say when each would start, before it is
    /// decided; none where it was asked, or the queue decides nothing: the ladder asks for no more than before, and the
    /// policy is not `soonest`.
    #[must_use]
    pub fn queue_question(&self) -> Vec<Alternative> {
        let attempt = self.history.attempt();
        let attempt = attempt.filter(|a| self.phase() == RunPhase::Judging && a.queue.is_none());
        let Some(attempt) = attempt.filter(|_| self.request.inputs().backend == ASKED) else {
            return Vec::new();
        };
        let Some(incident) = answered_incident(attempt) else {
            return Vec::new();
        };
        let Verdict::Climb {
            steps,
            skipped,
            expects,
        } = verdict(self, attempt)
        else {
            return Vec::new();
        };
        let more = self.request.asks_for_more(&steps);
        let first = Decision::Climb {
            steps,
            skipped,
            expects,
        };
        if !more && self.request.inputs().policy != Policy::Soonest {
            return Vec::new();
        }
        let all = alternatives(self, attempt, &incident, &first);
        match all.len() {
            1 if !more => Vec::new(),
            _ => all,
        }
    }
}

/// The scheduler was asked, once.
pub(super) fn asked(attempt: &Attempt, starts: &[QueueStart]) -> Vec<Fact> {
    let fact = || Fact::QueueAsked {
        attempt: attempt.number,
        starts: starts.to_vec(),
    };
    let first = attempt.queue.is_none().then(fact);
    first.into_iter().collect()
}
