//! The phases of a job as lists of terms.

use super::activations::layer;
use super::engine;
use super::phase::Phase;
use super::profile::Profile;
use super::spec::{Spec, Task};
use super::step::{List, PhaseTerms, Step, dequantised, load, save, update};
use super::terms::Kind;

/// The phases of a job, in the order of time.
#[must_use]
pub fn phases(spec: &Spec, profile: &Profile) -> Vec<PhaseTerms> {
    match (spec.task, &spec.rollout) {
        (Task::Train, None) => training(spec, profile),
        (Task::Train, Some(rollout)) => engine::learning(spec, rollout, profile),
        (Task::Infer, _) => vec![inference(spec, profile)],
        (Task::Serve, _) => vec![engine::serving(spec, profile)],
    }
}

fn training(spec: &Spec, profile: &Profile) -> Vec<PhaseTerms> {
    let step = Step::new(spec, profile);
    let mut phases = vec![load(&step, spec, profile)];
    phases.extend(update(&step, List::new, spec, profile));
    phases.push(save(&step, spec, profile));
    let host = step.host(spec);
    for phase in &mut phases {
        phase.host_bytes = host;
    }
    phases
}

/// Generation with plain PyTorch: weights, the cache of one batch, one layer's activations.
fn inference(spec: &Spec, profile: &Profile) -> PhaseTerms {
    let step = Step::new(spec, profile);
    List::new()
        .add("weights", Kind::States, step.states.weights)
        .add(
            "KV cache",
            Kind::Activations,
            engine::cache_bytes(spec, spec.tokens()),
        )
        .add(
            "working set",
            Kind::Activations,
            layer(spec, profile).bytes() * 0.5,
        )
        .add("dequantised matrix", Kind::Activations, dequantised(spec))
        .phase(Phase::Rollout, spec, profile)
}
