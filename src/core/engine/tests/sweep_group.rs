//! The cells of a sweep: which begin, and which need not.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::table::read_to_the_end;
use super::{Toy, at, nothing};
use crate::core::engine::{
    Action, AttemptEvent, Event, Fact, History, Outcome, Record, Run, SweepGroup, decide, due,
};
use crate::core::measure::Measured;
use crate::core::request::Request;
use crate::core::request::tests::start::{Project, request};
use oomctl_base::Value;
use oomctl_base::job::{JobId, JobRef, JobState, JobStatus, Token};

/// A run with these facts.
fn run(facts: Vec<Fact>) -> Run {
    let mut run = Run::new(Toy::new(1).request(), &[]);
    for (seq, fact) in (1..).zip(facts) {
        write(&mut run, seq, fact);
    }
    run
}

fn write(run: &mut Run, seq: u64, fact: Fact) {
    let (v, at, epoch) = (1, at(0), 1);
    run.apply(&Record {
        v,
        seq,
        at,
        epoch,
        fact,
    });
}

fn intended() -> Fact {
    Fact::Intended {
        attempt: 1,
        token: Token("t".to_owned()),
        script: "job.sh".to_owned(),
        script_sha256: String::new(),
        gpus: 1,
        rungs: Vec::new(),
        outputs: Vec::new(),
    }
}

fn submitted() -> Fact {
    Fact::Submitted {
        attempt: 1,
        job: JobRef {
            id: JobId("7_1".to_owned()),
            cluster: None,
            token: Some(Token("t".to_owned())),
            submitted: at(0),
        },
        adopted: false,
    }
}

fn seen(state: JobState) -> Fact {
    Fact::StateSeen {
        attempt: 1,
        status: JobStatus::bare(JobId("7_1".to_owned()), state),
    }
}

fn infeasible() -> Event {
    Event::ProvenInfeasible {
        by: "s.1".to_owned(),
        reason: "as large".to_owned(),
    }
}

/// Everything that follows, written down.
fn follow(run: &mut Run, event: &Event) -> Option<Outcome> {
    let mut facts = decide(run, event, at(1));
    let mut seq = 100;
    while !facts.is_empty() {
        for fact in facts {
            seq += 1;
            write(run, seq, fact);
        }
        facts = decide(run, &Event::Tick, at(1));
    }
    run.history.outcome.clone()
}

fn pruned(outcome: Option<Outcome>) -> bool {
    matches!(outcome, Some(Outcome::Pruned { by, .. }) if by == "s.1")
}

#[test]
fn a_cell_that_is_infeasible_is_never_prepared_and_never_submitted() {
    assert!(pruned(follow(&mut run(vec![]), &infeasible())));
    assert!(pruned(follow(&mut run(vec![intended()]), &infeasible())));
}

#[test]
fn a_infeasible_cell_that_waits_is_cancelled_and_one_that_runs_is_left_alone() {
    let mut waits = run(vec![intended(), submitted(), seen(JobState::Pending)]);
    assert_eq!(follow(&mut waits, &infeasible()), None);
    let cancel = |a: &Action| matches!(a, Action::Cancel { .. });
    assert!(due(&waits, at(1)).iter().any(cancel));
    // It began after all: what it does is worth knowing.
    write(&mut waits, 200, seen(JobState::Running));
    assert!(!due(&waits, at(1)).iter().any(cancel));
    let mut runs = run(vec![intended(), submitted(), seen(JobState::Running)]);
    follow(&mut runs, &infeasible());
    assert_eq!(runs.history.pruned, None);
    // Whether an unclear submission was accepted is found out first.
    let unclear = Fact::SubmitUnclear {
        attempt: 1,
        detail: "no answer".to_owned(),
    };
    let mut unclear = run(vec![intended(), unclear]);
    assert_eq!(follow(&mut unclear, &infeasible()), None);
    assert!(unclear.history.pruned.is_some());
}

#[test]
fn a_pruned_task_of_which_no_trace_is_left_was_pruned_and_did_not_fail() {
    let vanishes = |facts: Vec<Fact>| {
        let mut run = run(facts);
        follow(&mut run, &Event::Attempt(1, AttemptEvent::Vanished));
        let drained = read_to_the_end(1, nothing(), None, Measured::default());
        follow(&mut run, &drained)
    };
    let pruned_fact = Fact::Pruned {
        by: "s.1".to_owned(),
        reason: "as large".to_owned(),
    };
    let begun = || vec![intended(), submitted(), seen(JobState::Pending)];
    let asked = [begun(), vec![pruned_fact, Fact::CancelSent { attempt: 1 }]].concat();
    assert!(pruned(vanishes(asked)));
    let lost = vanishes(begun());
    assert!(matches!(lost, Some(Outcome::Failed { .. })), "{lost:?}");
}

#[test]
fn so_many_cells_are_under_way_as_may_be() {
    let history = |facts| run(facts).history;
    let known = [
        ("a", history(vec![intended()])),
        ("b", history(vec![])),
        ("c", history(vec![])),
        (
            "d",
            history(vec![Fact::Finished {
                outcome: Outcome::Succeeded,
            }]),
        ),
        ("e", history(vec![])),
    ];
    let known: BTreeMap<&str, &History> = known.iter().map(|(n, h)| (*n, h)).collect();
    let held = |at_once, is_array| {
        let sweep_group = SweepGroup {
            is_array,
            runs: ["e", "d", "c", "b", "a", "gone"].map(str::to_owned).into(),
            at_once,
        };
        sweep_group
            .held(&known)
            .into_iter()
            .collect::<Vec<_>>()
            .join(" ")
    };
    for (at_once, names) in [
        (None, ""),
        (Some(0), "b c e"),
        (Some(1), "b c e"),
        (Some(2), "b c"),
        (Some(9), ""),
    ] {
        assert_eq!(held(at_once, false), names, "{at_once:?}");
    }
    // The scheduler has the first attempts of an array: only what is submitted again waits for places.
    assert_eq!(held(Some(1), true), "");
}

fn cell(name: usize, micro: u32, length: i64) -> Request {
    let micro = 1_i64 << micro;
    let values = [
        ("prompts", Value::Int(64)),
        ("micro", Value::Int(micro)),
        ("length", Value::Int(length)),
    ];
    request(&format!("s.{name}"), &values, &[])
}

#[test]
fn only_what_no_rung_can_save_is_pruned() {
    // Nothing is short enough for 2,100: the states alone take 2,000.
    let mut project = Project::with(2_010);
    assert_eq!(project.run_as_asked(&cell(1, 3, 256)), None);
    let infeasible = |p: &Project, c: Request| c.infeasible(&p.memory()).map(|e| e.run);
    assert_eq!(
        infeasible(&project, cell(2, 3, 512)).as_deref(),
        Some("s.1")
    );
    assert_eq!(infeasible(&project, cell(3, 2, 128)), None);
    // A cell that failed at first and was saved by a rung dooms nobody.
    let mut project = Project::with(20_000);
    assert!(project.run_as_asked(&cell(1, 5, 1024)).is_some());
    assert_eq!(infeasible(&project, cell(2, 5, 2048)), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever was run before: a cell that is pruned would have failed with every rung of its ladder.
    #[test]
    fn what_is_pruned_would_have_failed(
        gpu in 2_000_i64..60_000,
        cells in prop::collection::vec((0_u32..7, 6_u32..13), 1..10),
    ) {
        let mut project = Project::with(gpu);
        for (name, (micro, length)) in cells.into_iter().enumerate() {
            let cell = cell(name, micro, 1 << length);
            let infeasible = cell.infeasible(&project.memory());
            let took = project.run_as_asked(&cell);
            prop_assert!(infeasible.is_none() || took.is_none(), "{infeasible:?} {took:?}");
        }
    }
}

#[test]
fn waiting_for_others_of_the_sweep_is_no_time_of_the_run() {
    let mut toy = Toy::new(1);
    toy.limits.wall_time_s = Some(60);
    let mut run = Run::new(toy.request(), &[]);
    let created = Fact::Created {
        run: "s.2".to_owned(),
        version: "0.1.0".to_owned(),
    };
    write(&mut run, 1, created);
    assert_eq!(decide(&run, &Event::Tick, at(100_000)), []);
    // From its first attempt on it is, in the scheduler's queue too.
    for (seq, fact) in (2..).zip([intended(), submitted(), seen(JobState::Pending)]) {
        write(&mut run, seq, fact);
    }
    assert_eq!(decide(&run, &Event::Tick, at(59)), []);
    let spent = decide(&run, &Event::Tick, at(60));
    assert!(matches!(spent[..], [Fact::BudgetSpent { .. }]), "{spent:?}");
}
