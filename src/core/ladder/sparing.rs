//! Rungs without the moves that change training in vain: others of the same rung are enough.

use super::ascent::Ascent;
use super::decision::Step;
use super::posterior::Posterior;
use oomctl_base::Effect;

impl Ascent<'_> {
    /// The steps without those of their changes that make another experiment of the job, where the next attempt fits with
    /// this probability without them.
    pub(super) fn sparing_training(
        &self,
        mut steps: Vec<Step>,
        probability: f64,
        posterior: &Posterior,
    ) -> Vec<Step> {
        if self.context.whole_rungs {
            return steps;
        }
        for at in 0..steps.len() {
            let Some(sparing) = same_math(&steps[at]) else {
                continue;
            };
            let whole = std::mem::replace(&mut steps[at], sparing);
            let legal = self.look(&self.with(&steps)).is_ok();
            let fits = self.fits(&steps, posterior).filter(|_| legal);
            match fits.filter(|fits| *fits >= probability) {
                Some(fits) => steps[at].notes.push(left_out(&whole, fits)),
                None => steps[at] = whole,
            }
        }
        self.rebased(steps)
    }
}

/// A step with those of its changes alone that keep the mathematics; None where these are all or none.
fn same_math(step: &Step) -> Option<Step> {
    let mut sparing = step.clone();
    sparing
        .changes
        .retain(|c| c.effect != Effect::ChangesTraining);
    if sparing.changes.is_empty() || sparing.changes.len() == step.changes.len() {
        return None;
    }
    sparing
        .layer
        .settings
        .retain(|knob, _| sparing.changes.iter().any(|c| c.knob == *knob));
    sparing.effect = sparing.changes.iter().map(|c| c.effect).max()?;
    Some(sparing)
}

fn left_out(step: &Step, fits: f64) -> String {
    let trains = step
        .changes
        .iter()
        .filter(|c| c.effect == Effect::ChangesTraining);
    let knobs: Vec<&str> = trains.map(|c| c.knob.as_str()).collect();
    let (stay, them) = match knobs[..] {
        [_] => ("stays", "it"),
        _ => ("stay", "them"),
    };
    format!(
        "{} {stay}: without {them} the next attempt fits with probability {fits:.2}",
        knobs.join(", ")
    )
}
