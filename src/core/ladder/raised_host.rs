//! Host memory that a rung moves GPU memory to, and that the job then has to ask for.

use super::ascent::{Ascent, FailedAttempt, host_factor};
use super::decision::{Change, Step};
use super::host::NodeResources;
use super::optimiser::HOST_MARGIN;
use crate::core::recipe::Layer;
use oomctl_base::units::{Bytes, GIB, slurm_mem};
use oomctl_base::{Effect, Value};

impl Ascent<'_> {
    /// A step that asks for as much host memory as it needs, where it needs more than the job asks for and a node is known to have
    /// it.
    pub(super) fn with_host(
        &self,
        rungs: &[Layer],
        step: Step,
        failed: &[FailedAttempt<'_>],
    ) -> Step {
        self.raised(rungs, &step, failed).unwrap_or(step)
    }

    fn raised(&self, rungs: &[Layer], step: &Step, failed: &[FailedAttempt<'_>]) -> Option<Step> {
        let node = NodeResources::new(self.context.preset, self.context.cluster);
        let (knob, most) = (node.knob()?, node.most?);
        let then = step.on(rungs);
        let (before, _) = self.host(rungs)?;
        let (after, _) = self.host(&then)?;
        let look = self.look(&then).ok()?;
        let recipe = look.shape.recipe();
        let Value::Text(text) = recipe.value(knob) else {
            return None;
        };
        let asked = Bytes::parse(text).ok().filter(|b| b.0 > 0)?.as_f64();
        let need = after * host_factor(failed);
        if after <= before || need <= asked {
            return None;
        }
        let mut step = step.clone();
        if let Some(pin) = recipe.pins.get(knob) {
            step.notes.push(format!(
                "a node needs about {:.0} GiB of host memory, and {knob} is pinned to {text} ({pin})",
                need / GIB
            ));
            return Some(step);
        }
        let to = Value::Text(slurm_mem((need * HOST_MARGIN).min(most)));
        let origin = step.layer.settings.values().next()?.origin.clone();
        step.changes.push(Change {
            knob: knob.to_owned(),
            from: recipe.value(knob).clone(),
            to: to.clone(),
            effect: Effect::Resources,
            called: None,
        });
        step.layer.set(knob, to, origin);
        step.effect = step.effect.max(Effect::Resources);
        Some(step)
    }
}
