//! What the scheduler's word and the text of the logs prove of the end of a job.

use super::outcome::RetryCause;
use super::state::{Attempt, Run};
use oomctl_base::job::{ExitStatus, JobState, JobStatus};
use oomctl_base::units::Bytes;
use oomctl_diagnose::{Class, Evidence, EvidenceRole, Incident};

/// COMPLETED is success, unless the script may hide the exit code of its program and the log ends with a failure. Where memory
/// ran out, it is none either where no step was done at all.
pub(super) fn succeeded(run: &Run, attempt: &Attempt) -> bool {
    let (status, incident) = (attempt.status.as_ref(), attempt.incident.as_ref());
    let Some(completed) = status.filter(|s| s.state == JobState::Completed) else {
        return false;
    };
    let hidden = || {
        completed.step_out_of_memory
            || completed.derived_exit.is_some_and(ExitStatus::failed)
            || run.request.may_hide_exit()
    };
    match memory_incident(status, incident) {
        Some(memory) => memory.first_step == Some(false) && !hidden(),
        None => !incident.is_some_and(|i| i.fatal) || !hidden(),
    }
}

/// Did it end well, and nothing in its log says that memory ran out, or that it caught a failure? Then its configuration fits. Where the
/// script hides the exit code of its program, the log has to show that it came to its end.
pub(super) fn fitted(run: &Run, attempt: &Attempt) -> bool {
    let (status, incident) = (attempt.status.as_ref(), attempt.incident.as_ref());
    let caught = |i: &Incident| i.evidence.iter().any(|e| e.role == EvidenceRole::Survived);
    memory_incident(status, incident).is_none()
        && !incident.is_some_and(caught)
        && succeeded(run, attempt)
        && (!run.request.may_hide_exit() || came_to_its_end(attempt))
        && !attempt.printed_nothing()
}

/// Whether its last step is near the end that its log names.
fn came_to_its_end(attempt: &Attempt) -> bool {
    let progress = attempt.progress.as_ref();
    progress.is_some_and(|p| p.total.is_some_and(|total| p.step >= total - total / 10))
}

/// Does the text of the logs decide what follows? Where the scheduler says only that it failed, or
/// nothing at all.
pub(super) fn text_decides(status: Option<&JobStatus>) -> bool {
    status.is_none_or(|status| match status.state {
        JobState::Failed | JobState::OutOfMemory => true,
        JobState::Completed => status.derived_exit.is_some_and(ExitStatus::failed),
        _ => false,
    })
}

/// The memory failure that ended the attempt: as the text proves it, else as the scheduler says it.
pub(super) fn memory_incident(
    status: Option<&JobStatus>,
    incident: Option<&Incident>,
) -> Option<Incident> {
    // A bare `Killed` may be anybody's kill; without a witness it is no reason to ask for more memory. Where its own message
    // has a remedy, the ladder tries that alone.
    let answered = |i: &&Incident| !i.is_bare_kill() || i.says_what_helps();
    if let Some(incident) = incident.filter(|i| i.fatal && i.class != Class::NotOom && answered(i))
    {
        return Some(incident.clone());
    }
    let status = status.filter(|s| s.state == JobState::OutOfMemory || s.step_out_of_memory)?;
    Some(host_oom(status))
}

/// The incident for an OOM kill that only the scheduler knows of.
fn host_oom(status: &JobStatus) -> Incident {
    let exit = status
        .exit
        .map(|e| format!(", exit {e}"))
        .unwrap_or_default();
    Incident {
        retryable_unchanged: Some(false),
        evidence: vec![Evidence {
            signature: "scheduler".to_owned(),
            role: EvidenceRole::Root,
            file: String::new(),
            line: 0,
            offset: 0,
            text: format!("job {} ended in {}{exit}", status.id, status.state.word()),
        }],
        ..Incident::bare("host_oom", Class::HostOom)
    }
}

/// The incident that a rung is to answer: out of memory, or what somebody assumes who asked for the next rung.
pub(super) fn answered_incident(attempt: &Attempt) -> Option<Incident> {
    let of_memory = memory_incident(attempt.status.as_ref(), attempt.incident.as_ref());
    of_memory.or_else(|| attempt.was_ended_for_a_rung().then(assumed))
}

/// What an escalation without a failure answers: a GPU that is too small, and nothing more is known of it. It never
/// becomes a fact, and teaches nothing.
pub(super) fn assumed() -> Incident {
    Incident::bare("cuda_oom", Class::GpuOom)
}

/// Would the allocation have fitted if the others were gone? Without figures for what failed, what
/// others hold must be at least 1 GiB, more than the context of a monitor or a display.
pub fn of_others(incident: &Incident) -> bool {
    let Some(others) = incident.co_tenant_bytes else {
        return false;
    };
    match (incident.requested_bytes, incident.free_bytes) {
        (Some(requested), Some(free)) => free.0.saturating_add(others.0) >= requested.0,
        _ => others >= Bytes(1 << 30),
    }
}

/// Does only a difference say that others hold memory: what is used on the GPU less what PyTorch reserved? Libraries of the
/// job itself hold memory outside PyTorch, too.
pub(super) fn only_by_difference(incident: &Incident) -> bool {
    let gap = || {
        let used = incident
            .total_bytes?
            .0
            .checked_sub(incident.free_bytes?.0)?;
        used.checked_sub(incident.reserved_bytes?.0)
    };
    let others = incident.co_tenant_bytes.map(|bytes| bytes.0);
    others.is_some() && others == gap()
}

/// May others have held what was missing, although no figure says so? PyTorch's allocator gives figures with its own lack of
/// memory. The driver that has no room while the model goes to the GPU gives none: it met what was there before.
pub(super) fn may_be_of_others(incident: &Incident) -> bool {
    let loading = ["init", "load"].contains(&incident.phase.as_str());
    loading && incident.kind == "cuda_driver_oom" && incident.requested_bytes.is_none()
}

/// States after which the scheduler may still start the job again by itself.
pub(super) fn may_requeue(state: &JobState) -> bool {
    matches!(
        state,
        JobState::NodeFail | JobState::Preempted | JobState::BootFail
    )
}

/// States that say nothing about the configuration.
pub(super) fn cause(state: &JobState) -> Option<RetryCause> {
    match state {
        JobState::Timeout | JobState::Deadline => Some(RetryCause::TimeLimit),
        JobState::Preempted => Some(RetryCause::Preemption),
        state if may_requeue(state) => Some(RetryCause::NodeFailure),
        _ => None,
    }
}
