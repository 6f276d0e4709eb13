//! What the scheduler and the samplers say now of jobs that are not over.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Runs, Stored};
use crate::core::engine::{Attempt, RunPhase};
use crate::core::measure::Measured;
use crate::core::request::Stacks;
use crate::io::sampler::peaks;
use crate::view::{CommandFailure, print};
use oomctl_base::job::{HostUse, JobId, JobRef, JobStatus};

/// Puts the scheduler's present word on live jobs, and what their samplers saw, into the histories in memory.
pub fn ask(runs: &Runs, stored: &mut [Stored], now: Timestamp) -> Result<(), CommandFailure> {
    let mut by_backend: BTreeMap<(String, bool), Vec<JobRef>> = BTreeMap::new();
    let mut stacks = Stacks::new();
    for run in stored
        .iter()
        .filter(|s| s.history.phase() == RunPhase::Live)
    {
        let backend = run.sharing(&mut stacks)?.inputs().backend.clone();
        let job = run.history.attempt().and_then(|a| a.job.clone());
        let asked = by_backend.entry((backend, run.is_ours()));
        asked.or_default().extend(job);
    }
    for ((backend, ours), jobs) in by_backend {
        let mut scheduler = match ours {
            true => runs.scheduler(&backend),
            false => runs.scheduler_of_others(&backend),
        };
        match scheduler.poll(&jobs, now) {
            Ok(poll) => {
                poll.jobs.iter().for_each(|status| update(stored, status));
                if !ours {
                    tell_unseen(&backend, &jobs, &poll.jobs);
                }
            }
            Err(e) => print::talk(&format!(
                "no answer from {e}; showing the last known states"
            )),
        }
    }
    stored.iter_mut().for_each(look);
    Ok(())
}

/// Says of which jobs of others the scheduler says nothing.
fn tell_unseen(backend: &str, jobs: &[JobRef], seen: &[JobStatus]) {
    let is_seen = |job: &&JobRef| seen.iter().any(|status| status.id == job.id);
    let unseen: Vec<&str> = jobs
        .iter()
        .filter(|job| !is_seen(job))
        .map(|job| job.id.0.as_str())
        .collect();
    if !unseen.is_empty() {
        print::talk(&format!(
            "{backend} does not show you job {} of another user; showing the last known states",
            unseen.join(", ")
        ));
    }
}

/// Puts what ended jobs used of their nodes into the histories in memory, where the ledger does not say it: accounting hears
/// of a job's last step after its end. Who may not read the request of a run, or of its jobs, does without.
pub fn ask_host_use(runs: &Runs, stored: &mut [Stored]) {
    let mut by_backend: BTreeMap<String, Vec<JobRef>> = BTreeMap::new();
    for run in stored.iter() {
        let jobs: Vec<JobRef> = run
            .history
            .attempts
            .iter()
            .filter_map(unaccounted)
            .collect();
        if let (false, Ok(request)) = (jobs.is_empty(), run.request()) {
            let backend = request.inputs().backend.clone();
            by_backend.entry(backend).or_default().extend(jobs);
        }
    }
    for (backend, jobs) in by_backend {
        let found = runs.scheduler(&backend).host_use(&jobs);
        let found: BTreeMap<JobId, HostUse> = found.into_iter().collect();
        let attempts = stored.iter_mut().flat_map(|s| &mut s.history.attempts);
        for attempt in attempts.filter(|a| unaccounted(a).is_some()) {
            let host = attempt.job.as_ref().and_then(|job| found.get(&job.id));
            if let (Some(status), Some(host)) = (&mut attempt.status, host) {
                status.host = Some(Box::new(*host));
            }
        }
    }
}

/// The job of an attempt that ended and of which the ledger does not say what it used of its nodes.
fn unaccounted(attempt: &Attempt) -> Option<JobRef> {
    let host = attempt.status.as_ref()?.host.as_ref();
    let known = host.is_some_and(|host| host.memory_peak.is_some());
    let job = attempt.job.as_ref()?;
    (attempt.ended_at.is_some() && !known).then(|| job.clone())
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
