//! Configurations that are measured on phantom GPUs before they are submitted.

use super::table::{Bench, status};
use super::{Toy, at, incident};
use crate::core::engine::{
    Action, AttemptEvent, Event, Fact, PhantomCheck, PhantomMeasurement, RunPhase, Verdict, due,
};
use oomctl_base::job::JobState;
use oomctl_diagnose::Class;

fn toy(rungs: usize) -> Toy {
    let mut toy = Toy::new(rungs);
    toy.supervision.measure = true;
    toy
}

/// What a phantom says of a configuration.
fn measurement(fits: Option<bool>, seconds: u64) -> PhantomMeasurement {
    let mut measured = PhantomMeasurement::impossible("PyTorch is missing");
    measured.summary.fits = fits;
    measured.seconds = seconds;
    if fits == Some(false) {
        measured.summary.reason = Some("optimizer step".to_owned());
        measured.summary.message =
            Some("CUDA out of memory. Tried to allocate 2.00 GiB.".to_owned());
    }
    measured
}

fn measured(bench: &mut Bench, attempt: u32, fits: Option<bool>, seconds: u64) -> PhantomCheck {
    let event = AttemptEvent::PhantomMeasured(Box::new(measurement(fits, seconds)));
    let facts = bench.feed(&Event::Attempt(attempt, event), 1);
    match facts.as_slice() {
        [Fact::PhantomMeasured { check, .. }] => (**check).clone(),
        other => panic!("{other:?}"),
    }
}

fn is_measured_next(bench: &Bench, second: i64) -> bool {
    let due = due(&bench.run, at(second));
    assert!(due.len() <= 1, "{due:?}");
    matches!(due.as_slice(), [Action::Measure { .. }])
}

fn rungs(check: &PhantomCheck) -> Vec<&str> {
    check.steps.iter().map(|step| step.rung.as_str()).collect()
}

#[test]
fn nothing_is_submitted_before_it_fits_on_the_phantom() {
    let mut bench = Bench::new(toy(3));
    assert!(is_measured_next(&bench, 1));
    let first = measured(&mut bench, 1, Some(false), 5);
    assert_eq!(rungs(&first), ["rung-1"]);
    assert_eq!(
        first.measurement.incident().unwrap().phase,
        "optimizer_step"
    );
    assert!(is_measured_next(&bench, 20));
    let second = measured(&mut bench, 1, Some(true), 5);
    assert!(rungs(&second).is_empty() && second.stopped.is_none());
    assert!(!is_measured_next(&bench, 20));
    // A crash between two facts costs nothing: the ledger says how far it came.
    let mut bench = bench.taken_up_again(30);
    assert!(!is_measured_next(&bench, 40));
    let facts = bench.prepared(1, 41);
    assert!(
        matches!(&facts[0], Fact::Intended { rungs, .. } if rungs == &["rung-1"]),
        "{facts:?}"
    );
    let recipe = bench
        .run
        .request
        .recipe(&bench.run.history.rungs())
        .unwrap();
    assert_eq!(recipe.value("micro").to_string(), "16");
}

#[test]
fn while_one_is_measured_the_loop_asks_once_a_second() {
    let mut bench = Bench::new(toy(1));
    bench.feed(&Event::Attempt(1, AttemptEvent::PhantomRuns), 10);
    assert!(!is_measured_next(&bench, 10));
    assert!(is_measured_next(&bench, 11));
}

#[test]
fn what_cannot_be_measured_is_submitted_and_an_ended_ladder_says_so() {
    let mut bench = Bench::new(toy(3));
    let unknown = measured(&mut bench, 1, None, 0);
    assert!(unknown.is_last() && unknown.stopped.is_none());
    assert!(!is_measured_next(&bench, 20));
    let mut bench = Bench::new(toy(0));
    let none_left = measured(&mut bench, 1, Some(false), 5);
    assert!(none_left.steps.is_empty());
    assert_eq!(
        none_left.stopped.as_deref(),
        Some("the ladder leads to nothing smaller")
    );
}

#[test]
fn measuring_is_bounded_in_number_and_time() {
    let large = Toy {
        micro: Some(1024),
        ..toy(20)
    };
    let mut bench = Bench::new(large);
    for _ in 1..8 {
        let check = measured(&mut bench, 1, Some(false), 1);
        assert_eq!(check.stopped, None, "{:?}", bench.run.history.rungs());
    }
    let last = measured(&mut bench, 1, Some(false), 1);
    assert_eq!(
        last.stopped.as_deref(),
        Some("8 configurations were measured; the next one is not")
    );
    assert!(
        !last.steps.is_empty(),
        "what is known to fail is not submitted"
    );
    assert!(!is_measured_next(&bench, 20));
    let mut bench = Bench::new(toy(20));
    let slow = measured(&mut bench, 1, Some(false), 900);
    assert_eq!(
        slow.stopped.as_deref(),
        Some("measuring took 900 s of 900; the next one is not measured")
    );
}

#[test]
fn after_a_failure_the_proposed_rung_is_measured_and_the_phantom_never_overrules_the_gpu() {
    let mut bench = Bench::new(toy(5));
    measured(&mut bench, 1, Some(true), 5);
    bench.prepared(1, 2);
    bench.feed(&super::table::accepted(1), 3);
    bench.feed(&super::table::polled(status(JobState::Running)), 10);
    let verdict = bench.end(
        status(JobState::Failed),
        incident("cuda_oom", Class::GpuOom),
    );
    assert!(
        matches!(verdict, Verdict::Climb { .. }),
        "it fits on the phantom, and died all the same"
    );
    assert_eq!(bench.run.phase(), RunPhase::Preparing(2));
    assert!(is_measured_next(&bench, 300));
    let again = measured(&mut bench, 2, Some(false), 5);
    assert_eq!(rungs(&again), ["rung-2"]);
    assert_eq!(bench.run.history.rungs().len(), 2);
    assert!(measured(&mut bench, 2, Some(true), 5).is_last());
    let facts = bench.prepared(2, 301);
    assert!(
        matches!(&facts[0], Fact::Intended { rungs, .. } if rungs == &["rung-1", "rung-2"]),
        "{facts:?}"
    );
    // What is said of the first attempt is the configuration that it had.
    assert!(bench.run.history.at_the_end_of(1).rungs().is_empty());
}

#[test]
fn only_what_a_rung_changed_is_measured_again() {
    let mut bench = Bench::running(Toy::new(3));
    bench.end(
        status(JobState::Failed),
        incident("cuda_oom", Class::GpuOom),
    );
    assert!(!is_measured_next(&bench, 300), "nobody asked for it");
    let mut bench = Bench::new(toy(3));
    measured(&mut bench, 1, Some(true), 5);
    bench.prepared(1, 2);
    bench.feed(&super::table::accepted(1), 3);
    bench.feed(&super::table::polled(status(JobState::Running)), 10);
    let verdict = bench.end(status(JobState::NodeFail), super::nothing());
    assert!(matches!(verdict, Verdict::Again { .. }), "{verdict:?}");
    assert!(!is_measured_next(&bench, 300));
}
