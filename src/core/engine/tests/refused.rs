//! Submissions that are refused for now, and jobs that never start.

use super::table::{Bench, accepted, polled, read_to_the_end, status};
use super::{Toy, at, incident, nothing};
use crate::core::engine::{
    Action, AttemptEvent, Event, Fact, NextLook, Outcome, Pace, RunPhase, Sighting, due, next_due,
    next_look,
};
use crate::core::measure::Measured;
use oomctl_base::job::{JobId, JobState, JobStatus};
use oomctl_diagnose::Class;

fn refused(passing: bool) -> Event {
    Event::Attempt(
        1,
        AttemptEvent::Refused {
            reason: "QOSMaxSubmitJobPerUserLimit".to_owned(),
            hint: None,
            passing,
        },
    )
}

fn submits(bench: &Bench, second: i64) -> bool {
    let due = due(&bench.run, at(second));
    due.iter().any(|a| matches!(a, Action::Submit { .. }))
}

/// The seconds until an attempt that is refused again and again is submitted again each time, and the end.
fn pauses(toy: Toy) -> (Vec<i64>, Option<Outcome>) {
    let mut bench = Bench::new(toy);
    bench.prepared(1, 0);
    let (mut second, mut pauses) = (0, Vec::new());
    while pauses.len() < 50 && bench.run.history.outcome.is_none() {
        assert!(submits(&bench, second));
        bench.feed(&refused(true), second);
        let Some(next) = bench.run.history.again_at() else {
            break;
        };
        assert_eq!(
            next_due(&bench.run, at(second), &Pace::new(None)),
            Some(next)
        );
        let pause = next.duration_since(at(second)).as_secs();
        assert!(bench.feed(&Event::Tick, second + pause - 1).is_empty());
        assert!(!submits(&bench, second + pause - 1));
        second += pause;
        let facts = bench.feed(&Event::Tick, second);
        let again = Fact::SubmitAgain {
            attempt: 1,
            by: None,
        };
        assert_eq!(facts, [again]);
        pauses.push(pause);
    }
    (pauses, bench.run.history.outcome.clone())
}

#[test]
fn what_is_refused_for_now_is_submitted_again_with_growing_pauses_for_as_long_as_is_configured() {
    let mut toy = Toy::new(1);
    toy.supervision.refused_pause_s = 60;
    toy.supervision.refused_pause_max_s = 200;
    toy.supervision.refused_wait_s = 1_000;
    let (all, end) = pauses(toy.clone());
    assert_eq!(all, [60, 120, 200, 200, 200, 200]);
    assert_eq!(end.as_ref().map(Outcome::exit_code), Some(4));
    toy.supervision.refused_wait_s = 0;
    let (none, end) = pauses(toy.clone());
    assert_eq!((none, end.map(|e| e.exit_code())), (Vec::new(), Some(4)));
    toy.supervision.refused_wait_s = 172_800;
    toy.limits.wall_time_s = Some(400);
    let mut bench = Bench::new(toy);
    bench.prepared(1, 0);
    bench.feed(&refused(true), 399);
    let end = next_due(&bench.run, at(399), &Pace::new(None));
    assert_eq!(end, Some(at(400)), "the run's own end is not slept through");
    bench.feed(&Event::Tick, 400);
    let outcome = bench.run.history.outcome.clone();
    assert!(
        matches!(outcome, Some(Outcome::BudgetSpent { .. })),
        "{outcome:?}"
    );
}

#[test]
fn while_it_waits_a_run_can_be_cancelled_and_is_no_job() {
    let mut bench = Bench::new(Toy::new(1));
    bench.prepared(1, 0);
    bench.feed(&refused(true), 1);
    assert_eq!(bench.run.phase(), RunPhase::Refused);
    assert_eq!(next_look(&bench.run.history), NextLook::Later);
    bench.feed(
        &Event::CancelAsked {
            by: "me".to_owned(),
        },
        2,
    );
    let outcome = bench.run.history.outcome.clone();
    assert!(
        matches!(outcome, Some(Outcome::Cancelled { .. })),
        "{outcome:?}"
    );
}

#[test]
fn another_process_waits_for_the_same_moment_and_looks_for_what_it_did_not_submit_itself() {
    let mut bench = Bench::new(Toy::new(1));
    bench.prepared(1, 0);
    bench.feed(&refused(true), 1);
    // Nothing was accepted, and nothing submitted since: there is nothing to look for.
    let mut bench = bench.taken_up_again(20);
    assert!(!submits(&bench, 60));
    bench.feed(&Event::Tick, 61);
    assert!(submits(&bench, 61));
    // Now something may have been.
    let mut bench = bench.taken_up_again(62);
    assert_eq!(bench.run.phase(), RunPhase::Searching);
    assert!(!submits(&bench, 9_999));
    // The trace of the first refusal says nothing of the second submission.
    let trace = Sighting {
        status: JobStatus::bare(JobId("5".to_owned()), JobState::Failed),
        cluster: None,
        submitted: None,
        refused_trace: true,
    };
    for second in [70, 80, 90] {
        let jobs = vec![trace.clone()];
        bench.feed(&Event::Attempt(1, AttemptEvent::Found(jobs)), second);
        assert!(!submits(&bench, second));
    }
    let jobs = vec![trace];
    bench.feed(&Event::Attempt(1, AttemptEvent::Found(jobs)), 101);
    assert!(submits(&bench, 101));
    bench.feed(&accepted(1), 102);
    assert_eq!(bench.run.phase(), RunPhase::Live);
}

#[test]
fn somebody_who_wants_to_goes_on_with_what_was_refused_for_now_and_with_nothing_else() {
    let ask = Event::ResumeAsked {
        by: "ada".to_owned(),
    };
    let mut toy = Toy::new(1);
    toy.supervision.refused_wait_s = 0;
    let mut bench = Bench::new(toy.clone());
    bench.prepared(1, 0);
    bench.feed(&refused(true), 1);
    assert_eq!(bench.run.phase(), RunPhase::Finished);
    bench.feed(&ask, 500);
    assert_eq!(
        (bench.run.phase(), submits(&bench, 500)),
        (RunPhase::Submitting, true)
    );
    assert_eq!(bench.run.history.outcome, None);
    let mut bench = Bench::new(toy);
    bench.prepared(1, 0);
    bench.feed(&refused(false), 1);
    assert!(
        bench.feed(&ask, 500).is_empty(),
        "what the request breaks stays"
    );
    // One that waits still is submitted at once, and waits as long as at first after that.
    let mut bench = Bench::new(Toy::new(1));
    bench.prepared(1, 0);
    bench.feed(&refused(true), 1);
    bench.feed(&Event::Tick, 61);
    bench.feed(&refused(true), 61);
    bench.feed(&ask, 70);
    assert!(submits(&bench, 70));
    bench.feed(&refused(true), 71);
    assert_eq!(bench.run.history.again_at(), Some(at(131)));
}

#[test]
fn a_run_that_a_full_disk_ended_goes_on_when_somebody_wants_it_and_one_with_a_bug_does_not() {
    let ask = Event::ResumeAsked {
        by: "ada".to_owned(),
    };
    for (kind, goes_on) in [("disk", true), ("python_bug", false)] {
        let mut bench = Bench::running(Toy::new(1));
        bench.end(status(JobState::Failed), incident(kind, Class::NotOom));
        assert_eq!(bench.run.phase(), RunPhase::Finished);
        bench.feed(&ask, 900);
        let phase = if goes_on {
            RunPhase::Preparing(2)
        } else {
            RunPhase::Finished
        };
        assert_eq!(bench.run.phase(), phase, "{kind}");
        let again = bench.taken_up_again(1_000);
        assert_eq!(again.run.phase(), phase, "after a replay");
    }
}

#[test]
fn a_job_that_waits_for_what_no_waiting_brings_is_ended_and_counts_as_refused() {
    let pending = |reason: &str| {
        polled(JobStatus {
            reason: Some(reason.to_owned()),
            ..status(JobState::Pending)
        })
    };
    let mut bench = Bench::new(Toy::new(1));
    bench.prepared(1, 0);
    bench.feed(&accepted(1), 1);
    bench.feed(&pending("QOSMaxGRESPerUser"), 10);
    assert_eq!(bench.feed(&pending("QOSMaxGRESPerUser"), 9_000), []);
    bench.feed(&pending("QOSMaxGRESPerJob"), 10_000);
    bench.feed(&pending("QOSMaxGRESPerJob"), 10_590);
    assert!(bench.run.history.attempt().unwrap().never_starts.is_none());
    bench.feed(&pending("QOSMaxGRESPerJob"), 10_600);
    let cancels = due(&bench.run, at(10_600));
    assert!(
        cancels.iter().any(|a| matches!(a, Action::Cancel { .. })),
        "{cancels:?}"
    );
    bench.feed(&polled(status(JobState::Cancelled)), 10_620);
    let drained = read_to_the_end(1, nothing(), None, Measured::default());
    bench.feed(&drained, 10_630);
    let Some(Outcome::Refused { reason, .. }) = bench.run.history.outcome.clone() else {
        panic!("{:?}", bench.run.history.outcome);
    };
    assert!(reason.contains("QOSMaxGRESPerJob"), "{reason}");
}
