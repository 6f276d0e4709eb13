//! The phases of a job as lists of terms.

use super::activations::layer;
use super::engine;
use super::phase::Phase;
use super::profile::Profile;
use super::spec::{Spec, Task};
use super::step::{List, PhaseTerms, TrainingStep, dequantised, load, save, update};

/// The phases of a job, in the order of time.
pub fn phases(spec: &Spec, profile: &Profile) -> Vec<PhaseTerms> {
    match (spec.task, &spec.rollout) {
        (Task::Train, None) => training(spec, profile),
        (Task::Train, Some(rollout)) => engine::learning(spec, rollout, profile),
        (Task::Infer, _) => vec![inference(spec, profile)],
        (Task::Serve, _) => vec![engine::serving(spec, profile)],
    }
}

fn training(spec: &Spec, profile: &Profile) -> Vec<PhaseTerms> {
    let step = TrainingStep::new(spec, profile);
    let mut phases = vec![load(&step, spec, profile)];
    phases.extend(update(&step, List::new, spec, profile));
    phases.push(save(&step, List::new(), spec, profile));
    let host = step.host(spec);
    for phase in &mut phases {
        phase.host_bytes = host;
    }
    phases
}

/// Generation with plain PyTorch: weights, the cache of one batch, one layer's activations.
fn inference(spec: &Spec, profile: &Profile) -> PhaseTerms {
    let step = TrainingStep::new(spec, profile);
    List::new()
        .states("weights", step.states.weights)
        .activations("KV cache", engine::cache_bytes(spec, spec.tokens()))
        .activations("working set", layer(spec, profile).bytes() * 0.5)
        .activations("dequantised matrix", dequantised(spec))
        .phase(Phase::Rollout, spec, profile)
}
