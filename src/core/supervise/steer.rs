//! What somebody who looks on can ask for beside the end of a run: the next rung now, and that a rung is left out.
//!
//! Both are facts about the present attempt before anything follows from them, so that whoever takes the run up again
//! keeps what was promised, and neither can touch an attempt that nobody had seen when it was asked for.

use jiff::Timestamp;

use super::fact::Fact;
use super::follow_up::{before_attempt, ends};
use super::history::Attempt;
use super::phase::Phase;
use super::run::Run;
use super::verdict::climb;
use crate::core::diagnose::{Class, Incident};
use crate::core::job::JobState;
use crate::core::ladder::{Decision, Step};

/// What was asked for of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Steered {
    /// Who asked for its end and the next rung.
    pub escalation: Option<String>,
    /// Rungs that what follows it leaves out.
    pub left_out: Vec<String>,
}

impl Steered {
    /// Takes in a fact, if it is one of these.
    pub(super) fn take(&mut self, fact: &Fact) {
        match fact {
            Fact::EscalationRequested { by, .. } => self.escalation = Some(by.clone()),
            Fact::RungLeftOut { rung, .. } => self.left_out.push(rung.clone()),
            _ => {}
        }
    }
}

/// The rungs that an escalation would take now.
///
/// # Errors
/// Why there would be none, in words.
pub fn outlook(run: &Run, now: Timestamp) -> Result<Vec<Step>, String> {
    let attempt = run.history.attempt().filter(|_| run.phase() == Phase::Live);
    let attempt = attempt.ok_or("there is no job at the moment that could be replaced")?;
    if ends(run, attempt) {
        return Err("the job is being ended already".to_owned());
    }
    if !run.intent.supervision().resubmit {
        return Err("this run is watched only: nothing is submitted again".to_owned());
    }
    if let Some(budget) = before_attempt(run, attempt.number + 1, now) {
        return Err(format!("the limit of {budget} is reached"));
    }
    match climb(run, attempt, &assumed()) {
        Ok(Decision::Climb { steps, .. }) => Ok(steps),
        Ok(Decision::Exhausted { skipped, .. }) => {
            let skipped = skipped.iter().map(|s| format!("{}: {}", s.rung, s.reason));
            let skipped = skipped.collect::<Vec<_>>().join("; ");
            Err(format!("no rung of the ladder is left ({skipped})"))
        }
        Err(refusal) => Err(refusal.to_string()),
    }
}

/// What an escalation without a failure answers: a GPU that is too small, and nothing more is known of it. It never
/// becomes a fact, and teaches nothing.
pub(super) fn assumed() -> Incident {
    Incident::bare("cuda_oom", Class::GpuOom)
}

/// The job is ended for the next rung, where there is one.
pub(super) fn escalate(run: &Run, attempt: &Attempt, by: &str, now: Timestamp) -> Vec<Fact> {
    match outlook(run, now) {
        Ok(_) => vec![Fact::EscalationRequested {
            attempt: attempt.number,
            by: by.to_owned(),
        }],
        Err(_) => Vec::new(),
    }
}

/// A rung that would be taken now is left out.
pub(super) fn leave_out(
    run: &Run,
    attempt: &Attempt,
    rung: &str,
    by: &str,
    now: Timestamp,
) -> Vec<Fact> {
    let next = outlook(run, now).unwrap_or_default();
    match next.iter().any(|step| step.rung == rung) {
        true => vec![Fact::RungLeftOut {
            attempt: attempt.number,
            rung: rung.to_owned(),
            by: by.to_owned(),
        }],
        false => Vec::new(),
    }
}

/// Was the attempt ended for the next rung? One that came to its own end before that is judged by it.
pub(super) fn was_ended(attempt: &Attempt) -> bool {
    let state = attempt.status.as_ref().map(|s| &s.state);
    let cancelled = matches!(state, None | Some(JobState::Cancelled));
    attempt.steered.escalation.is_some() && cancelled
}
