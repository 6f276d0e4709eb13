//! What was counted of a configuration on a phantom GPU before a run, and what that says of others.
//!
//! The judge is that of a run: tensors were counted to 2 %, what lies outside of the allocator stays as unsure as it was.

use super::need::PhaseSums;
use super::particle::Particle;
use super::past::PastAttempt;
use super::posterior::Posterior;
use oomctl_memory::{Estimate, Profile, Spec, phases};

/// Ends of the interval that holds 90 %.
const ENDS: [f64; 2] = [0.05, 0.95];

/// The judge after one measurement.
#[derive(Debug, Clone)]
pub struct PhantomJudge {
    posterior: Posterior,
}

impl PhantomJudge {
    /// After what was counted of a configuration; `None` where nothing was, or the GPU is not known.
    pub fn new(spec: &Spec, profile: &Profile, past: &PastAttempt) -> Option<Self> {
        spec.gpu_bytes?;
        if past.peaks.is_empty() && past.incident.is_none() {
            return None;
        }
        let mut posterior = Posterior::new(spec, profile);
        posterior.learn(spec, past.incident.as_ref(), &past.peaks, profile);
        Some(Self {
            posterior: posterior.resampled(),
        })
    }

    /// The estimate of a configuration, by what was counted.
    pub fn on(&self, estimate: Estimate, spec: &Spec, profile: &Profile) -> Estimate {
        let mut all = estimate.phases;
        for (phase, terms) in all.iter_mut().zip(&phases(spec, profile)) {
            let need = PhaseSums::of(spec, terms);
            let (mean, ends) = self.need(|particle| need.bytes(particle));
            phase.moved_to(mean, ends, spec.gpu_bytes);
        }
        Estimate::of_phases(all, spec.gpu_bytes, self.posterior.fits(spec, profile))
    }

    /// The mean of what the particles need, and the ends of its interval.
    fn need(&self, of: impl Fn(&Particle) -> f64) -> (f64, [f64; 2]) {
        let particles = self.posterior.particles.iter();
        let mut all: Vec<(f64, f64)> = particles.map(|p| (of(p), p.weight)).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        let whole: f64 = all.iter().map(|(_, weight)| weight).sum();
        let mean = all
            .iter()
            .map(|(bytes, weight)| bytes * weight)
            .sum::<f64>()
            / whole;
        let end = |share: f64| {
            let mut passed = 0.0;
            let reached = all.iter().find(|(_, weight)| {
                passed += weight;
                passed >= share * whole
            });
            reached.map_or(mean, |(bytes, _)| *bytes)
        };
        (mean, ENDS.map(end))
    }
}
