//! Jobs of the user's that waited for an attempt that another one replaced.

use super::handle::Handle;
use super::monotonic_clock::TimeSource;
use super::notice::{Notice, Observer};
use crate::core::engine::{AttemptEvent, Event};
use crate::io::scheduler::Scheduler;

/// Jobs that are told of at most.
const MOST: usize = 100;
/// Seconds after which no further one is moved: each is a command of its own, and a slow controller would keep the loop from
/// its logs and its heartbeat.
const MOVING_S: i64 = 20;

/// After a resubmission: tells of the jobs that wait for the attempt before, and lets them wait for this one where that is asked
/// for.
pub(super) fn tell(
    handle: &Handle,
    event: &Event,
    scheduler: &mut dyn Scheduler,
    clock: &TimeSource,
    observer: &mut dyn Observer,
) {
    let history = handle.history();
    let mut latest = history.attempts.iter().rev();
    let (Event::Attempt(_, AttemptEvent::Accepted { .. }), Some(new), Some(old)) =
        (event, latest.next(), latest.next())
    else {
        return;
    };
    let (Some(new), Some(old)) = (&new.job, &old.job) else {
        return;
    };
    let moves = handle.run.request.supervision().move_dependents;
    let start = clock();
    for job in scheduler.dependents(old).iter().take(MOST) {
        let in_time = clock().duration_since(start).as_secs() < MOVING_S;
        let moved = (moves && in_time).then(|| scheduler.redirect(job, &old.id, new));
        let trouble = moved.as_ref().and_then(|m| m.as_ref().err());
        if let Some(trouble) = trouble {
            observer.notice(&Notice::Trouble {
                run: Some(handle.name()),
                what: &trouble.to_string(),
            });
        }
        observer.notice(&Notice::Dependent {
            run: handle.name(),
            job,
            moved: moved.is_some_and(|m| m.is_ok()),
            to: &new.id,
        });
    }
}
