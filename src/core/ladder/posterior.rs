//! What the memory model expects of a configuration, given how earlier attempts died.
//!
//! The hidden factors of a job (how full its micro batches are, how much its allocator wastes, …) are
//! unknown but stay the same from attempt to attempt. They are represented by many weighted particles; each
//! attempt moves the weight to the particles under which it would have died where it did. The probability
//! to fit is the weight of the particles under which a configuration does.

use super::decision::{Expectation, PhaseNeed};
use super::engine_room::EngineRoom;
use super::evidence::AttemptEvidence;
use super::need::{JobNeeds, PhaseSums};
use super::particle::Particle;
use super::past::Peak;
use oomctl_base::units::{Bytes, GIB};
use oomctl_diagnose::Incident;
use oomctl_memory::logistic::{SCALE, bell};
use oomctl_memory::{KINDS, Path, Phase, PhaseTerms, Profile, Spec, TermKind, phases, spreads};

/// Particles at the hidden factors, before anything is known of the attempts.
const PARTICLES: u32 = 4096;
/// Particles that stand for them in a decision.
const FEWER: u32 = 512;
/// Particles that must carry weight after an attempt; below, the evidence is taken as less sharp.
const LEAST_EFFECTIVE: f64 = 24.0;
/// Relative spread of how full the micro batches are.
const FILL_SPREAD: f64 = 0.3;
/// Least share of the limit that the longest sequence is taken to fill.
const LONGEST: f64 = 0.85;
/// One particle in so many has an optimizer without temporaries.
const FUSED_OPTIMIZER: u32 = 4;
/// Spread of an engine's share against that of states: it takes what it is given, within its own rounding.
const SHARE_SPREAD: f64 = 0.25;

/// Relative spread of what formulas of the forward and backward pass miss, beside what other phases tell.
const UPDATE_SPREAD: f64 = 0.06;

/// Weighted particles at the hidden factors of a job.
#[derive(Debug, Clone)]
pub struct Posterior {
    pub(super) particles: Vec<Particle>,
    /// What attempts told of the least share that a rollout engine needs.
    pub(super) engine: EngineRoom,
    /// Middle of how full micro batches are.
    middle: f64,
}

impl Posterior {
    /// Before any attempt: the spread of jobs on this stack.
    pub fn new(spec: &Spec, profile: &Profile) -> Self {
        let mut spreads = spreads(profile);
        spreads[TermKind::Engine as usize] *= SHARE_SPREAD;
        let paths = profile.paths();
        let middle = spec.fill.unwrap_or(profile.fill);
        let particle = |i: u32| {
            let mut kinds = [1.0; KINDS];
            for (kind, spread) in spreads.iter().enumerate() {
                kinds[kind] = (spread * normal(i, kind)).exp();
            }
            let path = drawn(&paths, f64::from(scattered(i)) / 65_536.0);
            let fused = scattered(i).is_multiple_of(FUSED_OPTIMIZER);
            Particle {
                number: i,
                kinds,
                constant: profile.spread_gib * GIB * normal(i, KINDS),
                unknown: 0.0,
                fill: (middle * (FILL_SPREAD * normal(i, KINDS + 1)).exp()).min(1.0),
                longest: LONGEST + (1.0 - LONGEST) * (f64::from(i) * 0.569_840_3).fract(),
                told: false,
                path,
                upcast: paths.get(path).is_some_and(|p| p.fp32),
                temporaries: if fused { 0.0 } else { 1.0 },
                update: (UPDATE_SPREAD * normal(i, KINDS + 2)).exp(),
                weight: 1.0 / f64::from(PARTICLES),
            }
        };
        Self {
            particles: (1..=PARTICLES).map(particle).collect(),
            engine: EngineRoom::default(),
            middle,
        }
    }

    /// Takes in how an attempt died and what was measured until then: the phases before it passed, and the
    /// one that it died in needed at least what its message says. Without an incident all phases passed.
    pub fn learn(
        &mut self,
        spec: &Spec,
        incident: Option<&Incident>,
        peaks: &[Peak],
        profile: &Profile,
    ) {
        let Some(total) = spec.gpu_bytes else {
            return;
        };
        if let Some(incident) = incident {
            self.engine.learn(spec, incident);
        }
        let evidence = AttemptEvidence::new(spec, incident, peaks, profile, total);
        let middle = self.middle;
        let full = |particle: &Particle| {
            let place = (particle.fill / middle).ln() / FILL_SPREAD;
            density(place) / FILL_SPREAD
        };
        let mut ways = Vec::with_capacity(self.particles.len());
        ways.extend(self.particles.iter().flat_map(|g| evidence.ways(g, full)));
        self.particles = ways;
        let explained = self
            .particles
            .iter()
            .map(|particle| evidence.explained(particle));
        let explained: Vec<f64> = explained.collect();
        let mut sharpness = 1.0;
        for _ in 0..12 {
            let pairs = self.particles.iter().zip(&explained);
            let weigh = |(particle, likelihood): (&Particle, &f64)| {
                let tempered = match sharpness < 1.0 {
                    true => likelihood.powf(sharpness),
                    false => *likelihood,
                };
                particle.weight * tempered
            };
            let weights: Vec<f64> = pairs.map(weigh).collect();
            let sum: f64 = weights.iter().sum();
            let squares: f64 = weights.iter().map(|w| w * w).sum();
            if sum > 0.0 && sum * sum / squares.max(f64::MIN_POSITIVE) >= LEAST_EFFECTIVE {
                for (particle, new) in self.particles.iter_mut().zip(weights) {
                    particle.weight = new / sum;
                }
                return;
            }
            sharpness *= 0.6;
        }
    }

    /// The same in fewer particles, for a decision that asks hundreds of times: one for each equal part of the weight.
    pub fn resampled(&self) -> Self {
        let part = 1.0 / f64::from(FEWER);
        let mut particles: Vec<Particle> = Vec::new();
        let (mut passed, mut taken) = (0.0, 0.5 * part);
        for particle in &self.particles {
            passed += particle.weight;
            let mut weight = 0.0;
            while taken < passed && taken < 1.0 {
                weight += part;
                taken += part;
            }
            if weight > 0.0 {
                particles.push(Particle {
                    weight,
                    ..*particle
                });
            }
        }
        Self {
            particles,
            engine: self.engine,
            middle: self.middle,
        }
    }

    /// Probability that every phase of a job fits its GPU and its rollout engine starts; `None` without the GPU's capacity.
    pub fn fits(&self, spec: &Spec, profile: &Profile) -> Option<f64> {
        spec.gpu_bytes?;
        let fits = JobNeeds::new(spec, &phases(spec, profile)).fits(&self.particles);
        Some(fits * self.engine.fits(spec))
    }

    /// Expected need of a job in bytes, with its phase: the fullest phase of the mean particle.
    pub fn expected(&self, spec: &Spec, profile: &Profile) -> Option<(Phase, f64)> {
        let needs = self.means(spec, profile);
        needs.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Expected need of each phase in bytes.
    fn means(&self, spec: &Spec, profile: &Profile) -> Vec<(Phase, f64)> {
        let mean = |phase: &PhaseTerms| {
            let need = PhaseSums::of(spec, phase);
            let bytes = |g: &Particle| g.weight * need.bytes(g);
            (phase.phase, self.particles.iter().map(bytes).sum())
        };
        phases(spec, profile).iter().map(mean).collect()
    }

    /// What is expected of a job that fits with a probability and is so much slower.
    pub(super) fn expectation(
        &self,
        spec: &Spec,
        profile: &Profile,
        fits_probability: f64,
        slower: Option<f64>,
    ) -> Option<Expectation> {
        let needs = self.means(spec, profile);
        let bytes = |bytes: f64| Bytes::from_gib(bytes / GIB);
        let most = needs.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let need = |(phase, need): &(Phase, f64)| PhaseNeed {
            phase: *phase,
            bytes: bytes(*need),
        };
        Some(Expectation {
            fits_probability,
            peak_bytes: bytes(most.1),
            phase: most.0.word(),
            gpu_bytes: spec.gpu_bytes.map(bytes),
            phases: needs.iter().map(need).collect(),
            slower,
        })
    }
}

/// One deviate in so many is wider, by this factor.
const WIDE: u32 = 5;
const WIDER: f64 = 2.0;

/// Number `i` of a fixed, evenly spread series of normal deviates, one series for each dimension, a fifth of
/// them with double the spread: the additive recurrence of Roberts (2018) through the inverse of the logistic
/// curve, which has the normal's middle and heavier tails.
fn normal(i: u32, dimension: usize) -> f64 {
    const ROOTS: [f64; 8] = [
        0.921_599_3,
        0.849_345_3,
        0.782_756_1,
        0.721_387_4,
        0.664_830_2,
        0.612_707_0,
        0.564_670_4,
        0.520_399_9,
    ];
    let step = ROOTS.get(dimension).copied().unwrap_or(0.5);
    let u = (0.5 + f64::from(i) * step).fract().clamp(1e-6, 1.0 - 1e-6);
    let deviate = (u / (1.0 - u)).ln() * SCALE;
    if i.is_multiple_of(WIDE) {
        WIDER * deviate
    } else {
        deviate
    }
}

/// The density of these deviates.
fn density(x: f64) -> f64 {
    let one = |x: f64| bell(x / SCALE) / (4.0 * SCALE);
    let wide = 1.0 / f64::from(WIDE);
    (1.0 - wide) * one(x) + wide * one(x / WIDER) / WIDER
}

/// The path at a place among all chances.
fn drawn(paths: &[Path], at: f64) -> usize {
    let mut sum = 0.0;
    let passed = paths.iter().take_while(|p| {
        sum += p.chance;
        sum <= at
    });
    passed.count().min(paths.len().saturating_sub(1))
}

/// Number `i` without any order, for what is so or not.
fn scattered(i: u32) -> u32 {
    i.wrapping_mul(2_654_435_761) >> 16
}
