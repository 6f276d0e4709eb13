//! The nearest legal values to those that a rung wants.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::recipe::{Checker, Rule, Value};

/// Values that one knob may be given, the most preferred first.
#[derive(Debug, Clone)]
pub(super) struct Trial {
    /// The knob.
    pub knob: String,
    /// The value that it has.
    pub present: Value,
    /// Candidates; the present value is the last or (for knobs that are only adjusted) the first.
    pub candidates: Vec<Value>,
}

/// Whole numbers tried for one knob.
const MOST_CANDIDATES: usize = 4_096;
/// Combinations tried for one rung.
const MOST_TRIALS: u32 = 20_000;

/// Candidates for a whole number that is to go down from `present` to `target`: the target, what
/// lies below it down to `floor`, what lies above it, and the present value.
pub(super) fn downwards(present: i64, target: i64, floor: i64) -> Vec<Value> {
    let below = (floor..=target).rev();
    let above = target + 1..present;
    let mut values: Vec<Value> = below
        .chain(above)
        .take(MOST_CANDIDATES)
        .map(Value::Int)
        .collect();
    values.push(Value::Int(present));
    values
}

/// Candidates for a whole number that may follow the others down: the present value first.
pub(super) fn following(present: i64, floor: i64) -> Vec<Value> {
    (floor..=present)
        .rev()
        .take(MOST_CANDIDATES)
        .map(Value::Int)
        .collect()
}

/// The first combination, in order of preference with the first knob weighing most, that breaks no
/// rule. `None` when there is none within the bound on trials.
pub(super) fn nearest_legal(
    checker: &Checker<'_>,
    mut trials: Vec<Trial>,
) -> Option<BTreeMap<String, Value>> {
    for trial in &mut trials {
        let (knob, present) = (trial.knob.clone(), trial.present.clone());
        trial
            .candidates
            .retain(|v| *v == present || checker.broken_alone(&knob, v).is_none());
    }
    let mut chosen = BTreeMap::new();
    let mut left = MOST_TRIALS;
    descend(checker, &trials, &mut chosen, &mut left).then_some(chosen)
}

fn descend(
    checker: &Checker<'_>,
    trials: &[Trial],
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
        if checker.broken_by(&trial.knob, chosen).is_none() && descend(checker, rest, chosen, left)
        {
            return true;
        }
    }
    chosen.remove(&trial.knob);
    false
}

/// The rule that speaks against `value` for `knob` when the others are as chosen.
pub(super) fn objection<'a>(
    checker: &Checker<'a>,
    chosen: &BTreeMap<String, Value>,
    knob: &str,
    value: &Value,
) -> Option<&'a Rule> {
    let mut trial = chosen.clone();
    trial.insert(knob.to_owned(), value.clone());
    checker.broken_by(knob, &trial)
}

/// The names of the knobs under trial.
pub(super) fn knobs(trials: &[Trial]) -> BTreeSet<String> {
    trials.iter().map(|t| t.knob.clone()).collect()
}
