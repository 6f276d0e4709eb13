//! How surely a job fits under many particles.

use super::need::JobNeeds;
use super::sample::ParticleSet;

/// Share of a GPU that is missing where a job comes half as near as one that fits.
const MISSING: f64 = 0.05;

/// How surely a job fits its GPU under weighted particles: their weight under which it does. What is known of it so far
/// lies between two bounds, for most questions are answered by some of the particles.
#[derive(Debug, Clone, Copy)]
pub(super) struct Odds {
    least: f64,
    most: f64,
}

impl Odds {
    /// Of a job of which nothing is known yet.
    pub fn unknown() -> Self {
        Self {
            least: 0.0,
            most: 1.0,
        }
    }

    /// Of a job that fits with this probability.
    pub fn known(fits: f64) -> Self {
        Self {
            least: fits,
            most: fits,
        }
    }

    /// Their value, from all particles.
    pub fn value(&mut self, job: &JobNeeds, sample: &ParticleSet) -> f64 {
        self.ask(job, sample, |_| None::<()>);
        self.least
    }

    /// Whether they are enough, which holds for all that are larger too.
    pub fn reach(
        &mut self,
        job: &JobNeeds,
        sample: &ParticleSet,
        enough: impl Fn(f64) -> bool,
    ) -> bool {
        let answer = |odds: &Self| match (enough(odds.least), enough(odds.most)) {
            (true, _) => Some(true),
            (_, false) => Some(false),
            _ => None,
        };
        self.ask(job, sample, answer).unwrap_or(false)
    }

    /// Looks at particles until there is an answer, or all were looked at. Their weights are binary fractions, so that the
    /// sum does not depend on the order.
    fn ask<T>(
        &mut self,
        job: &JobNeeds,
        sample: &ParticleSet,
        answer: impl Fn(&Self) -> Option<T>,
    ) -> Option<T> {
        if self.least >= self.most {
            return answer(self);
        }
        if let Some(known) = answer(self) {
            return Some(known);
        }
        let mut fits = 0.0;
        let mut left = sample.weight;
        for block in &sample.blocks {
            left -= block.total;
            fits += block.fits(job);
            self.least = self.least.max(f64::min(fits, 1.0));
            self.most = self.most.min(f64::min(fits + left, 1.0));
            if let Some(known) = answer(self) {
                return Some(known);
            }
        }
        // Nothing is left, up to rounding.
        self.most = self.least;
        answer(self)
    }
}

/// How near a job comes to fitting, from 0 to 1: for each particle the less, the more its phases lack together. And the
/// probability that none of them lacks anything.
pub(super) fn near(job: &JobNeeds, sample: &ParticleSet) -> (f64, f64) {
    let share = MISSING * job.total.unwrap_or(0.0).max(1.0);
    let (mut near, mut fits) = (0.0, 0.0);
    for (weight, missing) in sample.blocks.iter().flat_map(|block| block.missing(job)) {
        near += weight / (1.0 + missing / share);
        fits += if missing <= 0.0 { weight } else { 0.0 };
    }
    (f64::min(near, 1.0), f64::min(fits, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::ladder::particle::Particle;
    use crate::core::ladder::posterior::Posterior;
    use oomctl_base::units::GIB;
    use oomctl_memory::{MeasurementRow, Profile, phases};

    /// A job of 7 billion parameters on GPUs of so many GiB, and particles at it.
    fn job(gib: f64) -> (JobNeeds, Vec<Particle>, ParticleSet) {
        let row = serde_json::json!({
            "params_b": 7.6, "layers": 28, "hidden": 3584, "heads": 28, "ffn": 18944, "vocab": 152_064,
            "micro_batch": 2, "seq_len": 2048, "grad_checkpointing": "full", "sharding": "fsdp", "dp": 8,
            "gpu_total_gib": gib,
        });
        let row: MeasurementRow = serde_json::from_value(row).unwrap();
        let profile = Profile::default();
        let spec = row.spec(&profile).unwrap();
        let posterior = Posterior::new(&spec, &profile).resampled();
        let sample = ParticleSet::new(&posterior.particles);
        let job = JobNeeds::new(&spec, &phases(&spec, &profile));
        (job, posterior.particles, sample)
    }

    #[test]
    fn odds_are_the_weight_of_the_particles_under_which_a_job_fits() {
        for gib in [12.0, 20.0, 24.0, 32.0, 80.0] {
            let (job, particles, sample) = job(gib);
            let fits = |g: &&Particle| job.needs.iter().all(|need| need.bytes(g) <= gib * GIB);
            let weight: f64 = particles.iter().filter(fits).map(|g| g.weight).sum();
            let mut asked = Odds::unknown();
            for least in [0.02, 0.5, weight, weight + 1e-9, 0.9, 0.5, 1.0] {
                let reached = asked.reach(&job, &sample, |fits| fits >= least);
                assert_eq!(reached, weight >= least, "{gib} GiB, {least}");
            }
            assert!((asked.value(&job, &sample) - weight).abs() < 1e-12);
            assert!((near(&job, &sample).1 - weight).abs() < 1e-12);
        }
    }

    #[test]
    fn the_larger_the_gpu_the_nearer_a_job_comes() {
        let comes = |gib| {
            let (job, _, sample) = job(gib);
            near(&job, &sample).0
        };
        assert!(comes(12.0) < comes(20.0) && comes(20.0) < comes(32.0));
        assert!((comes(200.0) - 1.0).abs() < 1e-12);
    }
}
