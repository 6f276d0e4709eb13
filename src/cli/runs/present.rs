//! What the scheduler and the samplers say now of jobs that are not over.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Runs, Stored};
use crate::core::engine::RunPhase;
use crate::core::measure::Measured;
use crate::io::sampler::peaks;
use crate::view::{CommandFailure, print};
use oomctl_base::job::{JobRef, JobStatus};

/// Puts the scheduler's present word on live jobs, and what their samplers saw, into the histories in memory.
pub fn ask(runs: &Runs, stored: &mut [Stored], now: Timestamp) -> Result<(), CommandFailure> {
    let mut by_backend: BTreeMap<String, Vec<JobRef>> = BTreeMap::new();
    for run in stored
        .iter()
        .filter(|s| s.history.phase() == RunPhase::Live)
    {
        let backend = run.request()?.inputs().backend.clone();
        let job = run.history.attempt().and_then(|a| a.job.clone());
        by_backend.entry(backend).or_default().extend(job);
    }
    for (backend, jobs) in by_backend {
        match runs.scheduler(&backend).poll(&jobs, now) {
            Ok(poll) => poll.jobs.iter().for_each(|status| update(stored, status)),
            Err(e) => print::talk(&format!(
                "no answer from {e}; showing the last known states"
            )),
        }
    }
    stored.iter_mut().for_each(look);
    Ok(())
}

/// Puts what the samplers of a job have seen so far into its history in memory.
fn look(run: &mut Stored) {
    if run.history.phase() != RunPhase::Live {
        return;
    }
    if let Some(attempt) = run.history.attempts.last_mut() {
        let gpus = peaks(&run.folder.attempt(attempt.number));
        attempt.measured = Measured::new(gpus, Vec::new());
    }
}

fn update(stored: &mut [Stored], status: &JobStatus) {
    let attempts = stored
        .iter_mut()
        .filter_map(|s| s.history.attempts.last_mut());
    for attempt in attempts {
        if attempt.job.as_ref().is_some_and(|j| j.id == status.id) {
            attempt.status = Some(status.clone());
        }
    }
}
