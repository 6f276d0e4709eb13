//! Before a rung that asks for more: when the scheduler would start what answers the failure, and what follows from that.

use super::fact::Fact;
use super::outcome::Verdict;
use super::state::{Attempt, Run, RunPhase};
use super::verdict::{answered_incident, verdict, with_past};
use crate::core::ladder::{Decision, Policy, Work};
use crate::core::request::{Alternative, QueueChoice, QueueStart, work_left};
use oomctl_diagnose::Incident;

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

fn alternatives(
    run: &Run,
    attempt: &Attempt,
    incident: &Incident,
    first: &Decision,
) -> Vec<Alternative> {
    let rungs = run.history.rungs();
    with_past(run, attempt, |past| {
        run.request
            .alternatives(first, &rungs, past, Some(incident), attempt.number)
    })
}

/// What the ladder says to an incident, after what the scheduler said of it and of the other answers.
pub(super) fn chosen(
    run: &Run,
    attempt: &Attempt,
    incident: &Incident,
    first: Decision,
) -> Decision {
    let Some((at, starts)) = &attempt.queue else {
        return first;
    };
    let alternatives = alternatives(run, attempt, incident, &first);
    let choice = QueueChoice {
        alternatives: &alternatives,
        starts,
        at: *at,
        gpus: attempt.gpus,
        work: work(run, attempt),
    };
    match run.request.by_queue(&choice) {
        Some(taken) => Decision::Climb {
            steps: taken.steps,
            skipped: taken.skipped,
            expects: taken.expects,
        },
        None => first,
    }
}

/// What the attempt had left to do.
fn work(run: &Run, attempt: &Attempt) -> Work {
    let progress = attempt.progress.as_ref();
    let steps = progress.and_then(|p| Some((p.step, p.total?)));
    let limit = run.request.resources(&run.history.rungs()).ok();
    let limit = limit.and_then(|r| r.time_limit_s);
    let ends = run.request.supervision().time_limit_retries == 0;
    work_left(&attempt.measured.steps_ms, steps, limit.filter(|_| ends))
}
