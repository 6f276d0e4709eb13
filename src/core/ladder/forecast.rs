//! What the memory model expects of a configuration, given how earlier attempts died.
//!
//! The hidden factors of a job (how full its micro batches are, how much its allocator wastes, …) are
//! unknown but stay the same from attempt to attempt. They are represented by many weighted guesses; each
//! attempt moves the weight to the guesses under which it would have died where it did. The probability
//! to fit is the weight of the guesses under which a configuration does.

use super::decision::{Expectation, PhaseNeed};
use super::evidence::Evidence;
use crate::core::diagnose::Incident;
use crate::core::measure::{GpuPeak, Measured};
use crate::core::memory::{KINDS, Kind, Phase, PhaseTerms, Profile, Spec, phases, spreads};
use crate::core::units::{Bytes, GIB};

/// Guesses at the hidden factors, before anything is known of the attempts.
const GUESSES: u32 = 4096;
/// Guesses that stand for them in a decision.
const FEWER: u32 = 512;
/// Guesses that must carry weight after an attempt; below, the evidence is taken as less sharp.
const LEAST_EFFECTIVE: f64 = 24.0;
/// Relative spread of how full the micro batches are.
const FILL_SPREAD: f64 = 0.3;
/// Sequences of a micro batch that is as full as is expected.
const FILLED: f64 = 8.0;
/// Relative spread of the logits of a pass without gradients against those of training.
const FORWARD_SPREAD: f64 = 0.35;
/// Share of a GPU that is missing where a job comes half as near as one that fits.
const MISSING: f64 = 0.05;
/// One guess in so many has a loss in fp32, whose logits take this much more; those of the others take less.
const UPCAST: u32 = 4;
const UPCAST_LOGITS: f64 = 1.45;
const PLAIN_LOGITS: f64 = 0.75;
/// One guess in so many has an optimizer without temporaries.
const FUSED_OPTIMIZER: u32 = 4;
/// Spread of an engine's share against that of states: it takes what it is given, within its own rounding.
const SHARE_SPREAD: f64 = 0.25;

/// Memory that was seen in use on the fullest GPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Peak {
    /// The phase in which it was seen and that passed; `None` for the peak of the whole attempt.
    pub phase: Option<Phase>,
    /// What was in use.
    pub bytes: Bytes,
}

impl Peak {
    /// The peak of an attempt as its GPUs were sampled; what others held on them does not count where
    /// the driver told it apart.
    #[must_use]
    pub fn of(measured: &Measured) -> Vec<Self> {
        let own = |gpu: &GpuPeak| gpu.own_peak_bytes.unwrap_or(gpu.peak_bytes);
        let bytes = measured.gpus.iter().map(own).max();
        bytes
            .map(|bytes| Self { phase: None, bytes })
            .into_iter()
            .collect()
    }
}

/// Weighted guesses at the hidden factors of a job.
#[derive(Debug, Clone)]
pub struct Forecast {
    pub(super) guesses: Vec<Guess>,
}

/// A guess at the hidden factors of a job.
#[derive(Debug, Clone, Copy)]
pub(super) struct Guess {
    /// Factor on each kind of term.
    pub kinds: [f64; KINDS],
    /// Bytes on top, in every phase.
    pub constant: f64,
    /// Share of the limit that a micro batch of `FILLED` sequences fills.
    fill: f64,
    /// On the logits of a pass without gradients, besides the factor that they share with training.
    forward: f64,
    /// Logits are copied to fp32.
    pub upcast: bool,
    /// Share of the optimizer's temporaries that there are.
    temporaries: f64,
    weight: f64,
}

impl Guess {
    /// Share of the limit that the fullest micro batch fills, `FILLED` sequences of which come this near to their mean.
    fn filled(&self, mixed: f64) -> f64 {
        let fill = 1.0 - (1.0 - self.fill) * mixed;
        fill.max(0.5 * self.fill)
    }
}

/// How near the sum of so many sequences comes to their mean, against that of `FILLED`. One sequence may be the longest;
/// of many the sum comes close to the mean, as the root of their number.
fn mixed(sequences: f64) -> f64 {
    let near = |n: f64| 1.0 - 1.0 / n.max(1.0).sqrt();
    near(sequences) / near(FILLED)
}

/// A phase as sums by kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct Need {
    pub sums: [f64; KINDS],
    /// How near the sequences whose lengths add up to what moves come to their mean; 0 where they are padded, or make up a
    /// budget.
    mixed: f64,
    /// It computes logits without gradients.
    forward_only: bool,
    /// What the optimizer copies for its step, in bytes.
    temporaries: f64,
}

impl Need {
    /// A phase as it is from the second step on.
    pub fn of(spec: &Spec, phase: &PhaseTerms) -> Self {
        let forward_only = matches!(phase.phase, Phase::OldLogprob | Phase::RefLogprob);
        let mut sums = [0.0; KINDS];
        let mut temporaries = 0.0;
        for term in &phase.terms {
            if term.name == "optimizer temporaries" {
                temporaries += term.bytes;
                continue;
            }
            // What is gathered is as large as the weights, whatever the sequences.
            let kind = match term.name.starts_with("gathered") {
                true => Kind::States,
                false => term.kind,
            };
            sums[kind as usize] += term.bytes;
        }
        Self {
            sums,
            mixed: mixed(sequences(spec, phase.phase)),
            forward_only,
            temporaries,
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

    /// Bytes under a guess.
    pub fn bytes(&self, guess: &Guess) -> f64 {
        let part = |kind: Kind| self.sums[kind as usize] * guess.kinds[kind as usize];
        let forward = if self.forward_only {
            guess.forward
        } else {
            1.0
        };
        let moves = part(Kind::Activations) + part(Kind::Logits) * forward;
        let stays = part(Kind::States) + part(Kind::Engine) + part(Kind::Outside);
        let copied = self.temporaries * guess.temporaries * guess.kinds[Kind::States as usize];
        stays + copied + moves * self.filled(guess) + guess.constant
    }

    /// Share of its limit that is filled under a guess.
    pub fn filled(&self, guess: &Guess) -> f64 {
        guess.filled(self.mixed)
    }
}

/// Sequences that are packed into a micro batch of a phase.
fn sequences(spec: &Spec, phase: Phase) -> f64 {
    let tokens = spec.rollout.as_ref().map(|rollout| match phase {
        Phase::OldLogprob => rollout.logprob_tokens,
        Phase::RefLogprob => rollout.ref_tokens,
        _ => spec.tokens(),
    });
    match tokens {
        _ if spec.fill.is_some_and(|fill| fill >= 1.0) => 1.0,
        Some(tokens) => tokens * spec.context_parallel / spec.sequence.max(1.0),
        None => spec.micro_batch,
    }
}

/// How surely a job fits.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Odds {
    /// Probability that it does.
    pub fits: f64,
    /// How near it comes, from 0 to 1: for each guess the less, the more is missing.
    pub near: f64,
}

/// What decides whether a job fits: its capacity, and what its phases need.
#[derive(Debug, Clone)]
pub(super) struct Job {
    /// Bytes of the GPU, where they are known.
    total: Option<f64>,
    needs: Vec<Need>,
}

impl Job {
    /// Of the phases those that are not smaller than another in every part.
    pub fn new(spec: &Spec, phases: &[PhaseTerms]) -> Self {
        let needs = phases.iter().map(|p| Need::of(spec, p)).collect();
        Self {
            total: spec.gpu_bytes,
            needs: decisive(needs),
        }
    }
}

/// Those of the phases that are not smaller than another in every part, the largest first.
fn decisive(mut needs: Vec<Need>) -> Vec<Need> {
    needs.sort_by(|a, b| b.sums.iter().sum::<f64>().total_cmp(&a.sums.iter().sum()));
    let mut kept: Vec<Need> = Vec::with_capacity(needs.len());
    for need in needs {
        let covers = |k: &Need| {
            let parts = k.sums.iter().zip(&need.sums).all(|(a, b)| a >= b);
            let moves = k.forward_only == need.forward_only && k.mixed <= need.mixed;
            parts && moves && k.temporaries >= need.temporaries
        };
        if !kept.iter().any(covers) {
            kept.push(need);
        }
    }
    kept
}

impl Forecast {
    /// Before any attempt: the spread of jobs on this stack.
    #[must_use]
    pub fn new(spec: &Spec, profile: &Profile) -> Self {
        let mut spreads = spreads(profile);
        spreads[Kind::Engine as usize] *= SHARE_SPREAD;
        let middle = spec.fill.unwrap_or(profile.fill);
        let guess = |i: u32| {
            let mut kinds = [1.0; KINDS];
            for (kind, spread) in spreads.iter().enumerate() {
                kinds[kind] = (spread * normal(i, kind)).exp();
            }
            let upcast = scattered(i).is_multiple_of(UPCAST);
            kinds[Kind::Logits as usize] *= match upcast {
                true => UPCAST_LOGITS,
                false => PLAIN_LOGITS,
            };
            let fused = (scattered(i) / UPCAST).is_multiple_of(FUSED_OPTIMIZER);
            Guess {
                kinds,
                constant: profile.spread_gib * GIB * normal(i, KINDS),
                fill: (middle * (FILL_SPREAD * normal(i, KINDS + 1)).exp()).min(1.0),
                forward: (FORWARD_SPREAD * normal(i, KINDS + 2)).exp(),
                upcast,
                temporaries: if fused { 0.0 } else { 1.0 },
                weight: 1.0 / f64::from(GUESSES),
            }
        };
        Self {
            guesses: (1..=GUESSES).map(guess).collect(),
        }
    }

    /// Takes in how an attempt died and what was measured until then: the phases before it passed, and the
    /// one that it died in needed at least what its message says.
    pub fn learn(&mut self, spec: &Spec, incident: &Incident, peaks: &[Peak], profile: &Profile) {
        let Some(total) = spec.gpu_bytes else {
            return;
        };
        let evidence = Evidence::new(spec, incident, peaks, profile, total);
        let explained = |guess: &Guess| (evidence.explained(guess), evidence.allows(guess));
        let explained: Vec<(f64, f64)> = self.guesses.iter().map(explained).collect();
        let mut sharpness = 1.0;
        for _ in 0..12 {
            let pairs = self.guesses.iter().zip(&explained);
            let weigh = |(guess, (log, allowed)): (&Guess, &(f64, f64))| {
                guess.weight * (log * sharpness).exp() * allowed
            };
            let weights: Vec<f64> = pairs.map(weigh).collect();
            let sum: f64 = weights.iter().sum();
            let squares: f64 = weights.iter().map(|w| w * w).sum();
            if sum > 0.0 && sum * sum / squares.max(f64::MIN_POSITIVE) >= LEAST_EFFECTIVE {
                for (guess, new) in self.guesses.iter_mut().zip(weights) {
                    guess.weight = new / sum;
                }
                return;
            }
            sharpness *= 0.6;
        }
    }

    /// The same in fewer guesses, for a decision that asks hundreds of times: one for each equal part of the weight.
    #[must_use]
    pub fn condensed(&self) -> Self {
        let part = 1.0 / f64::from(FEWER);
        let mut guesses: Vec<Guess> = Vec::new();
        let (mut passed, mut taken) = (0.0, 0.5 * part);
        for guess in &self.guesses {
            passed += guess.weight;
            let mut weight = 0.0;
            while taken < passed && taken < 1.0 {
                weight += part;
                taken += part;
            }
            if weight > 0.0 {
                guesses.push(Guess { weight, ..*guess });
            }
        }
        Self { guesses }
    }

    /// Probability that every phase of a job fits its GPU; `None` without the GPU's capacity.
    #[must_use]
    pub fn fits(&self, spec: &Spec, profile: &Profile) -> Option<f64> {
        Some(self.odds(&Job::new(spec, &phases(spec, profile)))?.fits)
    }

    /// The same of a job that was looked at, and how near it comes.
    pub(super) fn odds(&self, job: &Job) -> Option<Odds> {
        let total = job.total?;
        let mut odds = Odds::default();
        for guess in &self.guesses {
            let needs = job.needs.iter().map(|n| n.bytes(guess));
            let missing = needs.fold(0.0, f64::max) - total;
            if missing <= 0.0 {
                odds.fits += guess.weight;
            }
            odds.near += guess.weight / (1.0 + (missing / (MISSING * total.max(1.0))).max(0.0));
        }
        (odds.fits, odds.near) = (odds.fits.min(1.0), odds.near.min(1.0));
        Some(odds)
    }

    /// Expected need of a job in bytes, with its phase: the fullest phase of the mean guess.
    #[must_use]
    pub fn expected(&self, spec: &Spec, profile: &Profile) -> Option<(Phase, f64)> {
        let needs = self.means(spec, profile);
        needs.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Expected need of each phase in bytes.
    fn means(&self, spec: &Spec, profile: &Profile) -> Vec<(Phase, f64)> {
        let mean = |phase: &PhaseTerms| {
            let need = Need::of(spec, phase);
            let bytes = |g: &Guess| g.weight * need.bytes(g);
            (phase.phase, self.guesses.iter().map(bytes).sum())
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
            phases: needs.iter().map(need).collect(),
            slower,
        })
    }
}

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
    let deviate = (u / (1.0 - u)).ln() * 3.0_f64.sqrt() / std::f64::consts::PI;
    if i.is_multiple_of(5) {
        2.0 * deviate
    } else {
        deviate
    }
}

/// Number `i` without any order, for what is so or not.
fn scattered(i: u32) -> u32 {
    i.wrapping_mul(2_654_435_761) >> 16
}
