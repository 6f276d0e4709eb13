//! A run that is over, or waits after a refusal, goes on because somebody wants it.

use super::fact::Fact;
use super::outcome::{Outcome, RetryCause, Verdict};
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

/// Somebody wants a run that is over to go on, whatever ended it: with its last configuration, or with the next one where
/// that was decided and never submitted. One that succeeded has nothing left to do.
pub(super) fn retry(run: &Run, by: &str) -> Vec<Fact> {
    let history = &run.history;
    let over = history.outcome.as_ref();
    let Some(outcome) = over.filter(|o| **o != Outcome::Succeeded) else {
        return Vec::new();
    };
    let by = by.to_owned();
    let next = history.attempt().and_then(|attempt| {
        let decided = matches!(&attempt.verdict, Some(v) if !matches!(v, Verdict::End { .. }));
        // What could not be rendered or was refused is not tried a second time.
        let stands = decided && !matches!(outcome, Outcome::Configuration { .. });
        match attempt.job {
            _ if stands => None,
            Some(_) => Some(Fact::Decided {
                attempt: attempt.number,
                verdict: Box::new(again(run, attempt, RetryCause::Asked, &[])),
            }),
            None => Some(Fact::SubmitAgain {
                attempt: attempt.number,
                by: Some(by.clone()),
            }),
        }
    });
    [Some(Fact::RetryRequested { by }), next]
        .into_iter()
        .flatten()
        .collect()
}
