//! Numbers from their least to as large as they may be.

use std::collections::BTreeMap;

use super::super::numbers::Number;
use super::{Filled, Filler, LIKELY};
use crate::core::recipe::{Value, Values};

/// Numbers that are tried as the first to be raised, and a loss that is not worth it.
const MOST_FIRSTS: usize = 4;
const NO_LOSS: f64 = 0.01;

impl Filler<'_> {
    /// Numbers without those values for which the GPUs are not sure enough even while the others are at their least. Host and
    /// engine are not asked, for an engine is the less sure to start the less it has.
    pub(super) fn bounded(&mut self, least: &Filled, numbers: &[Number], risk: f64) -> Vec<Number> {
        let bounded = |number: &Number| {
            let mut values = least.values.clone();
            largest(&mut values, number, |values| self.fits_gpu(values, risk));
            let most = values.get(&number.knob).unwrap_or(&Value::Null);
            number.clone().up_to(most)
        };
        numbers.iter().map(bounded).collect()
    }

    /// Numbers as large as they may be, from their least. Each gets an equal part of the doubt that is allowed, then
    /// what is left of it, the one that costs most first; or one of them gets as much as it can use.
    pub(super) fn raise(
        &mut self,
        least: &Filled,
        given: &Filled,
        numbers: &[Number],
        risk: f64,
    ) -> Filled {
        let mut order: Vec<&Number> = numbers.iter().collect();
        let cost = |n: &Number| n.values.last().map_or(0.0, |v| n.loss(v));
        order.sort_by(|a, b| cost(b).total_cmp(&cost(a)));
        #[expect(clippy::cast_precision_loss, reason = "a few knobs")]
        let parts = |i: usize| (i + 1) as f64 / order.len() as f64;
        let sure = least.order();
        let bound = |i| sure - (sure - risk) * parts(i);
        let all = order.iter().chain(&order).copied().enumerate();
        let shared = all.map(|(i, n)| (n, if i < order.len() { bound(i) } else { risk }));
        let shared: Vec<(&Number, f64)> = shared.collect();
        let mut best = self.raised(least, given, &shared);
        for first in order.iter().take(MOST_FIRSTS) {
            if best.loss <= given.loss + NO_LOSS {
                break;
            }
            let rest = order.iter().filter(|n| n.knob != first.knob);
            let all = std::iter::once(first).chain(rest).map(|n| (*n, risk));
            let other = self.raised(least, given, &all.collect::<Vec<_>>());
            if other.loss < best.loss {
                best = other;
            }
        }
        best
    }

    /// Numbers from their least, one after the other, each as large as it may be with a probability.
    fn raised(&mut self, least: &Filled, given: &Filled, order: &[(&Number, f64)]) -> Filled {
        let mut values = least.values.clone();
        for (number, bound) in order {
            self.largest(&mut values, number, *bound);
        }
        let lost = order.iter().map(|(n, _)| (n.knob.as_str(), *n));
        let lost: BTreeMap<&str, &Number> = lost.collect();
        let of = |n: &&Number| values.get(&n.knob).map_or(0.0, |v| n.loss(v));
        let loss = given.loss + lost.values().map(of).sum::<f64>();
        self.judged(values, loss)
    }

    /// Sets a number to its largest value that is as sure as `bound`, in the order of `Filled::order`.
    fn largest(&mut self, values: &mut Values, number: &Number, bound: f64) {
        largest(values, number, |values| match bound < LIKELY {
            true => self.near(values) * LIKELY >= bound,
            false => self.reaches(values, bound),
        });
    }
}

/// Sets a number to its largest value that is sure, of which the present one is taken to be.
fn largest(values: &mut Values, number: &Number, mut sure: impl FnMut(&Values) -> bool) {
    let has = values.get(&number.knob);
    let Some(mut high) = number.values.iter().position(|v| Some(v) == has) else {
        return;
    };
    let mut low = number.largest();
    while low < high {
        let middle = usize::midpoint(low, high);
        values.set(&number.knob, number.values[middle].clone());
        match sure(values) {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    values.set(&number.knob, number.values[high].clone());
}
