//! Steps of a climb that take each other back.

use super::ascent::Ascent;
use super::decision::{Change, Step};
use oomctl_base::{Value, ValueKind};

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

/// Joins a step to an earlier one of which it takes a part back: the earlier one then goes less far.
fn join_what_goes_back(steps: &mut Vec<Step>) {
    let number = |value: &Value| value.number(ValueKind::Float);
    let by = |change: &Change| Some(number(&change.to)? - number(&change.from)?);
    let goes_back = |late: &Change, early: &Change| {
        let (late_by, early_by) = (by(late).unwrap_or(0.0), by(early).unwrap_or(0.0));
        late.knob == early.knob && late_by * early_by < 0.0 && late_by.abs() < early_by.abs()
    };
    for late in (1..steps.len()).rev() {
        let [back] = &steps[late].changes[..] else {
            continue;
        };
        let back = back.clone();
        let mut before = steps[..late].iter_mut().rev();
        let Some((early, change)) = before.find_map(|early| {
            let at = early.changes.iter().position(|c| goes_back(&back, c))?;
            Some((early, at))
        }) else {
            continue;
        };
        if let Some(setting) = early.layer.settings.get_mut(&back.knob) {
            setting.value = back.to.clone();
            early.changes[change].to = back.to;
            steps.remove(late);
        }
    }
}

impl Ascent<'_> {
    /// Takes out pairs of steps of which the later one takes back what the earlier one did, and joins those of which it takes back a part.
    pub(super) fn drop_what_cancels_out(&self, steps: &mut Vec<Step>) {
        join_what_goes_back(steps);
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
