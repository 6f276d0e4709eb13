//! Since when a job has shown no progress, and what that is called.

use jiff::Timestamp;

use super::state::{Attempt, Run};
use super::time::after;
use oomctl_base::job::{JobState, Stage};
use oomctl_diagnose::Class;

/// Is the job's end ours already, or asked for?
pub(super) fn ends(run: &Run, attempt: &Attempt) -> bool {
    attempt.stalled
        || attempt.never_starts.is_some()
        || attempt.steered.escalation.is_some()
        || run.history.cancel.is_some()
        || run.history.budget.is_some()
}

/// When a running job without progress is told of, or, where that is asked for, ended; `None` for neither.
pub(super) fn idle_at(run: &Run, attempt: &Attempt) -> Option<Timestamp> {
    let supervision = run.request.supervision();
    let status = attempt.status.as_ref();
    let running = status.is_some_and(|s| s.state == JobState::Running);
    let told = attempt.idle_s.is_some() && !supervision.stall_cancel;
    if supervision.stall_s == 0 || !running || told || ends(run, attempt) {
        return None;
    }
    after(run.watch.moved_at?, supervision.stall_s)
}

/// When a job that shows a fatal OOM and no progress is called hanging; `None` when it is not one.
pub(super) fn stalled_at(run: &Run, attempt: &Attempt) -> Option<Timestamp> {
    let memory = matches!(
        run.watch.fatal,
        Some(Class::GpuOom | Class::EngineMemory | Class::HostOom | Class::Shm)
    );
    let running = attempt
        .status
        .as_ref()
        .is_some_and(|s| s.state.stage() == Stage::Running);
    if !memory || !running || ends(run, attempt) {
        return None;
    }
    after(
        run.watch.quiet_since?,
        run.request.supervision().hang_grace_s,
    )
}
