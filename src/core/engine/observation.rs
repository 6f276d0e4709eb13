//! What an attempt teaches about memory, if anything.

use super::ending::{fitted, may_be_of_others, memory_incident, of_others, succeeded};
use super::state::{Attempt, Run};
use super::unmoved::with_the_same_figures;
use crate::core::learn::{AttemptEnd, LearnedEntry, LearnedRung, NodeEnd, NodeEntry};
use crate::core::measure::Measured;
use crate::core::request::Request;
use oomctl_base::job::JobState;
use oomctl_diagnose::{Class, Incident, Progress};

/// Steps after which a job that did not end by itself is taken to fit, as its log counts them.
const STEPS: u64 = 10;
/// Seconds that it must have run besides: a log can count the steps of an earlier job of its checkpoint.
const SECONDS: i64 = 600;
/// Kinds of incident that are a node's.
const HARDWARE: [&str; 2] = ["hw_error", "node_failure"];

/// The observation of an attempt that is over and diagnosed: it fitted, or a GPU was too small for it. `None` for
/// everything else, for jobs that ended without a line in their logs, for jobs that oomctl did not configure, and for those whose files changed meanwhile. A probe that fits is no observation: a few steps
/// without a checkpoint are less than what is said to be known.
pub fn observation(run: &Run, number: u32) -> Option<LearnedEntry> {
    let history = &run.history;
    let attempt = history.attempts.iter().find(|a| a.number == number)?;
    let id = attempt.token.as_ref()?.0.clone();
    // What is known of the job is known of the files as they were.
    if history.changed(number).iter().any(|file| !file.copied) {
        return None;
    }
    // A program that died with the same figures may not read what was changed.
    if with_the_same_figures(history, attempt) > 1 {
        return None;
    }
    let end = end(run, attempt)
        .filter(|e| *e != AttemptEnd::Fitted || run.request.inputs().probe.is_none())?;
    let past = history.at_the_end_of(number);
    let mut taken = run.request.learned();
    taken.extend(past.steps().map(LearnedRung::of));
    let mut job = run.request.job(&past.rungs()).ok()?;
    if let Some(machine) = attempt.status.as_ref().and_then(|s| s.machine.as_ref()) {
        Request::ran_on(machine, &mut job.same);
    }
    Some(LearnedEntry {
        id,
        run: history.run.clone(),
        attempt: number,
        at: attempt.ended_at.unwrap_or(attempt.intended_at),
        end,
        job,
        rungs: taken,
        measured: fullest(&attempt.measured),
    })
}

/// What the nodes of an attempt that is over and diagnosed met: it fitted, memory of a GPU ran out, or the hardware failed.
/// `None` for everything else, where other processes held the memory, and for memory of the host, of which a job's features
/// say nothing.
pub fn on_nodes(run: &Run, number: u32) -> Option<NodeEntry> {
    let attempt = run.history.attempts.iter().find(|a| a.number == number)?;
    let status = attempt.status.as_ref().filter(|s| !s.nodes.is_empty())?;
    let rungs = run.history.at_the_end_of(number).rungs();
    Some(NodeEntry {
        job: attempt.job.as_ref()?.id.to_string(),
        run: run.history.run.clone(),
        began: status
            .started
            .or_else(|| (!attempt.adopted).then_some(attempt.intended_at)),
        at: attempt.over_at().unwrap_or(attempt.intended_at),
        nodes: status.nodes.clone(),
        end: node_end(run, attempt)?,
        configuration: run.request.job(&rungs).ok(),
        gpu: attempt
            .measured
            .fullest()
            .map(|gpu| gpu.total_bytes)
            .or_else(|| attempt.incident.as_ref()?.total_bytes),
    })
}

fn node_end(run: &Run, attempt: &Attempt) -> Option<NodeEnd> {
    let (status, incident) = (attempt.status.as_ref(), attempt.incident.as_ref());
    if succeeded(run, attempt) {
        return fitted(run, attempt).then_some(NodeEnd::Fitted);
    }
    if let Some(incident) = memory_incident(status, incident) {
        let kind = incident.kind.clone();
        let counts = incident.class == Class::GpuOom && is_its_own(&incident);
        return counts.then_some(NodeEnd::Memory { kind });
    }
    let kind = incident
        .map(|i| &i.kind)
        .filter(|k| HARDWARE.contains(&k.as_str()));
    let lost = status.filter(|s| matches!(s.state, JobState::NodeFail | JobState::BootFail));
    let lost = lost.map(|s| s.state.word().to_lowercase());
    match kind.cloned().or(lost) {
        Some(kind) => Some(NodeEnd::Hardware { kind }),
        None => trained(attempt).then_some(NodeEnd::Fitted),
    }
}

fn end(run: &Run, attempt: &Attempt) -> Option<AttemptEnd> {
    let status = attempt.status.as_ref();
    let incident = attempt.incident.as_ref();
    if succeeded(run, attempt) {
        return fitted(run, attempt).then_some(AttemptEnd::Fitted);
    }
    if let Some(incident) = memory_incident(status, incident) {
        return too_small(&incident).then(|| AttemptEnd::Failed {
            kind: incident.kind.clone(),
            phase: incident.phase.clone(),
        });
    }
    trained(attempt).then_some(AttemptEnd::Fitted)
}

/// A fatal OOM of the GPU's allocator that neither other processes nor fragments explain. The budget of a
/// rollout engine is another matter: there less can be too little.
fn too_small(incident: &Incident) -> bool {
    incident.class == Class::GpuOom && !incident.fragmentation && is_its_own(incident)
}

/// Did the job itself need what was missing, for all that is known?
fn is_its_own(incident: &Incident) -> bool {
    !of_others(incident) && !may_be_of_others(incident)
}

/// Was it ended from outside after it had trained for a while?
fn trained(attempt: &Attempt) -> bool {
    let Some(status) = &attempt.status else {
        return false;
    };
    let from_outside = matches!(
        status.state,
        JobState::Timeout
            | JobState::Deadline
            | JobState::Preempted
            | JobState::NodeFail
            | JobState::Cancelled
    );
    let seconds = match (status.started, status.ended.or(attempt.ended_at)) {
        (Some(started), Some(ended)) => ended.duration_since(started).as_secs(),
        _ => 0,
    };
    let steps = attempt.progress.as_ref().map_or(0, Progress::done);
    // Whoever asks for a smaller configuration knows something that the log does not say yet.
    let wanted = attempt.stalled || attempt.steered.escalation.is_some();
    from_outside && !wanted && steps >= STEPS && seconds >= SECONDS
}

/// What is worth keeping of the peaks: the GPU that was fullest.
fn fullest(measured: &Measured) -> Measured {
    Measured {
        gpus: measured.fullest().cloned().into_iter().collect(),
        figures: measured.figures.clone(),
        steps_ms: measured.steps_ms.clone(),
    }
}
