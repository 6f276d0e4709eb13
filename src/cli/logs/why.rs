//! What the configuration of an attempt adds to its incident: which bugs it can have, and why one GPU was full.

use super::LogGroup;
use crate::cli::runs::Runs;
use crate::core::request::Explanation;
use crate::drive::explained;
use oomctl_diagnose::Incident;

/// Settles which bugs an attempt can have, and explains its incident; `None` for logs that are of no run, and where
/// nothing is explained.
pub fn why(runs: &Runs, group: &LogGroup, incident: &mut Incident) -> Option<Explanation> {
    let (run, number) = group.attempt.as_ref()?;
    let stored = runs.open(run).ok()?;
    let request = stored.request().ok()?;
    let attempts = &stored.history.attempts;
    let rungs = stored.history.at_the_end_of(*number).rungs();
    request.settle(&rungs, incident);
    let attempt = attempts.iter().find(|a| a.number == *number)?;
    explained(&request, &rungs, incident, &attempt.measured)
}
