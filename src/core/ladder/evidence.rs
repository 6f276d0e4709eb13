//! What one attempt tells of the hidden factors of a job: where it died, what passed before, and what the
//! message says.

use super::forecast::{Guess, Need, Peak};
use crate::core::diagnose::{Class, Incident};
use crate::core::memory::{Kind, Phase, PhaseTerms, Profile, Spec, phases};
use crate::core::units::{Bytes, GIB};

/// Doubt in bytes in figures and formulas.
const DOUBT: f64 = 0.5 * GIB;
/// Likelihood that is left where the formulas of a phase do not hold.
const MISFIT: f64 = 0.02;
/// Likelihood that is left for what contradicts the failure itself.
const IMPOSSIBLE: f64 = 0.01;
/// Doubt in bytes in what lies outside the allocator, which the message's figures give to a page.
const OUTSIDE_DOUBT: f64 = 0.15 * GIB;
/// Relative doubt in the tokens that a request for logits gives.
const TOKENS_DOUBT: f64 = 0.01;
/// Likelihood of a request under a guess that does not explain it, against one that does: it may have been
/// for anything.
const UNEXPLAINED: f64 = 0.15;
/// Share of the tokens that a limit allows, which a micro batch can have.
const POSSIBLE: std::ops::RangeInclusive<f64> = 0.05..=1.02;
/// Bytes of a logit, in 16 bits and in fp32.
const LOGIT: [f64; 2] = [2.0, 4.0];

/// What one attempt tells.
pub(super) struct Evidence {
    /// Bytes of the GPU.
    total: f64,
    /// The most that was ever in use.
    most: f64,
    /// Phases that passed, with the bytes that were seen in them.
    passed: Vec<(Need, Option<f64>)>,
    /// Phases in one of which it died; all where the text did not tell.
    fatal: Vec<Need>,
    /// The text did tell.
    told: bool,
    /// The least that the fullest of them needed.
    least: f64,
    /// What lay outside the allocator of the program that died, in bytes.
    outside: Option<f64>,
    /// The request that failed over the same for all logits that the limit allows, at each width of a logit.
    logits: [Option<f64>; 2],
}

impl Evidence {
    /// From an attempt on GPUs of `total` bytes.
    pub fn new(
        spec: &Spec,
        incident: &Incident,
        peaks: &[Peak],
        profile: &Profile,
        total: f64,
    ) -> Self {
        let told = match wants_gpu(incident) {
            true => fatal_phases(incident),
            false => &[],
        };
        let all: Vec<PhaseTerms> = phases(spec, profile);
        let first = all.iter().position(|p| told.contains(&p.phase));
        let seen = |phase: Phase| {
            let peak = peaks.iter().find(|p| p.phase == Some(phase))?;
            Some(bytes(peak.bytes))
        };
        let steps = incident.step.unwrap_or(0);
        // An engine starts before anything but the load has passed.
        let starting = told.contains(&Phase::Rollout) && steps == 0;
        let mut passed = Vec::new();
        for (at, phase) in all.iter().enumerate() {
            let before = first.is_some_and(|first| at < first);
            let before = before && (!starting || phase.phase == Phase::Load);
            let seen = seen(phase.phase);
            let step = phase.phase == Phase::OptimizerStep;
            if steps > 1 && (before || step) {
                passed.push((Need::of(spec, phase), seen));
            } else if before || steps > 1 {
                passed.push((Need::without_moments(spec, phase), seen));
            }
        }
        // A step may update several times: at all but the first the moments are there.
        let update =
            |p: Phase| matches!(p, Phase::Forward | Phase::Backward | Phase::OptimizerStep);
        let needs = |p: &&PhaseTerms| match steps > 1 || update(p.phase) {
            true => Need::of(spec, p),
            false => Need::without_moments(spec, p),
        };
        let reached = all
            .iter()
            .filter(|p| told.is_empty() || told.contains(&p.phase));
        let reached: Vec<&PhaseTerms> = reached.filter(|_| wants_gpu(incident)).collect();
        let whole = peaks.iter().filter(|p| p.phase.is_none());
        let fatal = reached.first().filter(|_| !told.is_empty());
        let logits = fatal.map(|p| requested_logits(spec, incident, p.phase));
        Self {
            total,
            most: whole.map(|p| bytes(p.bytes)).fold(total, f64::min),
            passed,
            fatal: reached.iter().map(needs).collect(),
            told: !told.is_empty(),
            least: least_need(incident, total),
            outside: outside(incident),
            logits: logits.unwrap_or_default(),
        }
    }

    /// How well a guess explains it, as the logarithm of a likelihood.
    pub fn explained(&self, guess: &Guess) -> f64 {
        let passed = self.passed.iter().map(|(need, seen)| {
            let need = need.bytes(guess);
            let seen = seen.map_or(1.0, |seen| bell((need - seen) / DOUBT));
            mixed(seen * curve((self.most - need) / DOUBT)).ln()
        });
        let died = self.died(guess);
        let died = died.map_or(0.0, |need| curve((need - self.least) / DOUBT).ln());
        passed.sum::<f64>() + died + self.figures(guess)
    }

    /// What cannot be otherwise: what ran out of memory needs more than there is. A little is left, for the formulas
    /// may miss something that no guess has.
    pub fn allows(&self, guess: &Guess) -> f64 {
        match self.died(guess) {
            Some(need) if need <= self.total => IMPOSSIBLE,
            _ => 1.0,
        }
    }

    /// Bytes of the fullest of the phases in which it died.
    fn died(&self, guess: &Guess) -> Option<f64> {
        let needs = self.fatal.iter().map(|need| need.bytes(guess));
        needs.reduce(f64::max)
    }

    /// How well a guess explains the message's figures.
    fn figures(&self, guess: &Guess) -> f64 {
        let Some(need) = self.fatal.first().filter(|_| self.told) else {
            return 0.0;
        };
        let outside = self.outside.map_or(1.0, |seen| {
            let part = |kind: Kind| need.sums[kind as usize] * guess.kinds[kind as usize];
            let expected = part(Kind::Outside) + part(Kind::Engine) + guess.constant;
            mixed(bell((expected - seen) / OUTSIDE_DOUBT))
        });
        let filled = need.filled(guess);
        let widths = match guess.upcast {
            true => LOGIT.len(),
            false => 1,
        };
        let asked = self.logits.iter().take(widths).flatten();
        let asked = asked.map(|share| bell((share / filled - 1.0) / TOKENS_DOUBT));
        let tokens = match self.logits.iter().flatten().next() {
            None => 1.0,
            Some(_) => asked.fold(UNEXPLAINED, f64::max),
        };
        outside.ln() + tokens.ln()
    }
}

/// A likelihood that leaves room for what no guess has.
fn mixed(likelihood: f64) -> f64 {
    MISFIT + (1.0 - MISFIT) * likelihood
}

/// Whether more memory of the GPU would have helped: an engine that finds its own share too small says nothing
/// of the GPU.
fn wants_gpu(incident: &Incident) -> bool {
    match incident.class {
        Class::GpuOom => true,
        Class::EngineMemory => incident.phase != "kv_cache",
        _ => false,
    }
}

/// What lay outside the allocator of the program that died: the GPU without what was free and what the allocator
/// had.
fn outside(incident: &Incident) -> Option<f64> {
    let (total, free) = (bytes(incident.total_bytes?), bytes(incident.free_bytes?));
    let unallocated = bytes(incident.reserved_unallocated_bytes?);
    let own = bytes(incident.allocated_bytes?) + unallocated;
    (own > 0.0 && own + free <= total).then_some(total - free - own)
}

/// The request that failed as a share of all logits that the limit of its phase allows, at each width of a logit where
/// that can be: the tokens of a micro batch stand in it. None where it is as large as a matrix of embeddings.
fn requested_logits(spec: &Spec, incident: &Incident, phase: Phase) -> [Option<f64>; 2] {
    let rollout = spec.rollout.as_ref();
    let limit = match phase {
        Phase::OldLogprob => rollout.map_or(0.0, |r| r.logprob_tokens),
        Phase::RefLogprob => rollout.map_or(0.0, |r| r.ref_tokens),
        Phase::Forward | Phase::Backward => spec.tokens(),
        _ => 0.0,
    };
    let requested = incident.requested_bytes.map_or(0.0, bytes);
    let row = spec.model.vocab / spec.tensor_parallel;
    let matrices = [1.0, 2.0, 4.0, 8.0].map(|width| width * row * spec.model.hidden);
    let weights = matrices.iter().any(|m| (requested / m - 1.0).abs() < 0.01);
    LOGIT.map(|width| {
        let share = requested / (width * row * limit.max(1.0));
        Some(share).filter(|share| !weights && POSSIBLE.contains(share))
    })
}

#[expect(clippy::cast_precision_loss, reason = "bytes of a GPU")]
fn bytes(of: Bytes) -> f64 {
    of.0 as f64
}

/// The density of the logistic distribution, 1 in the middle.
fn bell(x: f64) -> f64 {
    4.0 * curve(x) * curve(-x)
}

/// The model's phases for a diagnosed one; none where the text did not tell.
pub(super) fn fatal_phases(incident: &Incident) -> &'static [Phase] {
    match incident.phase.as_str() {
        "init" | "cuda_graph" if incident.class == Class::EngineMemory => &[Phase::Rollout],
        "kv_cache" => &[],
        "actor_update" | "critic" => &[Phase::Forward, Phase::Backward],
        "forward" => &[Phase::Forward],
        "backward" => &[Phase::Backward],
        "optimizer_step" => &[Phase::OptimizerStep],
        "old_logprob" => &[Phase::OldLogprob],
        "ref_logprob" => &[Phase::RefLogprob],
        "rollout" | "cuda_graph" => &[Phase::Rollout],
        "wake_up" => &[Phase::WakeUp, Phase::Rollout],
        "load" | "init" => &[Phase::Load],
        "checkpoint" => &[Phase::Checkpoint],
        _ => &[],
    }
}

/// The least that was needed at the fatal allocation: what was in use and what was asked for, where the figures
/// agree with each other; else the GPU.
#[expect(clippy::cast_precision_loss, reason = "bytes of a GPU")]
pub(super) fn least_need(incident: &Incident, total: f64) -> f64 {
    let figures = (
        incident.total_bytes,
        incident.free_bytes,
        incident.requested_bytes,
    );
    let (Some(all), Some(free), Some(requested)) = figures else {
        return total;
    };
    let sane =
        incident.allocated_bytes.is_none_or(|a| a <= all) && free <= all && requested.0 < all.0 * 4;
    if sane {
        (all.0 - free.0) as f64 + requested.0 as f64
    } else {
        total
    }
}

/// The logistic curve.
fn curve(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::memory::Row;

    /// What a request of so many bytes says of 32 sequences of 2048 tokens, of 152,064 words, hidden width 3584.
    fn asked(requested: f64) -> [Option<f64>; 2] {
        let row = serde_json::json!({
            "params_b": 7.6, "layers": 28, "hidden": 3584, "heads": 28, "ffn": 18944, "vocab": 152_064,
            "micro_batch": 32, "seq_len": 2048,
        });
        let row: Row = serde_json::from_value(row).unwrap();
        let spec = row.spec(&Profile::default()).unwrap();
        let died = Incident {
            requested_bytes: Some(Bytes::from_gib(requested / GIB)),
            ..Incident::bare("cuda_oom", Class::GpuOom)
        };
        requested_logits(&spec, &died, Phase::Forward)
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
}
