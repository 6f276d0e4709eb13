//! A run that is over and goes on because somebody wants it.

use super::table::{Bench, status};
use super::{Toy, at, incident};
use crate::core::engine::{
    Action, AttemptEvent, Event, Fact, Outcome, RetryCause, RunPhase, Verdict, due,
};
use oomctl_base::job::JobState;
use oomctl_diagnose::Class;

fn ask() -> Event {
    Event::RetryAsked {
        by: "ada".to_owned(),
    }
}

fn asked() -> [Fact; 1] {
    [Fact::RetryRequested {
        by: "ada".to_owned(),
    }]
}

fn failed() -> Bench {
    let mut bench = Bench::running(Toy::new(1));
    bench.end(
        status(JobState::Failed),
        incident("python_bug", Class::NotOom),
    );
    assert_eq!(bench.run.phase(), RunPhase::Finished);
    bench
}

#[test]
fn one_fact_opens_a_run_again_and_a_replay_says_the_same() {
    let mut bench = failed();
    assert_eq!(bench.feed(&ask(), 900), asked());
    assert_eq!(bench.run.phase(), RunPhase::Preparing(2));
    assert!(bench.feed(&ask(), 901).is_empty(), "it is open already");
    let again = bench.taken_up_again(1_000);
    assert_eq!(again.run.phase(), RunPhase::Preparing(2));
    assert_eq!(again.run.history.retries(RetryCause::Asked), 0);
}

#[test]
fn the_time_between_an_end_and_a_retry_is_not_elapsed() {
    let mut bench = failed();
    let history = |bench: &Bench| bench.run.history.clone();
    let over = history(&bench).over_at().unwrap();
    let start = history(&bench).created.unwrap();
    let before = history(&bench).open_s(start, over);
    bench.feed(&ask(), 900);
    assert_eq!(history(&bench).over_at(), None);
    assert_eq!(history(&bench).open_s(start, over), before);
    assert_eq!(history(&bench).open_s(start, at(900)), before);
    assert_eq!(history(&bench).open_s(start, at(960)), before + 60);
}

#[test]
fn a_run_that_succeeded_stays_over() {
    let mut bench = Bench::running(Toy::new(1));
    bench.end(
        status(JobState::Completed),
        incident("no_failure", Class::NotOom),
    );
    assert!(bench.feed(&ask(), 900).is_empty());
    assert_eq!(bench.run.history.outcome, Some(Outcome::Succeeded));
}

#[test]
fn the_bounds_count_from_where_somebody_asked() {
    let mut toy = Toy::new(1);
    toy.limits.attempts = 1;
    let mut bench = Bench::running(toy);
    bench.end(
        status(JobState::Failed),
        incident("python_bug", Class::NotOom),
    );
    bench.feed(&ask(), 900);
    assert!(bench.feed(&Event::Tick, 901).is_empty());
    bench.prepared(2, 902);
    bench.feed(
        &Event::Attempt(
            2,
            AttemptEvent::Accepted {
                id: oomctl_base::job::JobId("2".to_owned()),
                cluster: None,
            },
        ),
        903,
    );
    bench.feed(
        &Event::CancelAsked {
            by: "ada".to_owned(),
        },
        904,
    );
    assert_eq!(bench.run.phase(), RunPhase::Live);
    assert_eq!(bench.run.history.before_retry(), 1);
}

#[test]
fn what_was_refused_for_good_is_submitted_again_under_its_token() {
    let mut bench = Bench::new(Toy::new(1));
    bench.prepared(1, 0);
    let refused = AttemptEvent::Refused {
        reason: "Invalid account".to_owned(),
        hint: None,
        passing: false,
    };
    bench.feed(&Event::Attempt(1, refused), 1);
    bench.feed(&Event::Tick, 2);
    assert!(matches!(
        bench.run.history.outcome,
        Some(Outcome::Refused { .. })
    ));
    let token = bench.run.history.attempts[0].token.clone();
    bench.feed(&ask(), 500);
    let submits = |bench: &Bench| {
        let due = due(&bench.run, at(500));
        due.iter().any(|a| matches!(a, Action::Submit { .. }))
    };
    assert!(submits(&bench));
    assert_eq!(bench.run.history.attempts[0].token, token);
    // Whoever finds that fact after a kill looks for the job first.
    let again = bench.taken_up_again(600);
    assert_eq!(again.run.phase(), RunPhase::Searching);
    assert!(!submits(&again));
}

#[test]
fn what_was_decided_and_never_submitted_comes_next() {
    let mut toy = Toy::new(1);
    toy.limits.attempts = 1;
    let mut bench = Bench::running(toy);
    bench.end(
        status(JobState::Failed),
        incident("cuda_oom", Class::GpuOom),
    );
    bench.feed(&Event::Tick, 800);
    assert!(matches!(
        bench.run.history.outcome,
        Some(Outcome::BudgetSpent { .. })
    ));
    bench.feed(&ask(), 900);
    assert_eq!(bench.run.phase(), RunPhase::Preparing(2));
    let verdict = bench.run.history.attempts[0].verdict.as_ref();
    assert!(matches!(verdict, Some(Verdict::Climb { .. })));
    // What cannot be prepared ends the run again; then the last configuration that could be comes again.
    let refused = AttemptEvent::PrepareRefused("no".to_owned());
    bench.feed(&Event::Attempt(2, refused), 901);
    bench.feed(&ask(), 902);
    let verdict = bench.run.history.attempts[0].verdict.as_ref();
    assert!(matches!(
        verdict,
        Some(Verdict::Again {
            cause: RetryCause::Asked,
            ..
        })
    ));
    assert!(bench.run.history.rungs().is_empty());
}
