//! Steps of a climb that take each other back.

use super::ascent::Ascent;
use super::decision::Step;

/// Whether some steps give a knob of two of them another value than they would without both, by what the steps say alone: then
/// nothing need be looked at.
fn is_another_value(steps: &[Step], early: usize, late: usize) -> bool {
    let mut knobs = [early, late]
        .into_iter()
        .flat_map(|at| steps[at].layer.settings.keys());
    knobs.any(|knob| {
        let set = |step: &Step| step.layer.settings.get(knob).map(|s| s.value.clone());
        let with = steps.iter().rev().find_map(set);
        let others = steps.iter().enumerate().rev();
        let mut others = others.filter(|(at, _)| *at != early && *at != late);
        let before = || {
            let mut changes = steps.iter().flat_map(|step| &step.changes);
            changes.find(|c| c.knob == *knob).map(|c| c.from.clone())
        };
        let without = others.find_map(|(_, step)| set(step)).or_else(before);
        without.is_some() && with != without
    })
}

impl Ascent<'_> {
    /// Takes out pairs of steps of which the later one takes back what the earlier one did.
    pub(super) fn drop_what_cancels_out(&self, steps: &mut Vec<Step>) {
        let takes_back = |steps: &[Step], early: usize, late: usize| {
            if is_another_value(steps, early, late) {
                return false;
            }
            let mut without = steps.to_vec();
            without.remove(late);
            without.remove(early);
            !without.is_empty()
                && [early, late].iter().all(|at| {
                    !steps[*at].changes.is_empty() && !self.differ(steps, &without, &steps[*at])
                })
                && self.look(&self.with(&without)).is_ok()
        };
        for late in (1..steps.len()).rev() {
            let pair = (0..late)
                .rev()
                .find(|early| takes_back(steps, *early, late));
            if let Some(early) = pair {
                steps.remove(late);
                steps.remove(early);
                return self.drop_what_cancels_out(steps);
            }
        }
    }
}
