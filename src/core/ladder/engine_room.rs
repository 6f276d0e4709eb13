//! Whether a rollout engine's share of the GPU holds its weights and one sequence: it refuses to start where
//! it does not, and then wants more memory, not less.

use oomctl_base::units::GIB;
use oomctl_diagnose::{Class, Incident};
use oomctl_memory::Spec;

/// Bytes per logit while an engine tries its sampler at its start, which every GPU of it does for the whole vocabulary: 256
/// sequences of Llama-3-8B took 1.26 GiB on one GPU and on two (vllm-project/vllm#10511), of Qwen2.5-1.5B 1.39 GiB.
const LOGIT: f64 = 40.0;
/// Bytes outside PyTorch that the engine counts into its share.
const OUTSIDE: f64 = 0.6 * GIB;
/// Standard deviation of what is not counted, in bytes, and of its activations, relatively.
const SPREAD: f64 = 0.5 * GIB;
const ACTIVATION_SPREAD: f64 = 0.3;

/// Part of a step that is rollout.
pub(super) const ROLLOUT: f64 = 0.4;
/// Sequences at a time with which an engine is half as fast as it can be: reading its weights is what takes
/// the time.
const AT_ONCE: f64 = 32.0;

/// What is known of the room that is left in a share, in standard deviations of the need.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct EngineRoom {
    /// So much was too little.
    too_little: f64,
    /// So much was enough.
    enough: f64,
}

impl Default for EngineRoom {
    fn default() -> Self {
        Self {
            too_little: f64::NEG_INFINITY,
            enough: f64::INFINITY,
        }
    }
}

impl EngineRoom {
    /// Takes in whether the engine of an attempt started.
    pub fn learn(&mut self, spec: &Spec, incident: &Incident) {
        let Some(room) = room(spec) else { return };
        let phase = incident.phase.as_str();
        if phase == "kv_cache" && incident.class == Class::EngineMemory {
            self.too_little = self.too_little.max(room);
        } else if !matches!(phase, "load" | "init" | "kv_cache" | "unknown" | "") {
            self.enough = self.enough.min(room);
        }
        if self.too_little >= self.enough {
            self.enough = self.too_little + 1.0;
        }
    }

    /// Probability that the share of a job is enough for its engine.
    pub fn fits(self, spec: &Spec) -> f64 {
        let Some(room) = room(spec) else { return 1.0 };
        let (low, high) = (above(self.too_little), above(self.enough));
        ((low - above(room)) / (low - high).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)
    }
}

/// Probability that an engine needs more than so much room, in standard deviations: Student's distribution with three degrees of
/// freedom, as wide as a normal one where nine in ten lie below. Its tail is heavy: what was far too little once is not
/// enough for a little more.
fn above(room: f64) -> f64 {
    const NARROWER: f64 = 1.638 / 1.282;
    let t = room * NARROWER / 3.0_f64.sqrt();
    if t.is_infinite() {
        return if t > 0.0 { 0.0 } else { 1.0 };
    }
    0.5 - (t / (1.0 + t * t) + t.atan()) / std::f64::consts::PI
}

/// What the room of an engine depends on while one job is looked at, and how many of its shares are.
pub(super) type EngineKey = ([u64; 6], usize);

/// The key of a job.
pub(super) fn key(spec: &Spec, shares: usize) -> EngineKey {
    let of = spec.rollout.as_ref().map(|r| {
        let gpu = spec.gpu_bytes.unwrap_or(0.0);
        let (share, tokens) = (r.memory_fraction, r.batched_tokens);
        [
            gpu,
            share,
            r.tensor_parallel,
            r.context,
            tokens,
            r.sequences,
        ]
    });
    (of.unwrap_or_default().map(f64::to_bits), shares)
}

/// Loss of speed, as a logarithm, of an engine whose cache holds fewer sequences than before; 0 where that is unknown.
pub(super) fn loss(before: &Spec, after: &Spec) -> f64 {
    let (Some(before), Some(after)) = (sequences(before), sequences(after)) else {
        return 0.0;
    };
    let time = |sequences: f64| 1.0 + AT_ONCE / sequences.max(1.0);
    (1.0 - ROLLOUT + ROLLOUT * time(after) / time(before)).ln()
}

/// Longest sequences that the cache of an engine holds, up to those that it takes at a time.
fn sequences(spec: &Spec) -> Option<f64> {
    let (rollout, total) = (spec.rollout.as_ref()?, spec.gpu_bytes?);
    let need = EngineNeed::of(spec)?;
    let cache = total * rollout.memory_fraction - need.bytes + need.cache;
    Some((cache / need.cache.max(1.0)).min(rollout.sequences))
}

/// What a share leaves beside weights, activations and the cache of one sequence, over the standard deviation
/// of the need; `None` without an engine.
fn room(spec: &Spec) -> Option<f64> {
    let (rollout, total) = (spec.rollout.as_ref()?, spec.gpu_bytes?);
    let need = EngineNeed::of(spec)?;
    Some((total * rollout.memory_fraction - need.bytes) / need.spread)
}

/// Bytes of the cache for one token; `None` without an engine.
pub(super) fn token_bytes(spec: &Spec) -> Option<f64> {
    let (rollout, m) = (spec.rollout.as_ref()?, &spec.model);
    Some(m.layers * 2.0 * m.kv_heads * m.head_dim * 2.0 / rollout.tensor_parallel)
}

/// What an engine needs at least, in bytes.
struct EngineNeed {
    bytes: f64,
    /// Of it the cache of one sequence.
    cache: f64,
    /// Standard deviation.
    spread: f64,
}

impl EngineNeed {
    fn of(spec: &Spec) -> Option<Self> {
        let rollout = spec.rollout.as_ref()?;
        let (m, tp) = (&spec.model, rollout.tensor_parallel);
        let layer = 2.0 * (4.0 * m.hidden + (2.0 * m.ffn + m.heads * m.head_dim) / tp);
        let sampled = rollout.sequences.min(rollout.batched_tokens) * m.vocab * LOGIT;
        // The sampler runs when the layers are done.
        let activations = sampled.max(rollout.batched_tokens * layer);
        let cache = rollout.context * token_bytes(spec)?;
        Some(Self {
            bytes: 2.0 * m.params / tp + activations + cache + OUTSIDE,
            cache,
            spread: SPREAD.hypot(activations * ACTIVATION_SPREAD),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_far_too_little_once_is_not_enough_for_a_little_more() {
        // Nine in ten of a normal distribution.
        assert!((above(1.282) - 0.1).abs() < 0.001, "{}", above(1.282));
        assert_eq!((above(f64::NEG_INFINITY), above(f64::INFINITY)), (1.0, 0.0));
        let after = |too_little: f64, room: f64| 1.0 - above(room) / above(too_little);
        assert!(after(0.0, 3.0) > 0.9);
        assert!(after(6.0, 9.0) < 0.75);
        assert!(after(6.0, 15.0) > 0.9);
    }
}
