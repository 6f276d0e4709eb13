//! The search finds what an eager one finds that tests every candidate of every knob beforehand.

use std::collections::BTreeMap;

use super::shipped::grpo;
use crate::core::ladder::search::{KnobCandidates, downwards, following, knobs, nearest_legal};
use crate::core::recipe::{Checker, ClusterFacts, Shaper, UnderTrial, Values, scope_of};
use oomctl_base::Value;

const MOST_TRIALS: u32 = 20_000;

/// The plain form of the search: filters first, remembers nothing.
fn eager(checker: &Checker<'_>, trials: &[KnobCandidates]) -> Option<BTreeMap<String, Value>> {
    let alone = |knob: &str, value: &Value| {
        let trial = Values::from_iter([(knob.to_owned(), value.clone())]);
        checker.broken_by(knob, &trial).is_none()
    };
    let mut trials = trials.to_vec();
    for trial in &mut trials {
        let (knob, present) = (trial.knob.clone(), trial.present.clone());
        trial
            .candidates
            .retain(|v| *v == present || alone(&knob, v));
    }
    let mut chosen = BTreeMap::new();
    let mut left = MOST_TRIALS;
    descend(checker, &trials, &mut chosen, &mut left).then_some(chosen)
}

fn descend(
    checker: &Checker<'_>,
    trials: &[KnobCandidates],
    chosen: &mut BTreeMap<String, Value>,
    left: &mut u32,
) -> bool {
    let Some((trial, rest)) = trials.split_first() else {
        return true;
    };
    for value in &trial.candidates {
        if *left == 0 {
            return false;
        }
        *left -= 1;
        chosen.insert(trial.knob.clone(), value.clone());
        let values: Values = chosen.clone().into_iter().collect();
        if checker.broken_by(&trial.knob, &values).is_none() && descend(checker, rest, chosen, left)
        {
            return true;
        }
    }
    chosen.remove(&trial.knob);
    false
}

/// Trials of batches and GPUs as rungs make them, over starts that are drawn from `seed`.
fn trials(seed: u32) -> Vec<KnobCandidates> {
    let draw = |place: u32, of: &[i64]| {
        let mixed = (seed * 7 + place).wrapping_mul(2_654_435_761) >> 8;
        of[mixed as usize % of.len()]
    };
    let down = |knob: &str, present: i64, target: i64| KnobCandidates {
        knob: knob.to_owned(),
        present: Value::Int(present),
        candidates: downwards(present, target, 1),
    };
    let along = |knob: &str, present: i64, most: i64| KnobCandidates {
        knob: knob.to_owned(),
        present: Value::Int(present),
        candidates: following(present, 1, most),
    };
    let train = draw(1, &[1, 6, 30, 48, 64, 96, 100]);
    let mini = draw(2, &[1, 5, 12, 24, 32, 48]);
    let micro = draw(3, &[1, 2, 3, 7, 8, 16]);
    let logprob = draw(4, &[1, 4, 9, 16]);
    if seed.is_multiple_of(2) {
        return vec![
            down("train_batch_size", train, (train / 2).max(1)),
            down("ppo_mini_batch_size", mini, (mini / 2).max(1)),
            down("ppo_micro_batch_size_per_gpu", micro, (micro / 2).max(1)),
            along(
                "rollout.log_prob_micro_batch_size_per_gpu",
                logprob,
                logprob,
            ),
        ];
    }
    let gpus = draw(5, &[1, 2, 3, 4]);
    vec![
        KnobCandidates {
            knob: "n_gpus_per_node".to_owned(),
            present: Value::Int(gpus),
            candidates: vec![Value::Int(gpus * 2), Value::Int(gpus)],
        },
        along("ppo_mini_batch_size", mini, 2 * mini),
        along("ppo_micro_batch_size_per_gpu", micro, micro),
    ]
}

#[test]
fn what_is_found_is_what_an_eager_search_finds() {
    let facts = ClusterFacts::default();
    let (mut found, mut none) = (0, 0);
    for seed in 0..24 {
        let trials = trials(seed);
        let set = trials
            .iter()
            .map(|t| format!("{}={}", t.knob, t.present))
            .collect::<Vec<_>>();
        let stack = grpo(&set);
        let recipe = stack.recipe();
        let shaper = Shaper::new(&stack.preset, &facts, None);
        let names = knobs(&trials);
        let scope = scope_of(&stack.preset, &recipe, &facts, None);
        let checker = Checker::new(&UnderTrial::new(&shaper, &recipe, &scope, &names));
        let nearest = nearest_legal(&checker, &trials);
        assert_eq!(nearest, eager(&checker, &trials), "seed {seed}: {set:?}");
        match nearest {
            Some(_) => found += 1,
            None => none += 1,
        }
    }
    assert!(found > 8 && none > 0, "{found} found, {none} not");
}
