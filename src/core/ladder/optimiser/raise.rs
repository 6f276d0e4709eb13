//! Numbers from their least to as large as they may be.

use super::super::numbers::SpeedKnob;
use super::{Filled, LIKELY, Optimiser, loss};
use crate::core::recipe::Values;
use oomctl_base::Value;

/// Numbers that are tried as the first to be raised, and a loss that is not worth it.
const MOST_FIRSTS: usize = 4;
const NO_LOSS: f64 = 0.01;

/// Numbers that were raised.
pub(super) struct Raised {
    /// All values.
    pub values: Values,
    /// Loss by the numbers.
    pub lost: f64,
}

impl Optimiser<'_> {
    /// Numbers without those values for which the GPUs are not sure enough even while the others are at their least; `None` where
    /// what is left of them loses `most` at least. Host and engine are not asked, for an engine is the less sure to start the
    /// less it has.
    pub(super) fn bounded(
        &mut self,
        least: &Filled,
        numbers: &[SpeedKnob],
        min_fit_probability: f64,
        most: f64,
    ) -> Option<Vec<SpeedKnob>> {
        let mut numbers = numbers.to_vec();
        let mut at = 0;
        while numbers.iter().map(SpeedKnob::least_loss).sum::<f64>() < most {
            let Some(number) = numbers.get_mut(at) else {
                return Some(numbers);
            };
            let mut values = least.values.clone();
            largest(&mut values, number, |values| {
                self.fits_gpu(values, min_fit_probability)
            });
            number.up_to(values.get(&number.knob).unwrap_or(&Value::Null));
            at += 1;
        }
        None
    }

    /// Numbers as large as they may be, from their least. Each gets an equal part of the doubt that is allowed, then
    /// what is left of it, the one that costs most first; or one of them gets as much as it can use.
    pub(super) fn raise(
        &mut self,
        least: &Filled,
        numbers: &[SpeedKnob],
        min_fit_probability: f64,
    ) -> Raised {
        let mut order: Vec<&SpeedKnob> = numbers.iter().collect();
        let cost = |n: &SpeedKnob| n.values.last().map_or(0.0, |v| n.loss(v));
        order.sort_by(|a, b| cost(b).total_cmp(&cost(a)));
        let parts = |i: usize| (i + 1) as f64 / order.len() as f64;
        let sure = least.order();
        let bound = |i| sure - (sure - min_fit_probability) * parts(i);
        let mut values = least.values.clone();
        for (i, number) in order.iter().enumerate() {
            self.largest(&mut values, number, bound(i));
        }
        for number in &order {
            self.largest(&mut values, number, min_fit_probability);
        }
        let lost = loss(numbers, &values);
        let mut best = Raised { values, lost };
        for first in order.iter().take(MOST_FIRSTS) {
            if best.lost <= NO_LOSS {
                break;
            }
            let rest = order.iter().filter(|n| n.knob != first.knob);
            let turns: Vec<&SpeedKnob> = std::iter::once(first).chain(rest).copied().collect();
            let other = self.in_turn(&least.values, &turns, min_fit_probability, best.lost);
            best = other.filter(|o| o.lost < best.lost).unwrap_or(best);
        }
        best
    }

    /// Numbers from their least, one after the other, each as large as it may be; `None` once they must lose more than `most`.
    fn in_turn(
        &mut self,
        least: &Values,
        order: &[&SpeedKnob],
        min_fit_probability: f64,
        most: f64,
    ) -> Option<Raised> {
        let mut values = least.clone();
        let mut lost = 0.0;
        for (i, number) in order.iter().enumerate() {
            self.largest(&mut values, number, min_fit_probability);
            lost += values.get(&number.knob).map_or(0.0, |v| number.loss(v));
            let rest = order[i + 1..].iter().map(|n| n.least_loss());
            if lost + rest.sum::<f64>() > most {
                return None;
            }
        }
        Some(Raised { values, lost })
    }

    /// Sets a number to its largest value that is as sure as `bound`, in the order of `Filled::order`.
    fn largest(&mut self, values: &mut Values, number: &SpeedKnob, bound: f64) {
        largest(values, number, |values| match bound < LIKELY {
            true => self.near(values) * LIKELY >= bound,
            false => self.reaches(values, bound),
        });
    }
}

/// Sets a number to its largest value that is sure, of which the present one is taken to be.
fn largest(values: &mut Values, number: &SpeedKnob, mut sure: impl FnMut(&Values) -> bool) {
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
