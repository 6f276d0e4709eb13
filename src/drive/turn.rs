//! One run's turn of the loop: what is due for it alone.

use std::path::Path;

use jiff::Timestamp;

use super::handle::{Handle, attempt_logs};
use super::measuring::Measurements;
use super::monotonic_clock::TimeSource;
use super::notice::{Notice, Observer};
use super::queue::AskedForTask;
use super::{DriveError, perform, prepare};
use crate::core::adopt::version::LogExcerpt;
use crate::core::engine::{Action, AttemptEvent, Event, RunPhase, due};
use crate::core::report::GpuTrack;
use crate::core::request::VersionInLog;
use crate::io::files::is_without_room;
use crate::io::sampler::tracks;
use crate::io::scheduler::Scheduler;
use crate::io::window::log_ends;
use oomctl_base::job::JobRef;
use oomctl_diagnose::{Class, CoursePattern, Incident, MemoryCourse, Progress, of_samples};
use oomctl_follow::{Followers, LookMode};

/// Seconds between two heartbeats of the owner; less than a quarter of what others wait for.
const HEARTBEAT_S: i64 = 25;
/// Seconds between two looks for a request to end the run.
const MAILBOX_S: i64 = 2;
/// Looks for such requests in a second, of all runs together: each opens a file, which a file server feels.
const LOOKS_PER_SECOND: usize = 500;

/// What the work on one run needs besides it.
pub(super) struct Hands {
    pub(super) scheduler: Box<dyn Scheduler>,
    pub(super) followers: Followers,
    pub(super) clock: TimeSource,
    pub(super) measurements: Measurements,
    /// What was said lately of tasks of job arrays.
    pub(super) queue: Vec<AskedForTask>,
    /// Jobs that are to end, of whatever run: they are cancelled together.
    pub(super) ending: Vec<EndingJob>,
    /// Jobs of which the scheduler took the end before their runs were opened.
    pub(super) ended: Vec<JobRef>,
}

/// A job that is to end.
pub(super) struct EndingJob {
    pub(super) run: String,
    pub(super) attempt: u32,
    pub(super) job: JobRef,
}

/// Seconds between two looks for a request to end each of so many runs.
pub(super) fn mailbox_pause_s(runs: usize) -> i64 {
    let shared = i64::try_from(runs / LOOKS_PER_SECOND).unwrap_or(i64::MAX);
    shared.max(MAILBOX_S)
}

/// Heartbeat, requests from outside, and what follows from time alone.
pub(super) fn housekeeping(
    handle: &mut Handle,
    mailbox_s: i64,
    now: Timestamp,
    observer: &mut dyn Observer,
) -> Result<(), DriveError> {
    if now.duration_since(handle.beat).as_secs() >= HEARTBEAT_S {
        handle.ledger.heartbeat()?;
        handle.beat = now;
    }
    let look = handle
        .mailbox
        .is_none_or(|at| now.duration_since(at).as_secs() >= mailbox_s);
    if look && handle.run.history.cancel.is_none() {
        handle.mailbox = Some(now);
        if let Some(by) = handle.folder.cancel_requested() {
            handle.feed(&Event::CancelAsked { by }, now, observer)?;
        }
    }
    handle.feed(&Event::Tick, now, observer)
}

/// The actions that concern one run alone, until none of them is due.
pub(super) fn one_by_one(
    hands: &mut Hands,
    handle: &mut Handle,
    now: Timestamp,
    observer: &mut dyn Observer,
) -> Result<(), DriveError> {
    for action in due(&handle.run, now) {
        perform_one(hands, handle, &action, now, observer)?;
    }
    // An attempt that was just prepared is submitted in the same turn.
    for action in due(&handle.run, now) {
        if matches!(action, Action::Submit { .. }) {
            perform_one(hands, handle, &action, now, observer)?;
        }
    }
    Ok(())
}

fn perform_one(
    hands: &mut Hands,
    handle: &mut Handle,
    action: &Action,
    now: Timestamp,
    observer: &mut dyn Observer,
) -> Result<(), DriveError> {
    let (followers, clock) = (&mut hands.followers, &hands.clock);
    let scheduler = hands.scheduler.as_mut();
    let event = match action {
        Action::Prepare { attempt } => {
            perform::environment(&handle.folder)?;
            if let Some(warning) = handle.warned_of(now) {
                handle.feed(&Event::Attempt(*attempt, warning), now, observer)?;
            }
            let task = handle.task.as_ref().and_then(|t| t.token(*attempt));
            let (changed, prepared) = prepare::prepare(
                &handle.run,
                &handle.folder,
                scheduler.name(),
                *attempt,
                task.as_ref(),
                observer,
            )?;
            let changed = Event::Attempt(*attempt, AttemptEvent::FilesChanged(changed));
            handle.feed(&changed, now, observer)?;
            Event::Attempt(*attempt, prepared)
        }
        Action::Measure { attempt } => {
            Event::Attempt(*attempt, hands.measurements.look(&handle.run))
        }
        // Submitted with the others of its array.
        Action::Submit { .. } if handle.is_task() => return Ok(()),
        Action::Submit { .. } => {
            let Handle {
                run,
                folder,
                ledger,
                ..
            } = handle;
            perform::submit(run, folder, ledger, scheduler, now)?
        }
        Action::AskQueue { attempt } => {
            let starts = handle.ask_queue(scheduler, &mut hands.queue, now);
            Event::Attempt(*attempt, AttemptEvent::QueueAnswered(starts))
        }
        Action::Cancel { attempt, job } => {
            hands.ending.push(EndingJob {
                run: handle.name().to_owned(),
                attempt: *attempt,
                job: job.clone(),
            });
            return Ok(());
        }
        Action::ReadLogs { .. } => {
            return handle.look(followers, LookMode::Due, now, observer);
        }
        Action::Drain { attempt, last } => {
            return drain(handle, *attempt, *last, followers, now, observer);
        }
        // Asked for all runs at once.
        Action::Find { .. } | Action::Poll { .. } => return Ok(()),
    };
    handle.feed(&event, now, observer)?;
    tell(handle, &event, scheduler, clock, observer);
    Ok(())
}

/// Reads the logs of an attempt that has ended, and hands in why it did.
fn drain(
    handle: &mut Handle,
    attempt: u32,
    last: bool,
    followers: &mut Followers,
    now: Timestamp,
    observer: &mut dyn Observer,
) -> Result<(), DriveError> {
    handle.look(followers, LookMode::Now, now, observer)?;
    let status = handle.run.history.attempt().and_then(|a| a.status.clone());
    let logs = handle.logs(followers);
    let complete = last || logs.are_local(followers);
    let (mut incident, progress) = logs.explain(status.as_ref(), complete, followers, now);
    for link in logs.links() {
        handle.feed(
            &Event::Attempt(attempt, AttemptEvent::LinkSeen(link)),
            now,
            observer,
        )?;
    }
    if let Some(found) = version(handle) {
        let seen = AttemptEvent::VersionSeen(found);
        handle.feed(&Event::Attempt(attempt, seen), now, observer)?;
    }
    if complete {
        handle.see_snapshot(&mut incident);
        let folder = handle.folder.attempt(attempt);
        // The job could not write down why it ended either.
        if incident.kind == "other" && incident.is_of_empty_log() && is_without_room(&folder) {
            let full = format!("no space left in {}", folder.display());
            incident = Incident {
                exit: incident.exit,
                notes: vec![full],
                ..Incident::bare("disk", Class::NotOom)
            };
        }
    }
    let measured = handle.measured();
    let seen = |course: &MemoryCourse| course.pattern != CoursePattern::Growth;
    if !incident.course.as_ref().is_some_and(seen) && !measured.prints_gpu_memory() {
        let steps = progress.as_ref().map_or(0, Progress::done);
        let sampled = sampled(&handle.folder.attempt(attempt), steps, &incident);
        incident.course = sampled.or(incident.course);
    }
    let event = Event::Attempt(
        attempt,
        AttemptEvent::Drained {
            complete,
            incident: Box::new(incident),
            progress,
            measured,
        },
    );
    handle.feed(&event, now, observer)?;
    if handle.run.phase() != RunPhase::Draining {
        handle.close_logs(attempt);
    }
    Ok(())
}

/// The framework's version, where it was assumed and the logs name it.
fn version(handle: &Handle) -> Option<VersionInLog> {
    let request = &handle.run.request;
    let attempt = handle
        .run
        .history
        .attempt()
        .filter(|_| request.assumes_version())?;
    let logs = attempt_logs(&handle.folder, attempt);
    let ends: Vec<LogExcerpt> = logs.iter().flat_map(|log| log_ends(log)).collect();
    request.version_in(&ends)
}

/// What the memory of the fullest GPU did over the steps, by the sampler beside the job.
fn sampled(folder: &Path, steps: u64, incident: &Incident) -> Option<MemoryCourse> {
    let tracks = tracks(folder).into_iter();
    let fullest = tracks.max_by_key(GpuTrack::peak_bytes)?;
    let points = fullest.points.iter();
    let points: Vec<_> = points.map(|p| (p.at.as_second(), p.bytes)).collect();
    of_samples(&points, steps, incident)
}

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
            observer.trouble(Some(handle.name()), &trouble.to_string());
        }
        observer.notice(&Notice::Dependent {
            run: handle.name(),
            job,
            moved: moved.is_some_and(|m| m.is_ok()),
            to: &new.id,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::mailbox_pause_s;

    #[test]
    fn requests_to_end_a_run_are_looked_for_every_two_seconds_and_less_often_of_thousands() {
        assert_eq!([1, 1_000, 10_000].map(mailbox_pause_s), [2, 2, 20]);
    }
}
