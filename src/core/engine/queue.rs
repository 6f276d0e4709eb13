//! Before a rung that asks for more: what the scheduler is asked.

use super::ending::answered_incident;
use super::fact::Fact;
use super::outcome::Verdict;
use super::queue_choice::alternatives;
use super::state::{Attempt, Run, RunPhase};
use super::verdict::verdict;
use crate::core::ladder::{Decision, Policy};
use crate::core::request::{Alternative, QueueStart};
use oomctl_diagnose::Incident;

/// The scheduler that can be asked.
const ASKED: &str = "slurm";

/// A verdict that may depend on when its answers would start.
struct OpenVerdict<'r> {
    run: &'r Run,
    attempt: &'r Attempt,
    incident: Incident,
    /// What the ladder says.
    first: Decision,
    /// It asks for more than before.
    more: bool,
}

impl<'r> OpenVerdict<'r> {
    /// `None` where the scheduler was asked, cannot be asked, or has nothing to say: no rung asks for more, and the policy is
    /// not `soonest`.
    fn of(run: &'r Run, attempt: &'r Attempt, verdict: &Verdict) -> Option<Self> {
        let inputs = run.request.inputs();
        if attempt.queue.is_some() || inputs.backend != ASKED {
            return None;
        }
        let Verdict::Climb {
            steps,
            skipped,
            expects,
            withdrawn: None,
        } = verdict
        else {
            return None;
        };
        let more = run.request.asks_for_more(steps);
        (more || inputs.policy == Policy::Soonest).then_some(())?;
        Some(Self {
            run,
            attempt,
            incident: answered_incident(attempt)?,
            first: Decision::Climb {
                steps: steps.clone(),
                skipped: skipped.clone(),
                expects: expects.clone(),
            },
            more,
        })
    }

    /// The answers to compare; none where the only one asks for no more.
    fn answers(&self) -> Vec<Alternative> {
        let all = alternatives(self.run, self.attempt, &self.incident, &self.first);
        match all.len() {
            1 if !self.more => Vec::new(),
            _ => all,
        }
    }
}

impl Run {
    /// The answers to the failure of the present attempt of which the scheduler is to say when each would start, before it is
    /// decided; none where nothing waits for that.
    pub fn queue_question(&self) -> Vec<Alternative> {
        let attempt = self.history.attempt();
        let attempt = attempt.filter(|_| self.phase() == RunPhase::Judging);
        let open = attempt.and_then(|a| OpenVerdict::of(self, a, &verdict(self, a)));
        open.map_or_else(Vec::new, |open| open.answers())
    }
}

/// Does a verdict wait for what the scheduler says?
pub(super) fn is_open(run: &Run, attempt: &Attempt, verdict: &Verdict) -> bool {
    let open = OpenVerdict::of(run, attempt, verdict);
    open.is_some_and(|open| open.more || !open.answers().is_empty())
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
