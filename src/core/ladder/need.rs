//! What the phases of a job need under a particle at its hidden factors.

use std::sync::Arc;

use super::fragmentation::Fragmentation;
use super::particle::Particle;
use oomctl_memory::{FRAGMENTS, KINDS, PIECES, Phase, PhaseTerms, Spec, TermKind};

/// Sequences of a micro batch that is as full as is expected.
const FILLED: f64 = 8.0;

/// Share of a GPU that is missing where a job comes half as near as one that fits.
const MISSING: f64 = 0.05;

/// How near the sum of so many sequences comes to their mean, against that of `FILLED`. One sequence may be the longest;
/// of many the sum comes close to the mean, as the root of their number.
fn mixed(sequences: f64) -> f64 {
    let near = |n: f64| 1.0 - 1.0 / n.max(1.0).sqrt();
    near(sequences) / near(FILLED)
}

/// A phase as sums by kind.
#[derive(Debug, Clone)]
pub(super) struct PhaseSums {
    pub sums: [f64; KINDS],
    /// How near the sequences whose lengths add up to what moves come to their mean; `None` where they are padded, or make
    /// up a budget.
    pub mixed: Option<f64>,
    /// What each way from logits to a loss takes of them, as a factor.
    paths: Arc<[f64]>,
    /// What the optimizer copies for its step, in bytes.
    temporaries: f64,
    /// What is free but in pieces.
    pieces: Fragmentation,
    /// Of the sums what is free between blocks in use.
    fragments: f64,
    /// It is the forward or the backward pass of the update.
    pub updates: bool,
}

impl PhaseSums {
    /// A phase as it is from the second step on.
    pub fn of(spec: &Spec, phase: &PhaseTerms) -> Self {
        let mut sums = [0.0; KINDS];
        let (mut temporaries, mut pieces, mut fragments) = (0.0, 0.0, 0.0);
        for term in &phase.terms {
            // What is gathered is as large as the weights, whatever the sequences.
            let kind = match term.name {
                "optimizer temporaries" => {
                    temporaries += term.bytes;
                    continue;
                }
                PIECES => {
                    pieces += term.bytes;
                    continue;
                }
                FRAGMENTS => {
                    fragments += term.bytes;
                    term.kind
                }
                name if name.starts_with("gathered") => TermKind::States,
                _ => term.kind,
            };
            sums[kind as usize] += term.bytes;
        }
        Self {
            sums,
            mixed: sequences(spec, phase.phase).map(mixed),
            paths: Arc::clone(&spec.loss_of(phase.phase).by_path),
            temporaries,
            pieces: Fragmentation::new(spec, pieces),
            fragments,
            updates: matches!(phase.phase, Phase::Forward | Phase::Backward),
        }
    }

    /// A phase as it is in the first step: the optimizer makes its moments at the end of it.
    pub fn without_moments(spec: &Spec, phase: &PhaseTerms) -> Self {
        let mut need = Self::of(spec, phase);
        let moments = phase.terms.iter().filter(|t| t.name == "optimizer");
        for term in moments.filter(|_| phase.phase != Phase::OptimizerStep) {
            need.sums[term.kind as usize] -= term.bytes;
        }
        need
    }

    /// Bytes under a particle.
    pub fn bytes(&self, particle: &Particle) -> f64 {
        self.whole(particle) + self.pieces.under(particle.number)
    }

    /// Bytes in pieces under a particle; `None` where there are none.
    pub fn pieces(&self, particle: &Particle) -> Option<f64> {
        (self.pieces.bytes > 0.0).then(|| self.pieces.under(particle.number))
    }

    /// Bytes under a particle without what is in pieces.
    pub fn whole(&self, particle: &Particle) -> f64 {
        self.terms(particle, &particle.kinds) + particle.constant + particle.unknown
    }

    /// Bytes of PyTorch's tensors under a particle.
    pub fn tensors(&self, particle: &Particle) -> f64 {
        let mut kinds = particle.kinds;
        kinds[TermKind::Engine as usize] = 0.0;
        kinds[TermKind::Outside as usize] = 0.0;
        let between = self.fragments * kinds[TermKind::Activations as usize];
        self.terms(particle, &kinds) - between * self.filled(particle) * self.update(particle)
    }

    /// Bytes of all terms under a particle, with these factors on the kinds.
    fn terms(&self, particle: &Particle, kinds: &[f64; KINDS]) -> f64 {
        let part = |kind: TermKind| self.sums[kind as usize] * kinds[kind as usize];
        let moves = part(TermKind::Activations) + part(TermKind::Logits) * self.path(particle.path);
        let stays = part(TermKind::States) + part(TermKind::Engine) + part(TermKind::Outside);
        let copied = self.temporaries * particle.temporaries * kinds[TermKind::States as usize];
        (stays + copied + moves * self.filled(particle)) * self.update(particle)
    }

    /// What a way from logits to a loss takes of them.
    fn path(&self, number: usize) -> f64 {
        self.paths.get(number).copied().unwrap_or(1.0)
    }

    /// Share of its limit that is filled under a particle.
    pub fn filled(&self, particle: &Particle) -> f64 {
        self.mixed.map_or(1.0, |mixed| particle.filled(mixed))
    }

    /// The factor on all terms under a particle.
    fn update(&self, particle: &Particle) -> f64 {
        if self.updates { particle.update } else { 1.0 }
    }
}

/// Sequences that are packed into a micro batch of a phase; `None` where every one is full, padded or up to a budget.
fn sequences(spec: &Spec, phase: Phase) -> Option<f64> {
    let tokens = spec.rollout.as_ref().map(|rollout| match phase {
        Phase::OldLogprob => rollout.logprob_tokens,
        Phase::RefLogprob => rollout.ref_tokens,
        Phase::Critic => rollout.critic.as_ref().map_or(0.0, |c| c.tokens()),
        _ => spec.tokens(),
    });
    match tokens {
        _ if spec.fill.is_some_and(|fill| fill >= 1.0) => None,
        Some(tokens) => Some(tokens * spec.context_parallel / spec.sequence.max(1.0)),
        None => Some(spec.micro_batch),
    }
}

/// What decides whether a job fits: its capacity, and what its phases need.
#[derive(Debug, Clone)]
pub(super) struct JobNeeds {
    /// Bytes of the GPU, where they are known.
    pub total: Option<f64>,
    /// What its phases need.
    pub needs: Vec<PhaseSums>,
}

impl JobNeeds {
    /// Of a job with these phases.
    pub fn new(spec: &Spec, phases: &[PhaseTerms]) -> Self {
        Self {
            total: spec.gpu_bytes,
            needs: phases.iter().map(|p| PhaseSums::of(spec, p)).collect(),
        }
    }

    /// How surely it fits its GPU: the weight of the particles under which it does. 0 where the GPU is not known.
    pub fn fits(&self, particles: &[Particle]) -> f64 {
        let Some(total) = self.total else {
            return 0.0;
        };
        let all = |p: &&Particle| self.needs.iter().all(|need| need.bytes(p) <= total);
        let fits = particles.iter().filter(all);
        fits.fold(0.0, |sum, p| sum + p.weight).min(1.0)
    }

    /// How near it comes to fitting, from 0 to 1: for each particle the less, the more its phases lack together.
    pub fn near(&self, particles: &[Particle]) -> f64 {
        let Some(total) = self.total else {
            return 0.0;
        };
        let comes = |particle: &Particle| {
            let lacks = |need: &PhaseSums| (need.bytes(particle) - total).max(0.0);
            let missing: f64 = self.needs.iter().map(lacks).sum();
            particle.weight / (1.0 + missing / (MISSING * total.max(1.0)))
        };
        let near: f64 = particles.iter().map(comes).sum();
        near.min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::posterior::Posterior;
    use super::*;
    use oomctl_memory::{MeasurementRow, Profile, phases};

    #[test]
    fn the_larger_the_gpu_the_nearer_a_job_comes_until_it_surely_fits() {
        let comes = |gib: f64| {
            let row = serde_json::json!({
                "params_b": 7.6, "layers": 28, "hidden": 3584, "heads": 28, "ffn": 18944, "vocab": 152_064,
                "micro_batch": 2, "seq_len": 2048, "grad_checkpointing": "full", "sharding": "fsdp", "dp": 8,
                "gpu_total_gib": gib,
            });
            let row: MeasurementRow = serde_json::from_value(row).unwrap();
            let profile = Profile::default();
            let spec = row.spec(&profile).unwrap();
            let particles = Posterior::new(&spec, &profile).resampled().particles;
            let job = JobNeeds::new(&spec, &phases(&spec, &profile));
            (job.near(&particles), job.fits(&particles))
        };
        let all = [12.0, 20.0, 32.0, 200.0].map(comes);
        assert!(all.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{all:?}");
        assert!(
            all[0].1 < 0.1 && comes(1.0).1.is_sign_positive() && all[3] == (1.0, 1.0),
            "{all:?}"
        );
    }
}
