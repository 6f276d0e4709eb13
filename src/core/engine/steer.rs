//! What somebody who looks on can ask for beside the end of a run: the next rung now, and that a rung is left out.
//!
//! Both are facts about the present attempt before anything follows from them, so that whoever takes the run up again
//! keeps what was promised, and neither can touch an attempt that nobody had seen when it was asked for.

use jiff::Timestamp;

use super::budget::before_attempt;
use super::ending::assumed;
use super::fact::Fact;
use super::hangs::ends;
use super::state::{Attempt, Run, RunPhase};
use super::verdict::climb;
use crate::core::ladder::{Decision, Step};

/// The rungs that an escalation would take now.
///
/// # Errors
/// Why there would be none, in words.
pub fn outlook(run: &Run, now: Timestamp) -> Result<Vec<Step>, String> {
    let attempt = run
        .history
        .attempt()
        .filter(|_| run.phase() == RunPhase::Live);
    let attempt = attempt.ok_or("no job is active that could be replaced")?;
    if ends(run, attempt) {
        return Err("the job is being ended already".to_owned());
    }
    if !run.request.supervision().resubmit {
        return Err("this run is only watched: oomctl resubmits nothing".to_owned());
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
