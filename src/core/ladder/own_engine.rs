//! Whether a configuration runs an inference engine on the GPUs on which it trains.

use super::context::ClimbContext;
use super::incident::{FailureContext, objection_anyway};
use super::moves::knobs;
use crate::core::recipe::{Preset, RungSpec, Shaper};
use oomctl_base::Role;
use oomctl_diagnose::Incident;

/// Takes what other processes seem to hold for what the configuration's own engine holds, where it has one on these GPUs: a
/// log that ends before the last words of a launcher need not name it.
pub fn own_engine(context: &ClimbContext<'_>, incident: &mut Incident) {
    if incident.co_tenant_bytes.is_some() && shares_its_gpus(context) {
        incident.may_be_its_engine();
    }
}

/// A preset says when the engine shares the GPU: by the rung that takes memory from it, whatever failed.
fn shares_its_gpus(context: &ClimbContext<'_>) -> bool {
    let shaper = Shaper::new(context.preset, context.cluster, context.cluster_name);
    let layers = context.layers.iter().chain(context.rungs);
    let Ok((shape, _)) = shaper.judged(layers) else {
        return false;
    };
    let nothing = FailureContext::of(None);
    let of_engine = context
        .ladder
        .iter()
        .filter(|r| moves_share(context.preset, r));
    of_engine
        .map(|rung| objection_anyway(&shaper, shape.recipe(), shape.scope(), rung, &nothing))
        .any(|objection| objection.is_none())
}

fn moves_share(preset: &Preset, rung: &RungSpec) -> bool {
    let mut moved = rung.moves.iter().flat_map(|step| knobs(preset, step));
    moved.any(|knob| knob.role == Some(Role::RolloutMemoryFraction))
}
