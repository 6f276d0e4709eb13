//! A run that is over, or waits after a refusal, goes on because somebody wants it.

use super::fact::Fact;
use super::outcome::{Outcome, RetryCause};
use super::retry::again;
use super::state::{Attempt, Run, RunPhase};

/// Somebody wants to go on with a run whose submission was refused for now, or whose last job a disk ended.
pub(super) fn resume(run: &Run, by: &str) -> Vec<Fact> {
    let history = &run.history;
    if let Some(fact) = after_a_disk(run) {
        return vec![fact];
    }
    let refused = match (&history.outcome, history.phase()) {
        (Some(Outcome::Refused { .. }), _) | (None, RunPhase::Refused) => history.attempt(),
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
    let goes_on = failed && disk && run.request.supervision().resubmit;
    goes_on.then(|| Fact::Decided {
        attempt: attempt.number,
        verdict: Box::new(again(run, attempt, RetryCause::Disk, &[])),
    })
}

/// Somebody wants a run that is over to go on, whatever ended it. What that means for its last attempt follows from this one
/// fact (`History::reopen`), so a kill loses nothing. A run that succeeded has nothing left to do.
pub(super) fn retry(run: &Run, by: &str) -> Vec<Fact> {
    let over = run.history.outcome.as_ref();
    let unfinished = over.filter(|o| **o != Outcome::Succeeded);
    let asked = unfinished.map(|_| Fact::RetryRequested { by: by.to_owned() });
    asked.into_iter().collect()
}
