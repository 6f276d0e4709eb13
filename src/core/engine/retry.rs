//! Another attempt with the same configuration: after what, how often, away from which nodes.

use std::f64::consts::LN_2;

use super::ending::{cause, may_be_of_others, of_others, only_by_difference};
use super::outcome::{Outcome, RetryCause, Verdict};
use super::state::{Attempt, History, Run};
use oomctl_base::job::{ExitStatus, JobState, JobStatus};
use oomctl_diagnose::{Class, CoursePattern, Incident, Progress};

/// Steps of an attempt after which an out-of-memory is late: whatever a configuration needs in every step it has needed by
/// then, and what was too much is a rare batch or memory in pieces.
const LATE_STEPS: u64 = 20;

/// The same where nothing says how long the run is: most are longer than a few dozen steps.
const UNKNOWN_LENGTH_STEPS: u64 = 200;

/// The cause that a state names, where a script that stopped its program before the time limit counts as one that reached it.
pub(super) fn cause_of(run: &Run, status: &JobStatus) -> Option<RetryCause> {
    let stopped = |exit: ExitStatus| run.request.is_early_stop(&run.history.rungs(), exit.code);
    let early = status.state == JobState::Failed && status.exit.is_some_and(stopped);
    match early {
        true => Some(RetryCause::TimeLimit),
        false => cause(&status.state),
    }
}

/// The reason to try once more before a rung is climbed, where there is one: the memory was held by others, or it
/// leaks, or ran out only late and the responses will be others; and there is a checkpoint to go on from.
pub(super) fn before_a_rung(
    run: &Run,
    attempt: &Attempt,
    incident: &Incident,
) -> Option<RetryCause> {
    let supervision = run.request.supervision();
    let left = |cause, retries| run.history.retries(cause) < retries;
    if of_others(incident)
        && left(
            RetryCause::CoTenant,
            elsewhere(incident, supervision.co_tenant_retries),
        )
        && !met_again(&run.history, incident)
    {
        return Some(RetryCause::CoTenant);
    }
    let rungs = run.history.rungs();
    let progress = attempt.progress.as_ref();
    let steps = progress.map_or(0, Progress::done);
    let resumes = || run.request.has_checkpoint(&rungs, steps);
    if incident.leaks() {
        let further = !no_further(&run.history, RetryCause::Leak);
        let again = left(RetryCause::Leak, supervision.leak_retries) && further && resumes();
        return again.then_some(RetryCause::Leak);
    }
    match incident.course.as_ref().map(|course| course.pattern) {
        // The same configuration would meet the same lengths again.
        Some(CoursePattern::GrowingResponses | CoursePattern::Outlier) => return None,
        Some(CoursePattern::Leak | CoursePattern::Lack | CoursePattern::Growth) | None => {}
    }
    let gpu = matches!(incident.class, Class::GpuOom | Class::EngineMemory);
    // What is not sampled, and what is evaluated, comes again as it was.
    let varies = run.request.samples_responses(&rungs) && incident.phase != "eval";
    let late = gpu && varies && steps >= LATE_STEPS && progress.is_some_and(may_end) && resumes();
    (late && left(RetryCause::LateOom, supervision.late_oom_retries)).then_some(RetryCause::LateOom)
}

/// Whether the rest of the run has an even chance to meet no batch that is too large, as far as the log says how long it is. One
/// in as many steps as are done was, so `e^(-rest / done)` of such runs end well.
fn may_end(progress: &Progress) -> bool {
    let rest = |total: u64| total.saturating_sub(progress.step) as f64;
    let most = progress.done() as f64 * LN_2;
    match progress.total {
        Some(total) => rest(total) <= most,
        None => progress.done() >= UNKNOWN_LENGTH_STEPS,
    }
}

/// How often the same configuration is tried on other nodes where others held the memory: of `retries` one, where only a
/// difference says so.
pub fn elsewhere(incident: &Incident, retries: u32) -> u32 {
    match only_by_difference(incident) {
        true => retries.min(1),
        false => retries,
    }
}

/// Did the attempt before meet as much on other nodes? Then strangers are not what holds it.
fn met_again(history: &History, incident: &Incident) -> bool {
    /// Parts of what was met before by which it may differ.
    const TENTH: u64 = 10;
    let mut last = history.attempts.iter().rev().skip(1);
    let before = last.next().filter(|attempt| {
        matches!(&attempt.verdict, Some(Verdict::Again { cause: RetryCause::CoTenant, exclude, .. }) if !exclude.is_empty())
    });
    let then = before.and_then(|attempt| attempt.incident.as_ref()?.co_tenant_bytes);
    let both = then.zip(incident.co_tenant_bytes);
    both.is_some_and(|(then, now)| now.0.abs_diff(then.0) <= then.0 / TENTH)
}

/// Where no rung helps: is it worth another try, because others may have held the GPU?
pub(super) fn met_others(run: &Run, incident: &Incident) -> bool {
    let retries = run.request.supervision().co_tenant_retries;
    may_be_of_others(incident) && run.history.retries(RetryCause::CoTenant) < retries
}

/// Once more, away from these nodes and those that were excluded before.
pub(super) fn again(run: &Run, attempt: &Attempt, cause: RetryCause, nodes: &[String]) -> Verdict {
    if nodes.is_empty() {
        return Verdict::Again {
            cause,
            exclude: Vec::new(),
            layer: None,
        };
    }
    let mut exclude = run.history.excluded_nodes();
    exclude.extend(nodes.iter().cloned());
    exclude.sort();
    exclude.dedup();
    let rungs = run.history.rungs();
    let layer = run.request.exclude(&rungs, &exclude, attempt.number + 1);
    Verdict::Again {
        cause,
        layer: layer.map(Box::new),
        exclude,
    }
}

/// What follows from an end that says nothing about the configuration.
pub(super) fn retry(
    run: &Run,
    attempt: &Attempt,
    status: &JobStatus,
    cause: RetryCause,
) -> Verdict {
    let supervision = run.request.supervision();
    let never = status.state == JobState::Deadline || !supervision.resubmit;
    let allowed = match cause {
        _ if never => 0,
        RetryCause::TimeLimit if no_further(&run.history, cause) => 0,
        RetryCause::TimeLimit => supervision.time_limit_retries,
        RetryCause::Preemption => supervision.preemption_retries,
        RetryCause::NodeFailure => supervision.node_failure_retries,
        RetryCause::CoTenant => supervision.co_tenant_retries,
        RetryCause::LateOom => supervision.late_oom_retries,
        RetryCause::Leak => supervision.leak_retries,
        // Only somebody who has made room knows when.
        RetryCause::Disk | RetryCause::Asked => 0,
    };
    let used = run.history.retries(cause);
    if used < allowed {
        return again(run, attempt, cause, &[]);
    }
    Verdict::End {
        outcome: Outcome::RetriesSpent {
            cause,
            state: status.state.clone(),
            retries: used,
            setting: cause
                .setting()
                .filter(|_| !never && used == 0)
                .map(str::to_owned),
        },
    }
}

/// Did this attempt come no further than the one before, which was followed by this one for the same cause? Then the
/// next one would not either: nothing is resumed, or one step takes longer than the limit.
fn no_further(history: &History, again: RetryCause) -> bool {
    let mut last = history.attempts.iter().rev();
    let (Some(present), Some(before)) = (last.next(), last.next()) else {
        return false;
    };
    let same = matches!(&before.verdict, Some(Verdict::Again { cause, .. }) if *cause == again);
    let steps = present.progress.as_ref().zip(before.progress.as_ref());
    same && steps.is_some_and(|(now, then)| now.is_further_than(then) == Some(false))
}
