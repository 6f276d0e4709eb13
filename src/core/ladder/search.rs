//! The nearest legal values to those that a rung wants.

use std::collections::{BTreeMap, BTreeSet};

use super::moves::Aim;
use crate::core::recipe::{Checker, Rule, Values};
use oomctl_base::{Value, ValueKind};

/// Values that one knob may be given, the most preferred first.
#[derive(Debug, Clone)]
pub(super) struct KnobCandidates {
    /// The knob.
    pub knob: String,
    /// The value that it has.
    pub present: Value,
    /// Candidates; the present value is the last or (for knobs that are only adjusted) the first.
    pub candidates: Vec<Value>,
}

impl KnobCandidates {
    /// The values to try for an aim: of a whole number that goes down every one, else target or present.
    pub(super) fn of(aim: &Aim) -> Option<Self> {
        let Aim::To {
            knob,
            present,
            target,
            floor,
            ..
        } = aim
        else {
            return None;
        };
        let candidates = match (present, target) {
            (Value::Int(now), Value::Int(to)) if to < now => {
                let least = match Value::from_number(ValueKind::Int, floor.max(-1e15)) {
                    Value::Int(least) => least.min(*to),
                    _ => *to,
                };
                downwards(*now, *to, least)
            }
            _ => vec![target.clone(), present.clone()],
        };
        Some(Self {
            knob: knob.clone(),
            present: present.clone(),
            candidates,
        })
    }
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

/// Candidates for a whole number that may follow the others: the present value first, then what lies below it, and up to
/// `most` above it where nothing below is legal.
pub(super) fn following(present: i64, floor: i64, most: i64) -> Vec<Value> {
    let below = (floor..=present).rev().take(MOST_CANDIDATES);
    let above = (present + 1..=most).take(MOST_CANDIDATES);
    below.chain(above).map(Value::Int).collect()
}

/// The first combination, in order of preference with the first knob weighing most, that breaks no
/// rule. `None` when there is none within the bound on trials. A candidate that breaks a rule by itself
/// counts as no trial, unless it is the present value.
pub(super) fn nearest_legal(
    checker: &Checker<'_>,
    trials: &[KnobCandidates],
) -> Option<BTreeMap<String, Value>> {
    let mut search = ValueSearch {
        checker,
        trials,
        tests: tests(checker, trials),
        known: BTreeMap::new(),
        left: MOST_TRIALS,
    };
    let mut chosen = Vec::with_capacity(trials.len());
    search.descend(&mut chosen).then(|| {
        let values = trials.iter().zip(chosen);
        values
            .map(|(trial, at)| (trial.knob.clone(), trial.candidates[at].clone()))
            .collect()
    })
}

/// A rule as the search sees it when a trial gets its value: the trials whose values it looks at.
struct Test {
    /// The rule's number in the checker.
    rule: usize,
    /// Numbers of the trials, at most the one in question.
    trials: Vec<usize>,
}

/// For each trial the rules that can be tested once it has a value.
fn tests(checker: &Checker<'_>, trials: &[KnobCandidates]) -> Vec<Vec<Test>> {
    let of = |at: usize| {
        let knob = &trials[at].knob;
        let place = |k: &String| trials[..=at].iter().rposition(|t| t.knob == *k);
        let about = checker.knobs().enumerate();
        about
            .filter(|(_, knobs)| knobs.contains(knob))
            .filter_map(|(rule, knobs)| {
                let trials = knobs.iter().map(place).collect::<Option<_>>()?;
                Some(Test { rule, trials })
            })
            .collect()
    };
    (0..trials.len()).map(of).collect()
}

struct ValueSearch<'a, 'c> {
    checker: &'a Checker<'c>,
    trials: &'a [KnobCandidates],
    tests: Vec<Vec<Test>>,
    /// Answers of rules, by the candidates that they look at.
    known: BTreeMap<(usize, Vec<usize>), bool>,
    left: u32,
}

impl ValueSearch<'_, '_> {
    fn descend(&mut self, chosen: &mut Vec<usize>) -> bool {
        let at = chosen.len();
        let Some(trial) = self.trials.get(at) else {
            return true;
        };
        for (candidate, value) in trial.candidates.iter().enumerate() {
            chosen.push(candidate);
            let counts = *value == trial.present || self.holds(chosen, true);
            if counts && self.left == 0 {
                return false;
            }
            self.left -= u32::from(counts);
            if counts && self.holds(chosen, false) && self.descend(chosen) {
                return true;
            }
            chosen.truncate(at);
        }
        false
    }

    /// Do the rules about the last of the chosen hold; `alone` asks those only that look at nothing else.
    fn holds(&mut self, chosen: &[usize], alone: bool) -> bool {
        let tests = &self.tests[chosen.len() - 1];
        let mut asked = tests.iter().filter(|t| !alone || t.trials.len() == 1);
        asked.all(|test| {
            let key: Vec<usize> = test.trials.iter().map(|t| chosen[*t]).collect();
            let ask = || {
                let values = test.trials.iter().zip(&key).map(|(t, at)| {
                    let trial = &self.trials[*t];
                    (trial.knob.as_str(), &trial.candidates[*at])
                });
                self.checker.holds(test.rule, values)
            };
            match self.known.get(&(test.rule, key.clone())) {
                Some(known) => *known,
                None => {
                    let answer = ask();
                    self.known.insert((test.rule, key), answer);
                    answer
                }
            }
        })
    }
}

/// The rule that speaks against `value` for `knob` when the others are as chosen.
pub(super) fn objection<'a>(
    checker: &Checker<'a>,
    chosen: &BTreeMap<String, Value>,
    knob: &str,
    value: &Value,
) -> Option<&'a Rule> {
    let mut trial: Values = chosen.clone().into_iter().collect();
    trial.set(knob, value.clone());
    checker.broken_by(knob, &trial)
}

/// The names of the knobs under trial.
pub(super) fn knobs(trials: &[KnobCandidates]) -> BTreeSet<String> {
    trials.iter().map(|t| t.knob.clone()).collect()
}
