//! What a request for logits tells that failed: its size how many tokens there were, and what was allocated by then
//! how many copies of the logits there were already, beside states and activations.

use super::particle::Particle;
use oomctl_base::units::Bytes;
use oomctl_diagnose::Incident;
use oomctl_memory::logistic::bell;
use oomctl_memory::{Phase, PhaseTerms, Spec, TermKind};

/// Relative doubt in the tokens that a request for logits gives.
const TOKENS_DOUBT: f64 = 0.03;
/// Doubt in the copies that were there, in copies.
const COPIES_DOUBT: f64 = 0.1;
/// Probability that a request which can have been for logits was for something else, and the density of its size then,
/// per logarithm.
const OTHER: f64 = 0.03;
const ANYTHING: f64 = 0.2;
/// Likelihood that is left where the formulas of the logits do not hold.
const FLOOR: f64 = 0.02;
/// Share of the tokens that a limit allows, which a micro batch can have.
const POSSIBLE: std::ops::RangeInclusive<f64> = 0.05..=1.02;
/// Bytes of a logit, in 16 bits and in fp32.
const LOGIT: [f64; 2] = [2.0, 4.0];

/// A request that can have been for logits.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LogitsRequest {
    bytes: f64,
    /// The request over the same for all logits that the limit of its phase allows, at each width of a logit where that
    /// can be.
    shares: [Option<f64>; 2],
    /// What the program had allocated, where the message says so.
    allocated: Option<f64>,
    /// Bytes of states that lay beside it, with and without those that may not have been there yet.
    states: Vec<f64>,
    /// Bytes of activations that lay beside it where the micro batch was full.
    activations: f64,
}

impl LogitsRequest {
    /// Of a failure in a phase; `None` where it was not for logits.
    pub fn new(spec: &Spec, incident: &Incident, phase: &PhaseTerms) -> Option<Self> {
        let bytes = incident.requested_bytes.map(Bytes::as_f64)?;
        let shares = shares(spec, bytes, phase.phase);
        shares.iter().any(Option::is_some).then(|| Self {
            bytes,
            shares,
            allocated: incident.allocated_bytes.map(Bytes::as_f64),
            states: states(phase),
            activations: activations(phase),
        })
    }

    /// The particle as it is, where the request was for something else, and with micro batches that are as full as it says.
    /// `full` is how likely a share is before that, per logarithm of it.
    pub fn ways(
        &self,
        particle: &Particle,
        mixed: f64,
        full: impl Fn(&Particle) -> f64,
    ) -> [Option<Particle>; 3] {
        if particle.told {
            return [Some(*particle), None, None];
        }
        let other = Particle {
            weight: particle.weight * OTHER * ANYTHING,
            ..*particle
        };
        let told = |share: Option<f64>| {
            let share = share?;
            let told = particle.filling(share.min(1.0), mixed)?;
            let steep = share / (mixed * told.fill).max(1e-9);
            Some(Particle {
                weight: particle.weight * (1.0 - OTHER) * full(&told) * steep,
                ..told
            })
        };
        let [half, single] = self.shares;
        [
            Some(other),
            told(half),
            told(single.filter(|_| particle.upcast)),
        ]
    }

    /// Likelihood under a particle whose micro batches are so full.
    pub fn explained(&self, particle: &Particle, filled: f64) -> f64 {
        let [half, single] = self.shares;
        // In 16 bits all copies are as large. Of a loss in fp32 only the first is in 16 bits, half as large as the others.
        let ways = match particle.upcast {
            false => [(half, 0.0, f64::INFINITY), (None, 0.0, 0.0)],
            true => [(half, 0.0, 0.0), (single, 0.5, f64::INFINITY)],
        };
        let explained = ways.into_iter().filter_map(|(share, first, most)| {
            let tokens = bell((share? / filled - 1.0) / TOKENS_DOUBT);
            Some(tokens * self.copies(particle, filled, first, most))
        });
        explained.fold(FLOOR, f64::max)
    }

    /// Likelihood of what was allocated, where so much of a copy was there before whole ones, and so many of those at
    /// most.
    fn copies(&self, particle: &Particle, filled: f64, first: f64, most: f64) -> f64 {
        let Some(allocated) = self.allocated else {
            return 1.0;
        };
        let moving = self.activations * particle.kinds[TermKind::Activations as usize] * filled;
        let likelihood = |states: &f64| {
            let beside = states * particle.kinds[TermKind::States as usize] + moving;
            let copies = (allocated - beside) / self.bytes - first;
            bell((copies - copies.round().clamp(0.0, most)) / COPIES_DOUBT)
        };
        self.states.iter().map(likelihood).fold(0.0, f64::max)
    }
}

/// The request as a share of all logits that the limit of its phase allows: the tokens of a micro batch stand in it.
/// None where it is as large as a matrix of embeddings.
fn shares(spec: &Spec, requested: f64, phase: Phase) -> [Option<f64>; 2] {
    let rollout = spec.rollout.as_ref();
    let limit = match phase {
        Phase::OldLogprob => rollout.map_or(0.0, |r| r.logprob_tokens),
        Phase::RefLogprob => rollout.map_or(0.0, |r| r.ref_tokens),
        Phase::Forward | Phase::Backward => spec.tokens(),
        _ => 0.0,
    };
    let row = spec.model.vocab / spec.tensor_parallel;
    let weights = for_embeddings(spec, requested);
    LOGIT.map(|width| {
        let share = requested / (width * row * limit.max(1.0));
        Some(share).filter(|share| !weights && POSSIBLE.contains(share))
    })
}

/// Whether a request is as large as a matrix of embeddings, or both of them, or what comes back as their gradient.
pub(super) fn for_embeddings(spec: &Spec, requested: f64) -> bool {
    let matrix = spec.model.vocab / spec.tensor_parallel * spec.model.hidden;
    let sizes = [1.0, 2.0, 4.0, 8.0].map(|width| width * matrix);
    sizes
        .iter()
        .any(|size| (requested / size - 1.0).abs() < 0.01)
}

/// Bytes of a phase's states on the GPU: all of them, and without those that come with the first micro batch
/// (gradients) or the first step (moments), or both.
fn states(phase: &PhaseTerms) -> Vec<f64> {
    let sum = |of: &dyn Fn(&str) -> bool| {
        let terms = phase.terms.iter().filter(|t| of(t.name));
        terms.map(|t| t.bytes).sum::<f64>()
    };
    let gathered = |name: &str| name.starts_with("gathered");
    let lasting = phase.terms.iter().filter(|t| t.kind == TermKind::States);
    let lasting: f64 = lasting.map(|t| t.bytes).sum();
    let late = ["gradients", "optimizer"].map(|late| sum(&|name| name == late));
    let all = lasting + sum(&gathered);
    vec![all, all - late[0], all - late[1], all - late[0] - late[1]]
}

/// Bytes of a phase's activations that wait while the logits are computed.
fn activations(phase: &PhaseTerms) -> f64 {
    let waits = |name: &str| matches!(name, "activations" | "checkpoints");
    let waiting = phase.terms.iter().filter(|t| waits(t.name));
    waiting.map(|t| t.bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::ladder::posterior::Posterior;
    use oomctl_base::units::GIB;
    use oomctl_diagnose::Class;
    use oomctl_memory::{MeasurementRow, Profile, phases};

    /// 32 sequences of 2048 tokens, of 152,064 words, hidden width 3584.
    fn spec() -> Spec {
        let row = serde_json::json!({
            "params_b": 7.6, "layers": 28, "hidden": 3584, "heads": 28, "ffn": 18944, "vocab": 152_064,
            "micro_batch": 32, "seq_len": 2048, "grad_checkpointing": "full", "sharding": "fsdp", "dp": 8,
        });
        let row: MeasurementRow = serde_json::from_value(row).unwrap();
        row.spec(&Profile::default()).unwrap()
    }

    fn asked(requested: f64) -> [Option<f64>; 2] {
        shares(&spec(), requested, Phase::Forward)
    }

    #[test]
    fn a_request_for_logits_tells_how_full_the_micro_batch_was() {
        let limit = 32.0 * 2048.0;
        let [half, single] = asked(0.3 * limit * 152_064.0 * 2.0);
        assert!((half.unwrap() - 0.3).abs() < 1e-3 && (single.unwrap() - 0.15).abs() < 1e-3);
        // More than all of them in 16 bits can only be in fp32.
        let [half, single] = asked(0.9 * limit * 152_064.0 * 4.0);
        assert!(half.is_none() && (single.unwrap() - 0.9).abs() < 1e-3);
    }

    #[test]
    fn a_request_as_large_as_the_embeddings_tells_no_tokens() {
        assert_eq!(asked(152_064.0 * 3584.0 * 4.0), [None, None]);
    }

    /// Whether a loss in fp32, and one in 16 bits, explain a failed request for logits of so many bytes each beside so many
    /// copies of that.
    fn explained(width: f64, copies: f64) -> [f64; 2] {
        let (spec, profile) = (spec(), Profile::default());
        let phases = phases(&spec, &profile);
        let forward = phases.iter().find(|p| p.phase == Phase::Forward).unwrap();
        let particles = Posterior::new(&spec, &profile).particles;
        [true, false].map(|upcast| {
            let likely = |particle: &Particle| {
                let filled = 0.3;
                let requested = filled * 32.0 * 2048.0 * 152_064.0 * width;
                let kinds = |kind: TermKind| particle.kinds[kind as usize];
                let beside = states(forward)[0] * kinds(TermKind::States)
                    + activations(forward) * kinds(TermKind::Activations) * filled;
                let gib = |bytes: f64| Some(Bytes::from_gib(bytes / GIB));
                let died = Incident {
                    requested_bytes: gib(requested),
                    allocated_bytes: gib(beside + copies * requested),
                    ..Incident::bare("cuda_oom", Class::GpuOom)
                };
                LogitsRequest::new(&spec, &died, forward)
                    .unwrap()
                    .explained(particle, filled)
            };
            let all = particles.iter().filter(|g| g.upcast == upcast);
            all.map(likely).fold(0.0, f64::max)
        })
    }

    #[test]
    fn copies_that_were_allocated_tell_in_which_format_the_loss_is() {
        let likely = |[single, half]: [f64; 2]| (single > 0.9, half > 0.9);
        // Two copies of the size of the request: all are in 16 bits.
        assert_eq!(likely(explained(2.0, 2.0)), (false, true));
        // Half of it: the logits, and the request is for their copy in fp32.
        assert_eq!(likely(explained(4.0, 0.5)), (true, false));
        // None: it can be either.
        assert_eq!(likely(explained(2.0, 0.0)), (true, true));
    }

    #[test]
    fn a_request_for_logits_is_most_likely_one_and_says_how_full_a_batch_is() {
        let (spec, profile) = (spec(), Profile::default());
        let phases = phases(&spec, &profile);
        let forward = phases.iter().find(|p| p.phase == Phase::Forward).unwrap();
        let requested = 0.6 * 32.0 * 2048.0 * 152_064.0 * 2.0;
        let died = Incident {
            requested_bytes: Some(Bytes::from_gib(requested / GIB)),
            ..Incident::bare("cuda_oom", Class::GpuOom)
        };
        let request = LogitsRequest::new(&spec, &died, forward).unwrap();
        let (mut told, mut other) = (0.0, 0.0);
        for particle in Posterior::new(&spec, &profile).particles {
            for way in request.ways(&particle, 0.9, |_| 1.0).into_iter().flatten() {
                let share = way.filled(0.9);
                let explains = [0.6, 0.3].iter().any(|s| (share / s - 1.0).abs() < 0.02);
                assert!(explains || !way.told, "{share}");
                *(if way.told { &mut told } else { &mut other }) += way.weight;
            }
        }
        assert!(told > 9.0 * other, "{told} {other}");
    }
}
