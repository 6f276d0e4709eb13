//! What somebody who looks on can ask for.

use super::table::{Bench, status};
use super::{Toy, at, incident, nothing};
use crate::core::engine::{Action, AttemptEvent, Event, Fact, Verdict, due, observation, outlook};
use oomctl_base::job::JobState;
use oomctl_diagnose::Class;

fn escalate(bench: &mut Bench) -> Vec<Fact> {
    let event = Event::Attempt(
        1,
        AttemptEvent::EscalationAsked {
            by: "me".to_owned(),
        },
    );
    bench.feed(&event, 20)
}

fn leave_out(bench: &mut Bench, rung: &str) -> Vec<Fact> {
    let event = Event::Attempt(
        1,
        AttemptEvent::LeaveOutAsked {
            rung: rung.to_owned(),
            by: "me".to_owned(),
        },
    );
    bench.feed(&event, 15)
}

fn cancels(bench: &Bench) -> bool {
    let due = due(&bench.run, at(30));
    due.iter().any(|a| matches!(a, Action::Cancel { .. }))
}

fn rungs(verdict: &Verdict) -> Vec<&str> {
    match verdict {
        Verdict::Climb { steps, .. } => steps.iter().map(|s| s.rung.as_str()).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn a_healthy_job_is_ended_for_the_next_rung_and_no_sooner_resubmitted_than_it_is_gone() {
    let mut bench = Bench::running(Toy::new(3));
    assert_eq!(escalate(&mut bench).len(), 1);
    assert!(escalate(&mut bench).is_empty(), "once is enough");
    assert!(cancels(&bench));
    let verdict = bench.end(status(JobState::Cancelled), nothing());
    assert_eq!(rungs(&verdict), ["rung-1"]);
    assert_eq!(observation(&bench.run, 1), None, "a wish teaches nothing");
}

#[test]
fn the_promise_is_kept_by_whoever_takes_the_run_up_again() {
    let mut bench = Bench::running(Toy::new(3));
    leave_out(&mut bench, "rung-1");
    escalate(&mut bench);
    let mut bench = bench.taken_up_again(25);
    assert!(cancels(&bench));
    let verdict = bench.end(status(JobState::Cancelled), nothing());
    assert_eq!(rungs(&verdict), ["rung-2"]);
}

#[test]
fn a_job_that_came_to_its_own_end_is_judged_by_that() {
    let mut done = Bench::running(Toy::new(3));
    escalate(&mut done);
    let verdict = done.end(status(JobState::Completed), nothing());
    assert!(matches!(verdict, Verdict::End { outcome } if outcome.exit_code() == 0));

    let mut broken = Bench::running(Toy::new(3));
    escalate(&mut broken);
    let bug = incident("code_bug", Class::NotOom);
    let verdict = broken.end(status(JobState::Failed), bug);
    assert!(matches!(verdict, Verdict::End { outcome } if outcome.exit_code() == 1));
}

#[test]
fn who_wants_the_run_to_end_gets_its_end_and_no_rung() {
    let mut bench = Bench::running(Toy::new(3));
    escalate(&mut bench);
    let ask = Event::CancelAsked {
        by: "me".to_owned(),
    };
    bench.feed(&ask, 30);
    let verdict = bench.end(status(JobState::Cancelled), nothing());
    assert!(matches!(verdict, Verdict::End { outcome } if outcome.exit_code() == 9));
}

#[test]
fn no_job_is_ended_for_a_rung_that_does_not_come() {
    let mut last = Bench::running(Toy::new(0));
    let why = outlook(&last.run, at(20)).unwrap_err();
    assert!(why.contains("more_gpus"), "{why}");
    assert!(escalate(&mut last).is_empty());

    let mut limited = Toy::new(3);
    limited.limits.attempts = 1;
    let mut limited = Bench::running(limited);
    let why = outlook(&limited.run, at(20)).unwrap_err();
    assert!(why.contains("limit of 1 attempt"), "{why}");
    assert!(escalate(&mut limited).is_empty());

    let mut watched = Toy::new(3);
    watched.supervision.resubmit = false;
    assert!(escalate(&mut Bench::running(watched)).is_empty());

    let mut waiting = Bench::new(Toy::new(3));
    assert!(escalate(&mut waiting).is_empty(), "nothing was submitted");
}

#[test]
fn what_was_asked_of_an_earlier_attempt_does_nothing_to_the_next() {
    let mut bench = Bench::running(Toy::new(3));
    bench.end(
        status(JobState::Failed),
        incident("cuda_oom", Class::GpuOom),
    );
    bench.prepared(2, 300);
    assert!(escalate(&mut bench).is_empty());
    assert!(leave_out(&mut bench, "rung-2").is_empty());
}

#[test]
fn a_rung_is_left_out_once_and_only_one_that_would_be_taken() {
    let mut bench = Bench::running(Toy::new(3));
    assert!(leave_out(&mut bench, "rung-9").is_empty());
    assert_eq!(leave_out(&mut bench, "rung-1").len(), 1);
    assert!(leave_out(&mut bench, "rung-1").is_empty());
    let next = outlook(&bench.run, at(20)).unwrap();
    assert_eq!(next[0].rung, "rung-2");
    let verdict = bench.end(
        status(JobState::Failed),
        incident("cuda_oom", Class::GpuOom),
    );
    assert_eq!(rungs(&verdict), ["rung-2"]);
    // The next attempt may take it.
    assert_eq!(bench.run.history.attempts[0].steered.left_out, ["rung-1"]);
}
