//! A submission that the scheduler refuses for now: it is made again, with growing pauses, for as long as is configured.
//!
//! A refusal is a sure answer: nothing was accepted. So the same attempt may be submitted again, under its token; that it
//! will be is a fact before it is done, and a process that finds that fact from another one looks for the job first.

use jiff::Timestamp;

use super::budget::spent;
use super::fact::Fact;
use super::outcome::{Outcome, Verdict};
use super::state::{Attempt, Run, SchedulerRefusal};
use super::time::{seconds, signed};
use crate::core::ladder::Step;

/// Seconds until an attempt that is refused for now is submitted again: doubled with every refusal. `None` when that
/// would be later than it is tried for.
pub(super) fn pause_s(run: &Run, attempt: &Attempt, now: Timestamp) -> Option<u64> {
    let supervision = run.request.supervision();
    let earlier = attempt.refused.as_ref().filter(|e| e.times > 0);
    let (first, times) = earlier.map_or((now, 0), |e| (e.first, e.times));
    let pause = supervision
        .refused_pause_s
        .saturating_mul(1 << times.min(16))
        .min(supervision.refused_pause_max_s)
        .max(1);
    let then = seconds(first, now).saturating_add(signed(pause));
    (then <= signed(supervision.refused_wait_s)).then_some(pause)
}

/// What follows by itself from a refusal.
pub(super) fn follow_up(run: &Run, now: Timestamp) -> Option<Fact> {
    let history = &run.history;
    let attempt = history.attempt()?;
    let refused = attempt.refusal()?;
    let finished = |outcome| Some(Fact::Finished { outcome });
    let Some(again_at) = refused.again_at else {
        if let Some(steps) = without_gpu(run, attempt, refused) {
            return Some(Fact::Decided {
                attempt: attempt.number,
                verdict: Box::new(Verdict::Climb {
                    steps,
                    skipped: Vec::new(),
                    expects: None,
                    withdrawn: None,
                }),
            });
        }
        return finished(Outcome::Refused {
            reason: refused.reason.clone(),
            hint: refused.hint.clone(),
            rung: history.steps().last().map(|s| s.rung.clone()),
            program: run.request.is_program(),
        });
    };
    if history.cancel.is_some() {
        let by = history.cancel.clone();
        return finished(Outcome::Cancelled { by });
    }
    if let Some(outcome) = history.pruned() {
        return finished(outcome);
    }
    if let Some(budget) = spent(run, now) {
        return finished(Outcome::BudgetSpent { budget });
    }
    (again_at <= now).then_some(Fact::SubmitAgain {
        attempt: attempt.number,
        by: None,
    })
}

/// The rungs of a program that no GPU came free for, and that may run without.
fn without_gpu(run: &Run, attempt: &Attempt, refused: &SchedulerRefusal) -> Option<Vec<Step>> {
    let (request, rungs) = (&run.request, run.history.rungs());
    let steps = refused
        .passing
        .then(|| request.without_gpu(&rungs, attempt.number))?;
    steps.ok().flatten()
}
