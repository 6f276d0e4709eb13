//! What follows by itself: from facts alone, or from the passing of time.

use jiff::Timestamp;

use super::budget::{before_attempt, spent};
use super::ending::may_requeue;
use super::fact::Fact;
use super::foreseen::Foreseen;
use super::hangs::{ends, idle_at, stalled_at};
use super::outcome::{Outcome, Verdict};
use super::state::{Attempt, Run, RunPhase, part, uncounted};
use super::time::{passed, seconds, signed};
use super::verdict::verdict;
use super::{queue, refused};
use oomctl_base::job::{JobState, JobStatus, Stage, never_passes};

/// The one fact that follows by itself from where the run stands.
pub(super) fn follow_up(run: &Run, now: Timestamp) -> Option<Fact> {
    let history = &run.history;
    let finished = |outcome| Some(Fact::Finished { outcome });
    match run.phase() {
        RunPhase::Preparing(_) | RunPhase::Submitting if history.cancel.is_some() => {
            finished(Outcome::Cancelled {
                by: history.cancel.clone(),
            })
        }
        RunPhase::Preparing(_) | RunPhase::Submitting if history.pruned.is_some() => {
            history.pruned().and_then(finished)
        }
        RunPhase::Preparing(number) => before_attempt(run, number, now)
            .and_then(|budget| finished(Outcome::BudgetSpent { budget })),
        RunPhase::Refused => refused::follow_up(run, now),
        RunPhase::Live => live(run, history.attempt()?, now),
        RunPhase::Judging => {
            let attempt = history.attempt()?;
            let verdict = verdict(run, attempt);
            (!queue::is_open(run, attempt, &verdict)).then(|| Fact::Decided {
                attempt: attempt.number,
                verdict: Box::new(verdict),
            })
        }
        RunPhase::Closing => match &history.attempt()?.verdict {
            Some(Verdict::End { outcome }) => finished(outcome.clone()),
            _ => None,
        },
        RunPhase::Submitting | RunPhase::Searching | RunPhase::Draining | RunPhase::Finished => {
            None
        }
    }
}

/// What follows by itself while a job exists.
fn live(run: &Run, attempt: &Attempt, now: Timestamp) -> Option<Fact> {
    if let Some(status) = attempt.status.as_ref().filter(|s| is_over(run, s)) {
        return Some(ended(attempt, Some(status.clone()), now));
    }
    if run.history.budget.is_none()
        && let Some(budget) = spent(run, now)
    {
        return Some(Fact::BudgetSpent { budget });
    }
    if let Some(reason) = never_starts(run, attempt) {
        return Some(Fact::NeverStarts {
            attempt: attempt.number,
            reason,
        });
    }
    // The job must have been seen running after the grace time: somebody else may have cancelled it
    // since the last poll, and that is no stall.
    let seen = |at: &Timestamp| run.watch.answered.is_some_and(|seen| *at <= seen);
    if let Some(since) = stalled_at(run, attempt)
        .filter(seen)
        .and(run.watch.quiet_since)
    {
        return Some(stalled(run, attempt, since, now));
    }
    if let Some(foreseen) = foreseen(run, attempt) {
        let attempt = attempt.number;
        return Some(Fact::Foreseen { attempt, foreseen });
    }
    let idle_since = run.watch.moved_at?;
    idle_at(run, attempt).filter(seen)?;
    if attempt.idle_s.is_some() {
        return Some(stalled(run, attempt, idle_since, now));
    }
    Some(Fact::Idle {
        attempt: attempt.number,
        idle_s: passed(idle_since, now),
    })
}

/// What is seen coming in a job that runs, and was not said before.
fn foreseen(run: &Run, attempt: &Attempt) -> Option<Foreseen> {
    if attempt.foreseen.is_some() || ends(run, attempt) {
        return None;
    }
    let total = run.watch.progress.as_ref().and_then(|p| p.total);
    let limit = |pool| run.request.memory_limit(&run.history.rungs(), pool);
    run.watch.rising.foreseen(limit, total)
}

/// What a job of ours has waited for in vain for so long that it is ended: a reason that no waiting cures, on disk, and
/// heard by this process since.
fn never_starts(run: &Run, attempt: &Attempt) -> Option<String> {
    let patience_s = run.request.supervision().never_starts_s;
    let in_vain = |s: &&JobStatus| {
        let reason = s.reason.as_deref().unwrap_or_default();
        s.state == JobState::Pending && never_passes(reason)
    };
    let known = attempt.status.as_ref().filter(in_vain)?;
    run.watch.last_status.as_ref().filter(in_vain)?;
    let waited = seconds(attempt.status_at, run.watch.answered?);
    let is_ours = attempt.token.is_some() && !ends(run, attempt);
    let is_long = patience_s > 0 && waited >= signed(patience_s);
    known.reason.clone().filter(|_| is_ours && is_long)
}

/// The job hangs and is ended; what that saves.
fn stalled(run: &Run, attempt: &Attempt, since: Timestamp, now: Timestamp) -> Fact {
    let started = attempt.status.as_ref().and_then(|s| s.started);
    let limit = run.request.resources(&run.history.rungs());
    let limit = limit.ok().and_then(|r| r.time_limit_s);
    let left = started
        .zip(limit)
        .map(|(started, limit)| limit.saturating_sub(passed(started, now)));
    Fact::Stalled {
        attempt: attempt.number,
        quiet_s: passed(since, now),
        saved_gpu_seconds: left.map(|left| left.saturating_mul(attempt.gpus)),
    }
}

/// Is the job really over? A node failure, a preemption or a failed boot can still be followed by a
/// requeue under the same id, so these words must stand for the settle time.
fn is_over(run: &Run, status: &JobStatus) -> bool {
    if status.state.stage() != Stage::Ended {
        return false;
    }
    let watch = &run.watch;
    let last = watch.last_status.as_ref();
    let heard = last.is_some_and(|last| last.state == status.state);
    // Heard by this process: the clock of the one that wrote the fact down may have been another.
    let since = watch.said_since.filter(|_| heard);
    let stands_s = since
        .zip(watch.answered)
        .map(|(since, asked)| seconds(since, asked));
    !may_requeue(&status.state)
        || stands_s.is_some_and(|s| s >= signed(run.request.supervision().settle_s))
}

pub(super) fn ended(attempt: &Attempt, status: Option<JobStatus>, now: Timestamp) -> Fact {
    let earlier = status.as_ref().and_then(|s| uncounted(attempt, s));
    Fact::Ended {
        attempt: attempt.number,
        gpu_seconds: part(attempt, now) + earlier.unwrap_or(0.0),
        status,
    }
}

/// The final word that was heard of a job before the scheduler forgot it.
pub(super) fn last_end(attempt: &Attempt) -> Option<JobStatus> {
    attempt
        .status
        .clone()
        .filter(|s| s.state.stage() == Stage::Ended)
}
