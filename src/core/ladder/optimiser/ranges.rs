//! The values that numbers may have beside each other.

use super::super::bounds::{SearchBounds, Switch};
use super::super::numbers::SpeedKnob;
use super::Optimiser;
use crate::core::recipe::Values;
use oomctl_base::Value;

impl Optimiser<'_> {
    /// The numbers that can go down, with every value that breaks no rule beside the present ones of the others.
    pub(super) fn whole(&self, reach: &SearchBounds, present: &Values) -> Vec<SpeedKnob> {
        let numbers = reach.numbers.iter();
        numbers.filter_map(|n| self.legal(n, present)).collect()
    }

    /// Those of the numbers that no switch sets, with what their values cost beside these.
    pub(super) fn free(
        &mut self,
        numbers: &[SpeedKnob],
        switches: &[&Switch],
        values: &Values,
    ) -> Vec<SpeedKnob> {
        let free = |n: &&SpeedKnob| switches.iter().all(|s| s.knob != n.knob);
        let free = numbers.iter().filter(free);
        free.map(|n| self.priced(n, values)).collect()
    }

    /// The values of a number that break no rule beside the others; `None` where it cannot go down.
    fn legal(&self, number: &SpeedKnob, present: &Values) -> Option<SpeedKnob> {
        let now = present.get(&number.knob);
        let legal = self.checker.allows(&number.knob, present);
        let kept = |v: &&Value| now == Some(*v) || legal(v);
        let values: Vec<Value> = number.values.iter().filter(kept).cloned().collect();
        (values.len() > 1).then(|| number.clone().of(values))
    }

    /// The numbers that can go down, with the ends of what they may be.
    pub(super) fn all_ends(&self, reach: &SearchBounds, present: &Values) -> Vec<SpeedKnob> {
        let numbers = reach.numbers.iter();
        numbers.filter_map(|n| self.ends(n, present)).collect()
    }

    /// The same with its first and its last value alone. What an engine's share may be depends on all of its values.
    fn ends(&self, number: &SpeedKnob, present: &Values) -> Option<SpeedKnob> {
        if self.is_share(number) {
            return self.legal(number, present);
        }
        let now = present.get(&number.knob);
        let legal = self.checker.allows(&number.knob, present);
        let kept = |v: &&Value| now == Some(*v) || legal(v);
        let first = number.values.iter().find(kept)?;
        let last = number.values.iter().rev().find(kept)?;
        (first != last).then(|| number.clone().of(vec![first.clone(), last.clone()]))
    }
}
