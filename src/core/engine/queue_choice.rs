//! What follows from when the scheduler would start the answers to a failure.

use super::state::{Attempt, History, Run};
use crate::core::ladder::{Decision, OnMachine, Past, Peak, Skipped, Work};
use crate::core::request::{Alternative, QueueChoice, work_left};
use oomctl_diagnose::Incident;

/// Hands over what is known beside the incident of an attempt, the last of a history, past rungs that are left out.
pub(super) fn with_past<T>(
    history: &History,
    attempt: &Attempt,
    left_out: &[Skipped],
    ask: impl FnOnce(Past<'_>) -> T,
) -> T {
    let machine = attempt.status.as_ref().and_then(|s| s.machine.as_ref());
    ask(Past {
        earlier: &history.tried(),
        peaks: &Peak::of(&attempt.measured),
        left_out,
        machine: machine.map(|machine| OnMachine {
            machine,
            needed: history.needed(),
        }),
    })
}

/// The answers to an incident that differ in what they ask for.
pub(super) fn alternatives(
    run: &Run,
    attempt: &Attempt,
    incident: &Incident,
    first: &Decision,
) -> Vec<Alternative> {
    let rungs = run.history.rungs();
    let left_out = run.history.left_out();
    with_past(&run.history, attempt, &left_out, |past| {
        run.request
            .alternatives(first, &rungs, past, Some(incident), attempt.number)
    })
}

/// What the ladder says to an incident, after what the scheduler said of it and of the other answers.
pub(super) fn chosen(
    run: &Run,
    attempt: &Attempt,
    incident: &Incident,
    first: Decision,
) -> Decision {
    let Some((at, starts)) = &attempt.queue else {
        return first;
    };
    let alternatives = alternatives(run, attempt, incident, &first);
    let choice = QueueChoice {
        alternatives: &alternatives,
        starts,
        at: *at,
        gpus: attempt.gpus,
        work: work(run, attempt),
    };
    match run.request.by_queue(&choice) {
        Some(taken) => Decision::Climb {
            steps: taken.steps,
            skipped: taken.skipped,
            expects: taken.expects,
        },
        None => first,
    }
}

/// What the attempt had left to do.
fn work(run: &Run, attempt: &Attempt) -> Work {
    let progress = attempt.progress.as_ref();
    let steps = progress.and_then(|p| Some((p.step, p.total?)));
    let limit = run.request.resources(&run.history.rungs()).ok();
    let limit = limit.and_then(|r| r.time_limit_s);
    let ends = run.request.supervision().time_limit_retries == 0;
    let step_s = attempt.measured.step_s(usize::MAX);
    work_left(step_s, steps, limit.filter(|_| ends))
}
