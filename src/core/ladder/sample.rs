//! Particles for questions that go through all of them, hundreds of times for one decision: those of a block lie beside
//! each other part by part, so that a processor takes several at a time.

use std::array::from_fn;

use super::need::{JobNeeds, Parts, PhaseSums};
use super::particle::{Particle, filled};
use oomctl_memory::KINDS;

/// Particles of a block.
const MANY: usize = 32;
/// More than the relative error of a sum of a few parts.
const ROUNDING: f64 = 1e-12;

/// A number for each particle of a block.
type Each = [f64; MANY];

/// Weighted particles in blocks.
pub(super) struct ParticleSet {
    /// The last one is filled up with particles that have no weight.
    pub blocks: Vec<ParticleBlock>,
    /// Weight of all of them.
    pub weight: f64,
}

impl ParticleSet {
    /// Of these particles, in their order.
    pub fn new(particles: &[Particle]) -> Self {
        let blocks: Vec<ParticleBlock> = particles
            .chunks(MANY)
            .filter_map(ParticleBlock::new)
            .collect();
        Self {
            weight: blocks.iter().map(|block| block.total).sum(),
            blocks,
        }
    }
}

/// Particles by their parts, which are those of [`Particle`].
pub(super) struct ParticleBlock {
    number: [u32; MANY],
    kinds: [Each; KINDS],
    constant: Each,
    unknown: Each,
    fill: Each,
    longest: Each,
    path: [usize; MANY],
    temporaries: Each,
    update: Each,
    weight: Each,
    /// Of all of them.
    pub total: f64,
    /// The largest of each part.
    most: Particle,
}

impl ParticleBlock {
    /// Of at most `MANY` particles; `None` of none.
    fn new(particles: &[Particle]) -> Option<Self> {
        let last = particles.last()?;
        let nothing = Particle {
            weight: 0.0,
            ..*last
        };
        let all: [&Particle; MANY] = from_fn(|at| particles.get(at).unwrap_or(&nothing));
        let each = |part: fn(&Particle) -> f64| all.map(part);
        let weight = each(|g| g.weight);
        Some(Self {
            most: all.into_iter().copied().reduce(larger)?,
            total: sum(&weight),
            number: all.map(|g| g.number),
            kinds: from_fn(|kind| all.map(|g| g.kinds[kind])),
            constant: each(|g| g.constant),
            unknown: each(|g| g.unknown),
            fill: each(|g| g.fill),
            longest: each(|g| g.longest),
            path: all.map(|g| g.path),
            temporaries: each(|g| g.temporaries),
            update: each(|g| g.update),
            weight,
        })
    }

    /// Weight of those of its particles under which a job fits.
    pub fn fits(&self, job: &JobNeeds) -> f64 {
        let total = job.capacity();
        let mut weight = self.weight;
        for bytes in self.may_exceed(job) {
            for at in 0..MANY {
                weight[at] *= f64::from(u8::from(bytes[at] <= total));
            }
        }
        sum(&weight)
    }

    /// Each particle's weight, with the bytes that all phases of a job lack together.
    pub fn missing(&self, job: &JobNeeds) -> impl Iterator<Item = (f64, f64)> {
        let total = job.capacity();
        let mut missing = [0.0; MANY];
        for bytes in self.may_exceed(job) {
            for at in 0..MANY {
                missing[at] += (bytes[at] - total).max(0.0);
            }
        }
        self.weight.into_iter().zip(missing)
    }

    /// Bytes of each of a job's needs that may exceed its capacity; the others fit under every particle.
    fn may_exceed(&self, job: &JobNeeds) -> impl Iterator<Item = Each> {
        let total = job.capacity();
        let needs = job.needs.iter();
        let needs = needs.filter(move |need| self.most(need) > total);
        needs.map(|need| self.bytes(need))
    }

    /// No particle says more bytes of a need.
    fn most(&self, need: &PhaseSums) -> f64 {
        let parts = Parts {
            path: need.most_on_a_path(),
            filled: need.filled(&self.most),
            temporaries: self.most.temporaries,
            constant: self.most.constant,
            unknown: self.most.unknown,
            update: if need.updates { self.most.update } else { 1.0 },
        };
        let whole = need.sum(|kind| self.most.kinds[kind as usize], &parts);
        (whole + need.most_in_pieces()) * (1.0 + ROUNDING)
    }

    /// Bytes of a need under each particle.
    fn bytes(&self, need: &PhaseSums) -> Each {
        let (mut path, mut filling, mut pieces) = ([1.0; MANY], [1.0; MANY], [0.0; MANY]);
        if need.has_logits() {
            for (at, path) in path.iter_mut().enumerate() {
                *path = need.path(self.path[at]);
            }
        }
        if let Some(mixed) = need.mixed {
            for (at, filling) in filling.iter_mut().enumerate() {
                *filling = filled(self.longest[at], self.fill[at], mixed);
            }
        }
        if need.has_pieces() {
            for (at, pieces) in pieces.iter_mut().enumerate() {
                *pieces = need.in_pieces(self.number[at]);
            }
        }
        let mut bytes = [0.0; MANY];
        for at in 0..MANY {
            let parts = Parts {
                path: path[at],
                filled: filling[at],
                temporaries: self.temporaries[at],
                constant: self.constant[at],
                unknown: self.unknown[at],
                update: if need.updates { self.update[at] } else { 1.0 },
            };
            bytes[at] = need.sum(|kind| self.kinds[kind as usize][at], &parts) + pieces[at];
        }
        bytes
    }
}

/// The sum of weights. They are binary fractions, so that it does not depend on the order.
fn sum(weights: &Each) -> f64 {
    let mut lanes = [0.0; 8];
    for (at, weight) in weights.iter().enumerate() {
        lanes[at % lanes.len()] += weight;
    }
    lanes.iter().sum()
}

/// A particle with the larger part of either.
fn larger(one: Particle, other: Particle) -> Particle {
    Particle {
        kinds: from_fn(|kind| one.kinds[kind].max(other.kinds[kind])),
        constant: one.constant.max(other.constant),
        unknown: one.unknown.max(other.unknown),
        fill: one.fill.max(other.fill),
        longest: one.longest.max(other.longest),
        temporaries: one.temporaries.max(other.temporaries),
        update: one.update.max(other.update),
        ..one
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::ladder::posterior::Posterior;
    use oomctl_base::units::GIB;
    use oomctl_memory::{MeasurementRow, Profile, phases};

    #[test]
    fn a_block_says_of_each_particle_what_the_particle_says_and_never_more_than_its_most() {
        let profile = Profile::default();
        for (fill, micro_batch, world) in [(1.0, 1, 4), (0.5, 4, 8), (0.5, 1, 1)] {
            let row = serde_json::json!({
                "params_b": 7.6, "layers": 28, "hidden": 3584, "heads": 28, "ffn": 18944, "vocab": 152_064,
                "micro_batch": micro_batch, "seq_len": 2048, "grad_checkpointing": "full", "sharding": "fsdp",
                "dp": world, "gpu_total_gib": 40.0, "fill": fill,
            });
            let row: MeasurementRow = serde_json::from_value(row).unwrap();
            let spec = row.spec(&profile).unwrap();
            let mut particles = Posterior::new(&spec, &profile).particles;
            particles.truncate(3 * MANY + 5);
            particles[1].unknown = 9.0 * GIB;
            let sample = ParticleSet::new(&particles);
            assert_eq!(sample.blocks.len(), 4);
            for need in phases(&spec, &profile)
                .iter()
                .map(|p| PhaseSums::of(&spec, p))
            {
                let blocks = sample.blocks.iter();
                let said: Vec<f64> = blocks.clone().flat_map(|b| b.bytes(&need)).collect();
                for (particle, said) in particles.iter().zip(said) {
                    assert_eq!(need.bytes(particle).to_bits(), said.to_bits());
                }
                for block in blocks {
                    let most = block.most(&need);
                    assert!(block.bytes(&need).iter().all(|bytes| *bytes <= most));
                }
            }
        }
    }
}
