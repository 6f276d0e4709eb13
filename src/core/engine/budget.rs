//! The bounds of a run that are reached.

use jiff::Timestamp;

use super::outcome::Budget;
use super::state::Run;
use super::time::{seconds, signed};

/// The bound that forbids another attempt.
pub(super) fn before_attempt(run: &Run, number: u32, now: Timestamp) -> Option<Budget> {
    let limit = run.request.limits().attempts.max(1);
    if number as usize > run.history.before_retry().saturating_add(limit as usize) {
        return Some(Budget::Attempts { limit });
    }
    spent(run, now)
}

/// The bound on time or GPU-hours that is reached.
pub(super) fn spent(run: &Run, now: Timestamp) -> Option<Budget> {
    let limits = run.request.limits();
    if let (Some(limit_s), Some(from)) = (limits.wall_time_s, run.history.bounded_from())
        && seconds(from, now) >= signed(limit_s)
    {
        return Some(Budget::WallTime { limit_s });
    }
    let limit = limits.gpu_hours?;
    (run.history.bounded_gpu_seconds(now) >= limit * 3_600.0).then_some(Budget::GpuHours { limit })
}
