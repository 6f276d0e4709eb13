//! What lives for a part of a step: activations, checkpoints, logits.

use super::profile::Profile;
use super::spec::{Attention, Checkpointing, Spec};

/// Hidden units per token and layer that tensor parallelism without sequence parallelism leaves whole
/// (Korthikanti 2022, equation 2: 10 s b h of 34 s b h, in bytes).
const WHOLE_BYTES: f64 = 10.0;

/// Bytes of one layer's activations for all tokens of a micro batch, nothing recomputed.
pub(super) fn layer(spec: &Spec, profile: &Profile) -> f64 {
    let m = &spec.model;
    let unit = spec.precision.compute;
    let scale = unit / 2.0;
    let norms = 2.0 * profile.norm * m.hidden * scale;
    let kv = if profile.expands_kv {
        m.heads
    } else {
        m.kv_heads
    };
    let attention = unit * 2.0 * m.head_dim * (m.heads + kv);
    let scores = match spec.attention {
        Attention::Eager => profile.scores * scale * m.heads * spec.sequence,
        Attention::Flash | Attention::Sdpa => 0.0,
    };
    let mlp = scale * m.ffn * if m.gated { 8.0 } else { 4.0 };
    let per_token = match &spec.lora {
        None => norms + attention + mlp,
        Some(lora) => {
            let inputs = if spec.quantised.is_some_and(|q| q.keeps_inputs) {
                unit * (2.0 * m.hidden + m.ffn)
            } else {
                0.0
            };
            // The inputs of frozen products are not kept; those that an adapter reads are.
            let adapted = scale * m.ffn * if lora.mlp { 2.0 } else { 0.0 };
            let frozen_mlp = scale * m.ffn * if m.gated { 6.0 } else { 2.0 };
            norms / 2.0
                + attention
                + frozen_mlp
                + adapted
                + inputs
                + profile.adapter * scale * m.hidden
        }
    };
    let factor = if spec.compiled {
        profile.activations_compiled
    } else {
        profile.activations
    };
    let tensor = spec.tensor_parallel;
    let split = if spec.sequence_parallel || tensor <= 1.0 {
        (per_token * factor + scores) / tensor
    } else {
        let whole = (WHOLE_BYTES * m.hidden * scale).min(per_token) * factor;
        whole + (per_token * factor - whole + scores) / tensor
    };
    split * spec.tokens()
}

/// Bytes that wait for the backward pass at the end of the forward pass, and bytes that the backward of one layer
/// needs beside them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Activations {
    /// Activations kept as they are.
    pub kept: f64,
    /// Inputs of checkpointed layers.
    pub checkpoints: f64,
    /// The layer that is recomputed.
    pub working_set: f64,
}

/// The activations of a training step.
pub(super) fn activations(spec: &Spec, profile: &Profile) -> Activations {
    let one = layer(spec, profile);
    let layers = layers_alive(spec);
    let input = spec.precision.compute * spec.model.hidden * spec.tokens();
    let input = if spec.sequence_parallel {
        input / spec.tensor_parallel
    } else {
        input
    };
    match spec.checkpointing {
        Checkpointing::None => Activations {
            kept: layers * one,
            ..Activations::default()
        },
        Checkpointing::Selective => Activations {
            kept: layers * one * profile.selective,
            working_set: one,
            ..Activations::default()
        },
        Checkpointing::Full => Activations {
            checkpoints: layers * input,
            working_set: profile.working_set * one,
            ..Activations::default()
        },
        Checkpointing::Offload => Activations {
            checkpoints: layers.min(3.0) * input,
            working_set: profile.working_set * one,
            ..Activations::default()
        },
    }
}

/// Layers whose activations the fullest pipeline stage holds: with one forward, one backward in turn the
/// first stage holds as many micro batches as there are stages (Korthikanti 2022, section 4.2.3).
fn layers_alive(spec: &Spec) -> f64 {
    let stages = spec.pipeline_parallel;
    let own = spec.model.layers / stages;
    if stages <= 1.0 {
        return own;
    }
    let interleaved = if spec.pipeline_chunks > 1.0 {
        1.0 + (stages - 1.0) / (stages * spec.pipeline_chunks)
    } else {
        1.0
    };
    own * stages.min(spec.accumulation.max(1.0)) * interleaved
}

/// Of the stages of a pipeline the first holds the most activations, the last one micro batch and the
/// logits: the activations (as a share of the first stage's) and logits of the fuller of the two.
pub(super) fn fuller_stage(spec: &Spec, kept: f64, logits: f64) -> (f64, f64) {
    if spec.pipeline_parallel <= 1.0 {
        return (1.0, logits);
    }
    let last = 1.0 / (layers_alive(spec) * spec.pipeline_parallel / spec.model.layers).max(1.0);
    if kept * last + logits > kept {
        (last, logits)
    } else {
        (1.0, 0.0)
    }
}

/// Bytes of logits for `tokens` on one GPU.
pub(super) fn logits(spec: &Spec, tokens: f64, bytes: f64) -> f64 {
    tokens * spec.model.vocab * bytes / spec.tensor_parallel
}
