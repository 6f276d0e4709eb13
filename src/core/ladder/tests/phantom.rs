//! What a phantom counted sharpens what is expected of a GPU.

use super::predict::{job, spec};
use crate::core::ladder::{Peak, PeakOf, Posterior};
use oomctl_base::units::{Bytes, GIB};
use oomctl_memory::{FRAGMENTS, Phase, Profile, Spec, TermKind, phases};

/// Bytes of tensors that the formulas have in a phase.
fn tensors(spec: &Spec, profile: &Profile, phase: Phase) -> f64 {
    let all = phases(spec, profile);
    let of = all.iter().find(|p| p.phase == phase).unwrap();
    let outside = |kind| matches!(kind, TermKind::Engine | TermKind::Outside);
    let inside = of.terms.iter().filter(|t| !outside(t.kind));
    inside
        .filter(|t| t.name != FRAGMENTS)
        .map(|t| t.bytes)
        .sum()
}

#[test]
fn what_fitted_on_a_phantom_narrows_what_is_expected_of_the_next_configuration() {
    let few = [
        "rollout.log_prob_micro_batch_size_per_gpu=1",
        "ref.log_prob_micro_batch_size_per_gpu=1",
    ];
    let with = |micro| job(&[&[micro][..], &few].concat());
    let stack = with("ppo_micro_batch_size_per_gpu=4");
    let smaller = with("ppo_micro_batch_size_per_gpu=2");
    let (spec, half) = (spec(&stack, &[]), spec(&smaller, &[]));
    let profile = &stack.profile;
    for factor in [0.8, 1.2] {
        let peak = |phase| Peak {
            phase: Some(phase),
            bytes: Bytes::from_gib(factor * tensors(&spec, profile, phase) / GIB),
            of: PeakOf::Tensors,
        };
        let mut posterior = Posterior::new(&spec, profile);
        let spread = |posterior: &Posterior, spec: &Spec| {
            let at = |share: f64| {
                let need = posterior.expected(spec, profile).unwrap().1;
                let card = Spec {
                    gpu_bytes: Some(share * need),
                    ..spec.clone()
                };
                posterior.fits(&card, profile).unwrap()
            };
            at(1.12) - at(0.88)
        };
        let before = spread(&posterior, &half);
        let expected = posterior.expected(&half, profile).unwrap().1;
        posterior.learn(&spec, None, &[peak(Phase::Forward)], profile);
        let after = spread(&posterior, &half);
        let moved = posterior.expected(&half, profile).unwrap().1 / expected;
        assert!(after > before + 0.1, "{factor}: {before} {after}");
        assert!((moved > 1.0) == (factor > 1.0), "{factor}: {moved}");
    }
}
