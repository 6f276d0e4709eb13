//! A patch that is read again: it says exactly what was wished.

use super::adopt::Adoption;
use super::ask::Ask;
use super::change::PatchError;
use super::context::SubmissionContext;
use super::knobs::{FoundKnob, KnobForm, KnobState, calculated, find};
use super::patched::Patch;
use super::stack::StackKnob;
use oomctl_base::{Role, Value};

impl Adoption<'_> {
    /// Reads the patched texts again and compares: the batches of all GPUs that would change with what the job asks for, with their
    /// values now.
    pub(super) fn verify(
        &self,
        patch: &Patch,
        wishes: &[(&str, Value)],
        asks: &[Ask],
    ) -> Result<Vec<(String, Value)>, Vec<PatchError>> {
        let (submission, files) = self.resubmitted(patch);
        let again = Adoption::read(SubmissionContext {
            submission: &submission,
            files: &files,
            ..self.given
        });
        let (Some(stack), Some(same)) = (self.stack, again.stack) else {
            let nothing = self.stack.is_none() && again.stack.is_none();
            let why = "the program would no longer be recognised";
            let refused = PatchError::new("", why);
            return if nothing {
                Ok(Vec::new())
            } else {
                Err(vec![refused])
            };
        };
        let (mut problems, mut moved) = (Vec::new(), Vec::new());
        if stack.name != same.name || self.calls().count() != again.calls().count() {
            let why = "another program is recognised".to_owned();
            problems.push(PatchError::new("", why));
        }
        for (old, new) in self.calls().zip(again.calls()) {
            let wished = wishes.iter().filter_map(|(name, _)| stack.knob(name));
            let wished: Vec<_> = wished.filter_map(|k| find(&self.reading, old, k)).collect();
            let follows = !asks.is_empty() || wished.iter().any(|w| w.way == KnobForm::Asked);
            for knob in &stack.knobs {
                let wish = wishes.iter().find(|(name, _)| *name == knob.name);
                let was = find(&self.reading, old, knob);
                // Another name for the same bytes or for what the job asks for, or what the program computes of another value.
                let computed = old.constant(knob).is_some_and(|value| value.follows);
                let same = |found: &FoundKnob| {
                    computed
                        || found.way == KnobForm::Asked
                        || wished.iter().any(|w| w.value == found.value)
                };
                if wish.is_none() && was.as_ref().is_some_and(same) {
                    continue;
                }
                let is = find(&again.reading, new, knob);
                let by_request = |found: &FoundKnob| follows && calculated(&self.reading, found);
                if wish.is_none() && was.as_ref().is_some_and(by_request) {
                    moved.extend(before(knob, was.as_ref(), is.as_ref()));
                    continue;
                }
                if let Some(why) = mismatch(wish.map(|(_, v)| v), was.as_ref(), is.as_ref()) {
                    let knob = knob.name.clone();
                    problems.push(PatchError::new(knob, why));
                }
            }
        }
        if problems.is_empty() {
            Ok(moved)
        } else {
            Err(problems)
        }
    }
}

/// The value that a batch of all GPUs had, where it has another one now. Counts of GPUs and processes follow what the job asks for,
/// and an accumulation that is divided by them keeps the batch of a step.
fn before(
    knob: &StackKnob,
    was: Option<&FoundKnob>,
    is: Option<&FoundKnob>,
) -> Option<(String, Value)> {
    let of_all = matches!(knob.role, Some(Role::TrainBatch | Role::MiniBatch));
    let (KnobState::Known(was), KnobState::Known(is)) = (&was?.state, &is?.state) else {
        return None;
    };
    (was != is && of_all).then(|| (knob.name.clone(), was.clone()))
}

/// What is wrong with a value after a patch.
fn mismatch(
    wish: Option<&Value>,
    was: Option<&FoundKnob>,
    is: Option<&FoundKnob>,
) -> Option<String> {
    if let Some(wish) = wish {
        let off = *wish == Value::Bool(false) && is.is_none();
        let said = is.is_some_and(|f| f.state == KnobState::Known(wish.clone()) && !f.maybe);
        return (!off && !said).then(|| "the new value would be overridden".to_owned());
    }
    let said = |found: Option<&FoundKnob>| {
        found.map(|f| {
            let state = match &f.state {
                KnobState::Computed(_, why) => Err(*why),
                other => Ok(other.clone()),
            };
            let way = match f.way {
                KnobForm::Setting { format, .. } => KnobForm::Setting {
                    format,
                    shared: false,
                },
                other => other,
            };
            (state, f.value.text(), way, f.maybe)
        })
    };
    (said(was) != said(is)).then(|| "its value would change too".to_owned())
}
