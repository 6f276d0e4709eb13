//! Weights, gradients and the optimizer's states that alone need more than a GPU has.
//!
//! Rule: only what is needed for certain counts; where anything is unknown, nothing is said.

use super::climb::RungView;
use super::context::ClimbContext;
use super::said::{is_first, total};
use crate::core::recipe::{Preset, Shape, Shaper};
use oomctl_base::Effect;
use oomctl_base::units::{Bytes, GIB};
use oomctl_diagnose::Incident;

/// What a preset calls the bytes that they need on each GPU at least.
const LEAST_STATES: &str = "least_states";

/// What an expression comes to; `None` where that is unknown.
pub(super) fn number(shaper: &Shaper<'_>, shape: &Shape, text: &str) -> Option<f64> {
    let unknown = shaper.unknown_in(shape.recipe(), &[text]);
    let known = || shaper.expressions.evaluate(text, shape.scope()).ok();
    f64::try_from(known().filter(|_| unknown.is_none())?).ok()
}

fn least_states(preset: &Preset) -> Option<&String> {
    preset.memory.as_ref()?.fields.get(LEAST_STATES)
}

/// Notes in an incident that they need more than its GPU has. Not where the job has trained a step already.
pub fn too_large_states(context: &ClimbContext<'_>, incident: &mut Incident) {
    let least = || {
        let text = least_states(context.preset)?;
        let total = total(incident).filter(|_| is_first(incident))?;
        let shaper = Shaper::new(context.preset, context.cluster, context.cluster_name);
        let layers = context.layers.iter().chain(context.rungs);
        let (shape, _) = shaper.judged(layers).ok()?;
        number(&shaper, &shape, text).filter(|least| *least > total)
    };
    if let Some(least) = least() {
        incident.exceeded_by_states(Bytes::from_gib(least / GIB));
    }
}

impl RungView<'_, '_> {
    /// Why a step is in vain: it leaves them too large, as large as before or after a change of training. Not where the job has
    /// trained a step already.
    pub(super) fn leaves_too_much(&self, next: &Shape, effect: Effect) -> Option<String> {
        let total = self.failure.total_at_first?;
        let least = |shape| {
            let shaper = &self.evaluations.shaper;
            number(shaper, shape, least_states(self.context.preset)?)
        };
        let (now, then) = (least(self.shape)?, least(next)?);
        let in_vain = then >= now || effect == Effect::ChangesTraining;
        (then > total && in_vain).then(|| {
            format!(
                "weights, gradients and the optimizer's states alone need at least {:.0} GiB of each GPU, which has {:.0} GiB",
                then / GIB,
                total / GIB
            )
        })
    }
}
