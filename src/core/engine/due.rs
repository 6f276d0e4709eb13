//! What is to be done, and when: asked anew after every event, so that nothing is ever lost in a
//! queue.

use jiff::Timestamp;

use super::action::Action;
use super::ending::text_decides;
use super::hangs::{idle_at, stalled_at};
use super::pace::Pace;
use super::state::{Attempt, Question, Run, RunPhase, part};
use super::time::{after, seconds, signed};
use oomctl_base::job::Stage;
use oomctl_diagnose::Class;

/// Seconds between two looks at the logs of a running job.
const LOGS_S: u64 = 1;
/// Seconds after which a cancellation is repeated when the job is still there.
const CANCEL_AGAIN_S: u64 = 60;
/// Seconds of tolerance between our clock and the scheduler's when looking for a token.
const CLOCK_SKEW_S: i64 = 600;

/// The actions that are due at `now`.
pub fn due(run: &Run, now: Timestamp) -> Vec<Action> {
    agenda(run)
        .into_iter()
        .filter(|(at, _)| *at <= now)
        .map(|(_, action)| action)
        .collect()
}

/// When the program must wake up for this run, at the latest: for an action, or for something that
/// follows from time alone. `None` when nothing will happen by itself.
pub fn next_due(run: &Run, now: Timestamp, pace: &Pace) -> Option<Timestamp> {
    let held = |(at, action)| match action {
        Action::Poll { .. } => pace.hold(at),
        _ => at,
    };
    let actions = agenda(run).into_iter().map(held);
    actions.chain(alarms(run, now)).min()
}

/// When its job is to be asked about; `None` where there is none, or it is over.
pub fn poll_at(run: &Run) -> Option<Timestamp> {
    let live = run.history.attempt().filter(|a| a.job.is_some());
    live.filter(|_| run.phase() == RunPhase::Live)
        .map(|attempt| next_poll(run, attempt))
}

/// Everything to be done, with the moment from which it is due.
fn agenda(run: &Run) -> Vec<(Timestamp, Action)> {
    let mut items = Vec::new();
    if let RunPhase::Preparing(attempt) = run.phase() {
        items.push(match run.to_be_measured() {
            Some(attempt) => (
                every(&run.watch.measure, 1, run),
                Action::Measure { attempt },
            ),
            None => (Timestamp::MIN, Action::Prepare { attempt }),
        });
    }
    let Some(attempt) = run.history.attempt() else {
        return items;
    };
    let number = attempt.number;
    for job in &attempt.duplicates {
        let again = every(&run.watch.cancel, run.request.supervision().poll_s, run);
        items.push((
            again,
            Action::Cancel {
                attempt: number,
                job: job.clone(),
            },
        ));
    }
    match (run.phase(), &attempt.token) {
        (RunPhase::Submitting, Some(token)) => items.push((
            run.watch.submit_at.unwrap_or(Timestamp::MIN),
            Action::Submit {
                attempt: number,
                token: token.clone(),
            },
        )),
        (RunPhase::Searching, Some(token)) => {
            let step = (run.request.supervision().settle_s / 3).max(1);
            let skew = jiff::SignedDuration::from_secs(CLOCK_SKEW_S);
            items.push((
                every(&run.watch.find, step, run),
                Action::Find {
                    attempt: number,
                    token: token.clone(),
                    since: attempt
                        .intended_at
                        .checked_sub(skew)
                        .unwrap_or(attempt.intended_at),
                },
            ));
        }
        (RunPhase::Live, _) => live(run, attempt, &mut items),
        (RunPhase::Draining, _) => {
            items.push(drain(run, attempt));
        }
        // What follows by itself is decided already: the scheduler is to be asked first.
        (RunPhase::Judging, _) => {
            items.push((Timestamp::MIN, Action::AskQueue { attempt: number }));
        }
        _ => {}
    }
    items
}

/// The look at the logs of an ended job: after the time that text may take, and again while they do not
/// say why it failed. Where they told of GPU memory before the job ended nothing is waited for: no later text can say
/// more against it, as it can against a lost peer.
fn drain(run: &Run, attempt: &Attempt) -> (Timestamp, Action) {
    let supervision = run.request.supervision();
    let looked = run.watch.drained;
    let from = looked.map_or(attempt.ended_at, |(_, last)| Some(last));
    let wait_s = match run.watch.fatal {
        Some(Class::GpuOom) => 0,
        _ => supervision.drain_s,
    };
    let from = from.and_then(|at| after(at, wait_s.max(u64::from(looked.is_some()))));
    let waited =
        looked.is_some_and(|(first, last)| seconds(first, last) >= signed(supervision.late_logs_s));
    let action = Action::Drain {
        attempt: attempt.number,
        last: waited || !text_decides(attempt.status.as_ref()),
    };
    (from.unwrap_or(Timestamp::MIN), action)
}

/// What there is to do while a job exists.
fn live(run: &Run, attempt: &Attempt, items: &mut Vec<(Timestamp, Action)>) {
    let Some(job) = attempt.job.clone() else {
        return;
    };
    let number = attempt.number;
    items.push((
        next_poll(run, attempt),
        Action::Poll {
            attempt: number,
            job: job.clone(),
        },
    ));
    let stage = attempt.status.as_ref().map(|s| s.state.stage());
    if matches!(stage, Some(Stage::Running | Stage::Ending | Stage::Unknown)) {
        let at = run.watch.logs_read.and_then(|at| after(at, LOGS_S));
        items.push((
            at.unwrap_or(Timestamp::MIN),
            Action::ReadLogs { attempt: number },
        ));
    }
    // One that is pruned goes only while it waits: what it does once it runs is worth knowing.
    let pruned = run.history.pruned.is_some() && matches!(stage, Some(Stage::Waiting));
    let asked = run.history.cancel.is_some() || run.history.budget.is_some();
    let given_up = attempt.stalled || attempt.never_starts.is_some();
    let wanted = given_up || asked || pruned || attempt.steered.escalation.is_some();
    let over = matches!(stage, Some(Stage::Ended | Stage::Ending));
    if wanted && !over {
        let at = if attempt.cancel_sent {
            every(&run.watch.cancel, CANCEL_AGAIN_S, run)
        } else {
            every(&run.watch.cancel, run.request.supervision().poll_s, run)
        };
        items.push((
            at,
            Action::Cancel {
                attempt: number,
                job,
            },
        ));
    }
}

/// When the job is to be asked about: as often as the user wants, sooner when its log says that it is about to end,
/// and once more when it is about to be called hanging.
fn next_poll(run: &Run, attempt: &Attempt) -> Timestamp {
    let regular = every(&run.watch.poll, run.request.supervision().poll_s, run);
    let regular = eager_poll(run).map_or(regular, |eager| regular.min(eager));
    match (stalled_at(run, attempt), run.watch.poll.asked) {
        (Some(stalled), Some(asked)) if asked < stalled => regular.min(stalled),
        _ => regular,
    }
}

/// After an out-of-memory in the log a job mostly ends within seconds. It is asked about a second later, then each time
/// after as long again: some five questions more for a failure, whatever the usual pace. Other failures wait for theirs,
/// for what the accounting knows of them comes late.
fn eager_poll(run: &Run) -> Option<Timestamp> {
    let since = run.watch.quiet_since?;
    run.watch.fatal.filter(|class| *class == Class::GpuOom)?;
    let poll = &run.watch.poll;
    let asked = poll.asked.filter(|_| poll.unanswered == 0)?;
    let waited = u64::try_from(seconds(since, asked)).unwrap_or(0);
    after(asked.max(since), waited.max(1))
}

/// When a question is to be asked again: after `step_s`, doubled with every answer that did not
/// come, at most `poll_max_s`.
fn every(question: &Question, step_s: u64, run: &Run) -> Timestamp {
    let Some(asked) = question.asked else {
        return Timestamp::MIN;
    };
    let most = run.request.supervision().poll_max_s.max(step_s);
    let wait_s = step_s
        .saturating_mul(1 << question.unanswered.min(16))
        .min(most)
        .max(1);
    after(asked, wait_s).unwrap_or(Timestamp::MAX)
}

/// Moments at which time alone changes something.
fn alarms(run: &Run, now: Timestamp) -> Vec<Timestamp> {
    let refused = run.history.again_at().map(|again| match wall_time(run) {
        Some(end) => again.min(end),
        None => again,
    });
    let Some(attempt) = run
        .history
        .attempt()
        .filter(|_| run.phase() == RunPhase::Live)
    else {
        return refused.into_iter().collect();
    };
    let mut moments = Vec::from_iter(idle_at(run, attempt).filter(|at| *at > now));
    if run.history.budget.is_some() {
        return moments;
    }
    let limits = run.request.limits();
    moments.extend(wall_time(run));
    if let Some(limit) = limits.gpu_hours {
        moments.extend(gpu_hours_end(run, attempt, limit, now));
    }
    moments
}

/// When the time of the run is over.
fn wall_time(run: &Run) -> Option<Timestamp> {
    after(
        run.history.bounded_from()?,
        run.request.limits().wall_time_s?,
    )
}

/// When the GPU-hours will be used up if the job goes on.
fn gpu_hours_end(run: &Run, attempt: &Attempt, limit: f64, now: Timestamp) -> Option<Timestamp> {
    let running = part(attempt, now) > 0.0 && attempt.gpus > 0;
    let left_s = (limit * 3_600.0 - run.history.bounded_gpu_seconds(now)) / attempt.gpus as f64;
    let left_s = left_s.clamp(0.0, 1e9).ceil() as u64;
    running.then(|| after(now, left_s)).flatten()
}
