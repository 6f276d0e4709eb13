//! A submission that the scheduler refuses for now: it is made again, with growing pauses, for as long as is configured.
//!
//! A refusal is a sure answer: nothing was accepted. So the same attempt may be submitted again, under its token; that it
//! will be is a fact before it is done, and a process that finds that fact from another one looks for the job first.

use jiff::Timestamp;

use super::again;
use super::event::Event;
use super::fact::{Fact, Record};
use super::follow_up::{after, seconds, signed, spent};
use super::history::{Attempt, History};
use super::outcome::{Cause, Outcome};
use super::phase::Phase;
use super::run::Run;

/// What the scheduler said against an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The scheduler's own words.
    pub reason: String,
    /// What the user can do about it.
    pub hint: Option<String>,
    /// Is it a refusal for now, whose cause passes by itself?
    pub passing: bool,
    /// When it is submitted again; `None` where it is not.
    pub again_at: Option<Timestamp>,
    /// When it was first refused.
    first: Timestamp,
    /// How often, since somebody last asked for it to be submitted.
    times: u32,
    /// Was it submitted again since?
    is_over: bool,
}

impl Refused {
    /// The same, now that it is submitted again. What a person asks for begins anew.
    fn again(&self, by: Option<&str>) -> Self {
        Self {
            times: by.map_or(self.times, |_| 0),
            is_over: true,
            ..self.clone()
        }
    }
}

impl Attempt {
    /// The refusal that stands.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refused> {
        self.refused.as_ref().filter(|r| !r.is_over)
    }
}

impl History {
    /// When a submission that was refused for now is made again.
    #[must_use]
    pub fn again_at(&self) -> Option<Timestamp> {
        let attempt = self.attempt().filter(|_| self.phase() == Phase::Refused);
        attempt?.refusal()?.again_at
    }
}

/// Takes in what was said against the attempt that counts now, and that it is submitted again.
pub(super) fn take(attempt: &mut Attempt, fact: &Fact, record: &Record) {
    let earlier = attempt.refused.as_ref();
    match fact {
        Fact::SubmitRefused {
            reason,
            hint,
            passing,
            again_s,
            ..
        } => {
            attempt.refused = Some(Refused {
                reason: reason.clone(),
                hint: hint.clone(),
                passing: *passing,
                again_at: again_s.and_then(|s| after(record.at, s)),
                first: earlier
                    .filter(|e| e.times > 0)
                    .map_or(record.at, |e| e.first),
                times: earlier.map_or(1, |e| e.times.saturating_add(1)),
                is_over: false,
            });
        }
        // The refusal was the answer to the last submission, so there is no other one to look for.
        Fact::SubmitAgain { by, .. } => {
            attempt.refused = earlier.map(|e| e.again(by.as_deref()));
            attempt.ready_epoch = record.epoch;
        }
        _ => {}
    }
}

/// What a refusal is for an attempt.
pub(super) fn refuse(run: &Run, attempt: &Attempt, event: &Event, now: Timestamp) -> Vec<Fact> {
    let Event::Refused {
        reason,
        hint,
        passing,
        ..
    } = event
    else {
        return Vec::new();
    };
    vec![Fact::SubmitRefused {
        attempt: attempt.number,
        reason: reason.clone(),
        hint: hint.clone(),
        passing: *passing,
        again_s: pause_s(run, attempt, now).filter(|_| *passing),
    }]
}

/// Seconds until an attempt that is refused for now is submitted again: doubled with every refusal. `None` when that
/// would be later than it is tried for.
fn pause_s(run: &Run, attempt: &Attempt, now: Timestamp) -> Option<u64> {
    let supervision = run.intent.supervision();
    let (first, times) = match &attempt.refused {
        Some(earlier) if earlier.times > 0 => (earlier.first, earlier.times),
        _ => (now, 0),
    };
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
        return finished(Outcome::Refused {
            reason: refused.reason.clone(),
            hint: refused.hint.clone(),
            rung: history.steps().last().map(|s| s.rung.clone()),
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

/// Somebody wants to go on with a run whose submission was refused for now, or whose last job a disk ended.
pub(super) fn resume(run: &Run, by: &str) -> Vec<Fact> {
    let history = &run.history;
    if let Some(fact) = after_a_disk(run) {
        return vec![fact];
    }
    let refused = match (&history.outcome, history.phase()) {
        (Some(Outcome::Refused { .. }), _) | (None, Phase::Refused) => history.attempt(),
        _ => None,
    };
    let passing = |a: &&Attempt| a.job.is_none() && a.refusal().is_some_and(|r| r.passing);
    let again = refused.filter(passing).map(|attempt| Fact::SubmitAgain {
        attempt: attempt.number,
        by: Some(by.to_owned()),
    });
    again.into_iter().collect()
}

/// The same configuration once more, after a job that a full or failing disk ended, and nothing else.
fn after_a_disk(run: &Run) -> Option<Fact> {
    let attempt = run.history.attempt()?;
    let failed = matches!(run.history.outcome, Some(Outcome::Failed { .. }));
    let disk = attempt.incident.as_ref().is_some_and(|i| i.kind == "disk");
    let again = failed && disk && run.intent.supervision().resubmit;
    again.then(|| Fact::Decided {
        attempt: attempt.number,
        verdict: Box::new(again::again(run, attempt, Cause::Disk, &[])),
    })
}
