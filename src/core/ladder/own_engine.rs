//! Whether a configuration runs an inference engine on the GPUs on which it trains.

use super::context::ClimbContext;
use super::incident::{FailureContext, objection_anyway};
use super::moves::knobs;
use crate::core::recipe::{Preset, RungSpec, Shaper};
use oomctl_base::{Role, Value, word_list};
use oomctl_diagnose::Incident;

/// Phases in which a sleeping engine holds next to nothing.
const TRAINS: [&str; 7] =
    word_list("old_logprob ref_logprob critic actor_update forward backward optimizer_step");

/// How far what an engine holds may be from its share of the GPU: its context, and what it did not need.
const ABOUT: f64 = 0.05;

/// How much more of the GPU than its share no engine holds, with its context, its CUDA graphs and what it was loaded with.
const MORE: f64 = 0.25;

/// Takes what other processes seem to hold for what the configuration's own engine holds, where it has one on these GPUs: a
/// log that ends before the last words of a launcher need not name it.
pub fn own_engine(context: &ClimbContext<'_>, incident: &mut Incident) {
    let Some(beside) = incident.beside_bytes else {
        return;
    };
    let Some(share) = share_beside_training(context) else {
        return;
    };
    let held = incident.total_bytes.filter(|total| total.0 > 0);
    let held = held.map(|total| beside.0 as f64 / total.0 as f64);
    let is_more = held.is_some_and(|held| held > share + MORE);
    if incident.co_tenant_bytes.is_some() && !is_more {
        incident.may_be_its_engine();
    }
    let trains = TRAINS.contains(&incident.phase.as_str());
    if trains && held.is_some_and(|held| (held - share).abs() <= ABOUT) {
        incident.engine_is_awake(share);
    }
}

/// The share of the GPU that an engine gets on the GPUs on which the job trains. A preset says when it shares them: by the rung that takes
/// memory from it, whatever failed.
fn share_beside_training(context: &ClimbContext<'_>) -> Option<f64> {
    let shaper = Shaper::new(context.preset, context.cluster, context.cluster_name);
    let layers = context.layers.iter().chain(context.rungs);
    let (shape, _) = shaper.judged(layers).ok()?;
    let nothing = FailureContext::of(None);
    let mut of_engine = context
        .ladder
        .iter()
        .filter(|r| moves_share(context.preset, r));
    let shares = |rung: &RungSpec| {
        objection_anyway(&shaper, shape.recipe(), shape.scope(), rung, &nothing).is_none()
    };
    of_engine.any(shares).then_some(())?;
    let mut knobs = context.preset.with_role(Role::RolloutMemoryFraction);
    knobs.find_map(|knob| match shape.recipe().value(&knob.name) {
        Value::Float(share) => Some(*share),
        _ => None,
    })
}

fn moves_share(preset: &Preset, rung: &RungSpec) -> bool {
    let mut moved = rung.moves.iter().flat_map(|step| knobs(preset, step));
    moved.any(|knob| knob.role == Some(Role::RolloutMemoryFraction))
}
