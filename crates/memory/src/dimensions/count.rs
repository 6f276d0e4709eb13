//! How many parameters a model has.
//!
//! Of a layer: queries and output `hidden x heads x head_dim` each, keys and values `hidden x kv_heads x head_dim` each
//! (or DeepSeek-V2's latents), an MLP of three or two matrices `hidden x ffn`, or so many for each expert with a router
//! `hidden x experts`; biases and norms. Of the model: the embedding `vocab x hidden`, as much again for an output that is
//! not tied to it, learned positions, the last norm.

use super::decoder::{Decoder, Latent};
use super::families::{Bias, HeadNorms};
use super::fields::DecoderFields;
use crate::Unknown;

/// Parameters of a decoder, embeddings included.
pub(super) fn decoder(d: &Decoder) -> f64 {
    let family = d.family;
    let embeddings = if d.tied { 1.0 } else { 2.0 } * d.vocab * d.hidden;
    let positions = match (family.positions, d.positions) {
        (Some(more), Some(longest)) => (longest + more) * d.hidden,
        _ => 0.0,
    };
    let head_bias = if family.head_bias { d.vocab } else { 0.0 };
    d.layers * (attention(d) + norms(d))
        + mlps(d)
        + embeddings
        + positions
        + head_bias
        + family.last * d.hidden
}

fn attention(d: &Decoder) -> f64 {
    if let Some(latent) = &d.latent {
        return through_latent(d, latent);
    }
    let (queries, keys) = (d.heads * d.head_dim, d.kv_heads * d.head_dim);
    let biases = match d.bias {
        Bias::None => 0.0,
        Bias::Inputs => queries + 2.0 * keys,
        Bias::Attention | Bias::All => queries + 2.0 * keys + d.hidden,
    };
    2.0 * d.hidden * (queries + keys) + biases
}

/// DeepSeek-V2 (2024), section 2.1; `modeling_deepseek.py`.
fn through_latent(d: &Decoder, l: &Latent) -> f64 {
    let head = l.plain + l.rotary;
    let queries = if l.queries > 0.0 {
        l.queries * (d.hidden + 1.0 + d.heads * head)
    } else {
        d.hidden * d.heads * head
    };
    let keys = d.hidden * (l.keys + l.rotary) + l.keys * (1.0 + d.heads * (l.plain + l.values));
    queries + keys + d.heads * l.values * d.hidden
}

fn norms(d: &Decoder) -> f64 {
    let heads = match d.family.head_norms {
        HeadNorms::None => 0.0,
        HeadNorms::Shared => 2.0 * d.head_dim,
        HeadNorms::Whole => (d.heads + d.kv_heads) * d.head_dim,
    };
    let doubled = if d.doubled_norms { 2.0 } else { 1.0 };
    doubled * d.family.norms * d.hidden + heads
}

fn mlps(d: &Decoder) -> f64 {
    let matrices = if d.family.gated { 3.0 } else { 2.0 };
    let biases = match d.bias {
        Bias::All => (matrices - 1.0) * d.ffn + d.hidden,
        Bias::None | Bias::Inputs | Bias::Attention => 0.0,
    };
    let dense = matrices * d.hidden * d.ffn + biases;
    let Some(m) = d.mixture else {
        return d.layers * dense;
    };
    let experts = matrices * d.hidden * (m.experts * m.width + m.shared) + m.experts * d.hidden;
    (d.layers - m.layers) * dense + m.layers * experts
}

/// Parameters of the part that sees: its layers, and where its output is merged before it enters the decoder, the
/// merger's two matrices.
pub(super) fn vision(fields: &DecoderFields<'_>) -> Result<f64, Unknown> {
    const MOST: f64 = 1e6;
    let Some(part) = fields.beside("vision_config") else {
        return Ok(0.0);
    };
    let part = part
        .as_object()
        .ok_or_else(|| Unknown::new("vision_config", "is no object"))?;
    let part = DecoderFields::part(part, "vision_config.");
    let layers = part.needed(&["depth", "num_hidden_layers"], MOST)?;
    let width = match part.size(&["embed_dim"], MOST)? {
        Some(width) => width,
        None => part.needed(&["hidden_size"], MOST)?,
    };
    let ffn = match part.size(&["intermediate_size"], MOST)? {
        Some(ffn) => ffn,
        None => width * part.needed(&["mlp_ratio"], MOST)?,
    };
    let gated = part
        .text("model_type")
        .is_some_and(|t| t.starts_with("qwen2_5") || t == "pixtral");
    let matrices = if gated { 3.0 } else { 2.0 };
    let side = part.size(&["spatial_merge_size"], MOST)?.unwrap_or(2.0);
    let merged = side * side * width;
    let merger = part.size(&["out_hidden_size"], MOST)?;
    let merger = merger.map_or(0.0, |out| merged * (merged + out));
    Ok(layers * width * (4.0 * width + matrices * ffn) + merger)
}
