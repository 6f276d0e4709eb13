//! What a known bug changes about a decision.

use super::{incident, shipped, toy};
use crate::core::ladder::{Decision, climb, settle};
use oomctl_base::{Value, word_list};
use oomctl_diagnose::{BugSetting, Class, Incident, KnownBug};

fn bug(when: Option<&str>) -> KnownBug {
    KnownBug {
        id: "loom-keeps-thread".to_owned(),
        package: "loom".to_owned(),
        version: Some("1.2.0".to_owned()),
        affected: "<1.3.0".to_owned(),
        fixed_in: Some("1.3.0".to_owned()),
        says: "the loom keeps its thread".to_owned(),
        source: "https://github.com/loom/loom/issues/1".to_owned(),
        certain: when.is_none(),
        when: when.map(str::to_owned),
        doubtful: false,
        leak: false,
        workaround: "use loom 1.3.0".to_owned(),
        helps: Vec::new(),
        useless: ["train_batch", "mini_batch", "micro_batch", "token_budget"]
            .map(str::to_owned)
            .to_vec(),
    }
}

fn with(bug: KnownBug) -> Incident {
    Incident {
        known_bugs: vec![bug],
        ..incident(Class::GpuOom, "backward")
    }
}

/// The rung that is taken, and why the first was not.
fn taken(decision: &Decision) -> (String, Option<String>) {
    match decision {
        Decision::Climb { steps, skipped, .. } => {
            let first = skipped.iter().find(|s| s.rung == "halve");
            (steps[0].rung.clone(), first.map(|s| s.reason.clone()))
        }
        Decision::Exhausted { .. } => panic!("{decision:?}"),
    }
}

#[test]
fn a_rung_that_cannot_help_against_a_certain_bug_is_passed_over_with_its_source() {
    let (rung, why) = taken(&toy().ask(Some(&with(bug(None)))));
    assert_eq!(rung, "offload");
    let reason = "cannot help against loom-keeps-thread, a bug of loom 1.2.0 (https://github.com/loom/loom/issues/1)";
    assert_eq!(why.as_deref(), Some(reason));
}

#[test]
fn no_rung_is_passed_over_for_a_bug_that_only_may_be() {
    for maybe in [
        KnownBug {
            version: None,
            certain: false,
            ..bug(None)
        },
        KnownBug {
            doubtful: true,
            certain: false,
            ..bug(None)
        },
        bug(Some("prompts > 1")),
    ] {
        let (rung, why) = taken(&toy().ask(Some(&with(maybe))));
        assert_eq!((rung.as_str(), why), ("halve", None));
    }
}

#[test]
fn a_rung_that_does_what_helps_comes_first_and_another_value_does_not() {
    let offload = |to: bool| KnownBug {
        helps: vec![BugSetting {
            knob: "param_offload".to_owned(),
            to: Some(to.into()),
        }],
        useless: Vec::new(),
        ..bug(None)
    };
    assert_eq!(taken(&toy().ask(Some(&with(offload(true))))).0, "offload");
    assert_eq!(taken(&toy().ask(Some(&with(offload(false))))).0, "halve");
    let share = KnownBug {
        helps: vec![BugSetting {
            knob: "share".to_owned(),
            to: None,
        }],
        ..offload(false)
    };
    assert_eq!(taken(&toy().ask(Some(&with(share)))).0, "cut");
}

#[test]
fn the_configuration_settles_whether_it_can_be_the_bug() {
    let settled = |asked: &str| {
        let toy = toy().set("prompts", Value::Int(96));
        let mut incident = with(bug(Some(asked)));
        settle(&toy.context(), &mut incident);
        incident.known_bugs.first().map(|bug| bug.certain)
    };
    assert_eq!(settled("prompts > 64"), Some(true));
    assert_eq!(settled("prompts > 96"), None);
    assert_eq!(settled("loom is defined and loom > 1"), None);
    // This preset knows no such knob: nothing is known.
    assert_eq!(settled("loom.threads > 1"), Some(false));
    assert_eq!(settled("spindle"), Some(false));
    assert_eq!(settled("spindle > 1 and prompts > 64"), Some(false));
    assert_eq!(settled("spindle is defined or prompts > 64"), Some(true));
}

#[test]
fn the_shipped_ladder_wakes_a_smaller_engine_and_leaves_the_batches_alone() {
    let stack = shipped::grpo(&[]);
    let batches =
        word_list::<5>("train_batch mini_batch micro_batch logprob_micro_batch token_budget");
    let wakes = KnownBug {
        helps: vec![BugSetting {
            knob: "rollout_memory_fraction".to_owned(),
            to: None,
        }],
        useless: batches.map(str::to_owned).to_vec(),
        ..bug(None)
    };
    let mut died = with(wakes);
    died.phase = "wake_up".to_owned();
    let Decision::Climb { steps, .. } = climb(&stack.context(), Some(&died)).unwrap() else {
        panic!("no rung");
    };
    assert_eq!(steps[0].rung, "smaller-rollout-share");
}
