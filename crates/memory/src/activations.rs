//! What lives for a part of a step: activations, checkpoints, logits.

use super::profile::Profile;
use super::spec::{Attention, Checkpointing, Metric, Spec};

/// Hidden units per token and layer that tensor parallelism without sequence parallelism leaves whole
/// (Korthikanti 2022, equation 2: 10 s b h of 34 s b h, in bytes).
const WHOLE_BYTES: f64 = 10.0;

/// Bytes per hidden unit that the fused kernel of `LayerNorm` keeps in 16 bits: its input and what the next
/// product reads (Korthikanti 2022, section 4.1).
const LAYER_NORM: f64 = 4.0;

/// Bytes of one layer's activations for all tokens of a micro batch, nothing recomputed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LayerActivations {
    /// What grows with the tokens.
    pub linear: f64,
    /// Attention scores: their number, twice that where they are in fp32.
    pub scores: f64,
    /// Bytes of the scores that wait for the backward pass.
    pub kept_scores: f64,
}

impl LayerActivations {
    /// All of it.
    pub(super) fn bytes(&self) -> f64 {
        self.linear + self.kept_scores
    }
}

/// The activations of one layer.
pub(super) fn layer(spec: &Spec, profile: &Profile) -> LayerActivations {
    let m = &spec.model;
    let unit = spec.precision.compute;
    let scale = unit / 2.0;
    // Autocast computes norms and softmax in fp32 (PyTorch, autocast op reference).
    let upcast = if spec.precision.cast_copy { 2.0 } else { scale };
    // A plain MLP comes with LayerNorm (GPT, BERT, MPT, Falcon, Phi), a gated one with RMSNorm.
    let norm = if m.gated {
        profile.norm
    } else {
        profile.norm.min(LAYER_NORM)
    };
    let norms = 2.0 * norm * m.hidden * upcast;
    let kv = if profile.expands_kv {
        m.heads
    } else {
        m.kv_heads
    };
    let attention = unit * 2.0 * m.head_dim * (m.heads + kv);
    let scores = match spec.attention {
        Attention::Eager => m.heads * spec.sequence,
        Attention::Flash | Attention::Sdpa => 0.0,
    };
    let mlp = scale * m.ffn * if m.gated { 8.0 } else { 4.0 };
    let per_token = match &spec.lora {
        None => norms + attention + mlp,
        Some(lora) => {
            let inputs = if spec.quantised.is_some_and(|q| q.keeps_inputs) {
                profile.quantised_inputs * unit * (2.0 * m.hidden + m.ffn)
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
        per_token * factor / tensor
    } else {
        let whole = (WHOLE_BYTES * m.hidden * scale).min(per_token) * factor;
        whole + (per_token * factor - whole) / tensor
    };
    let scores = scores / tensor * spec.tokens();
    LayerActivations {
        linear: split * spec.tokens(),
        scores: scores * upcast,
        kept_scores: scores * upcast * profile.scores,
    }
}

/// Bytes per score of eager attention in the forward pass: in 16 bits before and after the softmax, in fp32 between (transformers 4.40
/// `models/llama/modeling_llama.py`, PyTorch's softmax with a `dtype`).
const FORWARD_SCORES: f64 = 8.0;

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
    /// Scores of a checkpointed layer in the forward pass, which nothing keeps.
    pub passing_scores: f64,
}

/// The activations of a training step.
pub(super) fn activations(spec: &Spec, profile: &Profile) -> Activations {
    let one = layer(spec, profile);
    let back = profile.working_set * one.linear + profile.scores_backward * one.scores;
    let passing_scores = FORWARD_SCORES * one.scores;
    let one = one.bytes();
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
            working_set: back,
            passing_scores,
            ..Activations::default()
        },
        Checkpointing::Offload => Activations {
            checkpoints: layers.min(3.0) * input,
            working_set: back,
            passing_scores,
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

/// Layers' worth of activations that the last stage holds, over those of the first: one micro batch, or with
/// interleaving the chunks before the first backward (Narayanan 2021, section 2.2).
fn last_stage_share(spec: &Spec) -> f64 {
    let own = spec.model.layers / spec.pipeline_parallel;
    let chunks = spec.pipeline_chunks;
    let ahead = (chunks - 1.0) * spec.pipeline_parallel + 1.0;
    let last = own * ahead.min(chunks * spec.accumulation.max(1.0)) / chunks;
    (last / layers_alive(spec)).min(1.0)
}

/// Of the stages of a pipeline the first holds the most activations, the last one the logits: the activations
/// (as a share of the first stage's) and logits of the fuller of the two, or of the last where the figure that
/// is asked for is the one that the stack itself prints there.
pub(super) fn fuller_stage(spec: &Spec, profile: &Profile, kept: f64, logits: f64) -> (f64, f64) {
    if spec.pipeline_parallel <= 1.0 {
        return (1.0, logits);
    }
    let last = last_stage_share(spec);
    let printed = profile.prints_last_stage && spec.metric == Metric::Allocated;
    if printed || kept * last + logits > kept {
        (last, logits)
    } else {
        (1.0, 0.0)
    }
}

/// Bytes of logits for `tokens` on one GPU.
pub(super) fn logits(spec: &Spec, tokens: f64, bytes: f64) -> f64 {
    tokens * spec.model.vocab * bytes / spec.tensor_parallel
}
