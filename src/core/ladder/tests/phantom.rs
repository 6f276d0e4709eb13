//! What a phantom counted sharpens what is expected of a GPU.

use super::super::need::PhaseSums;
use super::predict::{job, spec};
use crate::core::ladder::{Peak, PeakOf, Posterior};
use oomctl_base::units::{Bytes, GIB};
use oomctl_memory::{FRAGMENTS, Phase, PhaseTerms, Profile, Spec, TermKind, phases};

fn forward(spec: &Spec, profile: &Profile) -> PhaseTerms {
    let mut all = phases(spec, profile).into_iter();
    all.find(|p| p.phase == Phase::Forward).unwrap()
}

/// Bytes of tensors that the formulas have in the forward pass.
fn tensors(spec: &Spec, profile: &Profile) -> f64 {
    let outside = |kind| matches!(kind, TermKind::Engine | TermKind::Outside);
    let terms = forward(spec, profile).terms;
    let inside = terms.iter().filter(|t| !outside(t.kind));
    inside
        .filter(|t| t.name != FRAGMENTS)
        .map(|t| t.bytes)
        .sum()
}

/// What the forward pass is expected to need, and how unsure that is.
fn expected(posterior: &Posterior, spec: &Spec, profile: &Profile) -> (f64, f64) {
    let need = PhaseSums::of(spec, &forward(spec, profile));
    let particles = posterior.particles.iter();
    let needs: Vec<(f64, f64)> = particles.map(|p| (p.weight, need.tensors(p))).collect();
    let mean: f64 = needs.iter().map(|(weight, bytes)| weight * bytes).sum();
    let square = |(weight, bytes): &(f64, f64)| weight * (bytes - mean).powi(2);
    (mean, needs.iter().map(square).sum::<f64>().sqrt() / mean)
}

#[test]
fn what_fitted_on_a_phantom_narrows_what_is_expected_of_the_next_configuration() {
    let with = |micro: &str| job(&[micro, "gpu_memory=141GiB"]);
    let stack = with("ppo_micro_batch_size_per_gpu=4");
    let smaller = with("ppo_micro_batch_size_per_gpu=2");
    let (spec, half) = (spec(&stack, &[]), spec(&smaller, &[]));
    let profile = &stack.profile;
    for factor in [0.8, 1.2] {
        let peak = Peak {
            phase: Some(Phase::Forward),
            bytes: Bytes::from_gib(factor * tensors(&spec, profile) / GIB),
            of: PeakOf::Tensors,
        };
        let mut posterior = Posterior::new(&spec, profile);
        let before = expected(&posterior, &half, profile);
        posterior.learn(&spec, None, &[peak], profile);
        let after = expected(&posterior, &half, profile);
        assert!(after.1 < 0.5 * before.1, "{factor}: {before:?} {after:?}");
        assert!(
            (after.0 > before.0) == (factor > 1.0),
            "{factor}: {before:?} {after:?}"
        );
        // At the configuration itself it is what was counted.
        let (counted, seen) = (
            expected(&posterior, &spec, profile).0,
            factor * tensors(&spec, profile),
        );
        assert!(
            (counted / seen - 1.0).abs() < 0.03,
            "{factor}: {counted} {seen}"
        );
    }
}
