//! From the keys of a `config.json` to what its decoder consists of.

use std::collections::BTreeSet;

use serde_json::Value;

use super::families::{Bias, Family};
use super::fields::DecoderFields;
use crate::Unknown;
use crate::sizes::{MOST_EXPERTS, MOST_HEADS, MOST_LAYERS, MOST_WIDTH, MOST_WORDS};
use oomctl_base::word_list;

const LAYERS: [&str; 4] = ["num_hidden_layers", "n_layer", "n_layers", "num_layers"];
const HIDDEN: [&str; 3] = ["hidden_size", "n_embd", "d_model"];
const HEADS: [&str; 4] = ["num_attention_heads", "n_head", "n_heads", "num_heads"];
const KV_HEADS: [&str; 3] = [
    "num_key_value_heads",
    "num_kv_heads",
    "multi_query_group_num",
];
const FFN: [&str; 4] = ["intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"];
const VOCAB: [&str; 2] = ["padded_vocab_size", "vocab_size"];
const POSITIONS: [&str; 6] = word_list(
    "max_position_embeddings n_positions n_ctx max_sequence_length max_seq_len seq_length",
);
const EXPERTS: [&str; 3] = ["num_local_experts", "n_routed_experts", "num_experts"];
const CHOSEN: [&str; 2] = ["num_experts_per_tok", "num_experts_per_token"];
const SHARED: [&str; 2] = ["n_shared_experts", "num_shared_experts"];

/// Keys of models whose layers are not all attention and MLP.
const MIXED: [&str; 9] = word_list(
    "ssm_cfg state_size ssm_state_size mamba_d_state linear_num_key_heads attn_layer_period
     layers_block_type hybrid_override_pattern block_configs",
);
/// Kinds of attention that `layer_types` may name.
const ATTENTIONS: [&str; 3] = ["full_attention", "sliding_attention", "chunked_attention"];

/// Keys and values through a narrow latent (DeepSeek-V2, 2024, section 2.1). Widths in numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Latent {
    /// Of the queries' latent; 0 where queries have none.
    pub queries: f64,
    pub keys: f64,
    /// Of a head: the part without positions, the part with them, the values.
    pub plain: f64,
    pub rotary: f64,
    pub values: f64,
}

/// A mixture of experts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mixture {
    pub experts: f64,
    /// Experts that a token passes, the shared ones not counted.
    pub chosen: f64,
    /// Width of one expert.
    pub width: f64,
    /// Width of all shared experts together.
    pub shared: f64,
    /// Layers that have experts; the others have one MLP.
    pub layers: f64,
}

/// A decoder as its `config.json` describes it.
#[derive(Debug)]
pub(super) struct Decoder {
    pub family: &'static Family,
    pub layers: f64,
    pub hidden: f64,
    pub heads: f64,
    pub kv_heads: f64,
    pub head_dim: f64,
    /// Width of the MLP of a layer without experts.
    pub ffn: f64,
    pub vocab: f64,
    pub positions: Option<f64>,
    pub tied: bool,
    pub bias: Bias,
    /// Norms are doubled (Falcon's newer layers).
    pub doubled_norms: bool,
    pub latent: Option<Latent>,
    pub mixture: Option<Mixture>,
}

impl Decoder {
    pub(super) fn read(
        fields: &DecoderFields<'_>,
        family: &'static Family,
    ) -> Result<Self, Unknown> {
        refuse_others(fields)?;
        let sizes = family.sizes;
        let or = |given: Option<f64>, at: usize| given.or(sizes.and_then(|s| s.get(at).copied()));
        let layers = fields.needed(&LAYERS, MOST_LAYERS)?;
        let hidden = fields.needed(&HIDDEN, MOST_WIDTH)?;
        let heads =
            or(fields.size(&HEADS, MOST_HEADS)?, 0).ok_or_else(|| fields.missing(&HEADS))?;
        let vocab = or(words(fields)?, 3).ok_or_else(|| fields.missing(&["vocab_size"]))?;
        let latent = latent(fields)?;
        let ffn = match fields.size(&FFN, MOST_WIDTH)? {
            Some(width) => width,
            None => expansion(fields, family)? * hidden,
        };
        let kv_heads = or(kv_heads(fields, heads)?, 1).unwrap_or(heads);
        Ok(Self {
            family,
            layers,
            hidden,
            heads,
            kv_heads: shared_by(fields, heads, kv_heads)?,
            head_dim: match (&latent, or(fields.size(&["head_dim"], MOST_WIDTH)?, 2)) {
                (Some(latent), _) => latent.plain + latent.rotary,
                (None, Some(width)) => width,
                (None, None) => split(fields, hidden, heads)?,
            },
            ffn: fields
                .size(&["intermediate_size_mlp"], MOST_WIDTH)?
                .unwrap_or(ffn),
            vocab,
            positions: positions(fields)?,
            tied: fields.flag("tie_word_embeddings")?.unwrap_or(family.tied),
            bias: bias(fields, family)?,
            doubled_norms: fields.flag("new_decoder_architecture")? == Some(true),
            latent,
            mixture: mixture(fields, family, layers, ffn)?,
        })
    }

    /// Width of the MLP that one token passes, the mean over the layers.
    pub(super) fn passed(&self) -> f64 {
        let Some(m) = self.mixture else {
            return self.ffn;
        };
        let experts = m.chosen * m.width + m.shared;
        ((self.layers - m.layers) * self.ffn + m.layers * experts) / self.layers
    }
}

/// Refuses what has no decoder of attention and MLPs alone.
fn refuse_others(fields: &DecoderFields<'_>) -> Result<(), Unknown> {
    let family = fields.text("model_type").unwrap_or("");
    if Family::is_other(family) {
        let why = format!("models of the family {family} cannot be counted from this file");
        return Err(fields.fault("model_type", why));
    }
    let classes = fields.beside("architectures").and_then(Value::as_array);
    let class = classes.and_then(|c| c.first()).and_then(Value::as_str);
    if let Some(class) = class.filter(|c| !Family::of(family).1 && !Family::is_decoder(c)) {
        let why = format!("{class} is not a known decoder");
        return Err(Unknown::new("architectures", why));
    }
    if fields.flag("is_encoder_decoder")? == Some(true) {
        return Err(fields.fault("is_encoder_decoder", "only decoders can be counted"));
    }
    if fields.beside("audio_config").is_some() {
        return Err(Unknown::new(
            "audio_config",
            "a part for sound cannot be counted",
        ));
    }
    if let Some(key) = MIXED.iter().find(|key| fields.get(key).is_some()) {
        return Err(fields.fault(
            key,
            "layers of other kinds than attention cannot be counted",
        ));
    }
    let types = fields.get("layer_types").and_then(Value::as_array);
    let mut types = types.into_iter().flatten().filter_map(Value::as_str);
    match types.find(|t| !ATTENTIONS.contains(t)) {
        Some(other) => Err(fields.fault(
            "layer_types",
            format!("layers of kind {other} cannot be counted"),
        )),
        None => Ok(()),
    }
}

/// Rows of the embedding: the padded number where there is one.
fn words(fields: &DecoderFields<'_>) -> Result<Option<f64>, Unknown> {
    for name in VOCAB {
        if let Some(words) = fields.size(&[name], MOST_WORDS)? {
            return Ok(Some(words));
        }
    }
    Ok(None)
}

/// The longest sequence; of several names the first, for they do not all mean the same.
fn positions(fields: &DecoderFields<'_>) -> Result<Option<f64>, Unknown> {
    for name in POSITIONS {
        if let Some(tokens) = fields.size(&[name], MOST_WORDS)? {
            return Ok(Some(tokens));
        }
    }
    Ok(None)
}

fn expansion(fields: &DecoderFields<'_>, family: &Family) -> Result<f64, Unknown> {
    let own = fields.size(&["expansion_ratio", "mlp_ratio"], 64.0)?;
    own.or(family.expansion).ok_or_else(|| fields.missing(&FFN))
}

/// Key and value heads; one where all queries share them (`multi_query`).
fn kv_heads(fields: &DecoderFields<'_>, heads: f64) -> Result<Option<f64>, Unknown> {
    if fields.flag("new_decoder_architecture")? != Some(true)
        && fields.flag("multi_query")? == Some(true)
    {
        return Ok(Some(1.0));
    }
    fields.size(&KV_HEADS, heads)
}

fn shared_by(fields: &DecoderFields<'_>, heads: f64, kv_heads: f64) -> Result<f64, Unknown> {
    if heads % kv_heads == 0.0 {
        return Ok(kv_heads);
    }
    let why = format!("{heads} heads cannot share {kv_heads} key and value heads");
    Err(fields.fault(fields.first_given(&KV_HEADS), why))
}

fn split(fields: &DecoderFields<'_>, hidden: f64, heads: f64) -> Result<f64, Unknown> {
    if hidden % heads == 0.0 {
        return Ok(hidden / heads);
    }
    let why =
        format!("a width of {hidden} cannot be split over {heads} heads, and there is no head_dim");
    Err(fields.fault(fields.first_given(&HEADS), why))
}

fn bias(fields: &DecoderFields<'_>, family: &Family) -> Result<Bias, Unknown> {
    let all = match fields.flag("no_bias")? {
        Some(none) => Some(!none),
        None => fields.flag("use_bias")?.or(fields.flag("bias")?),
    };
    let attention = fields.flag("attention_bias")?.unwrap_or(false);
    Ok(match all {
        Some(true) => Bias::All,
        Some(false) => Bias::None,
        None if attention && fields.flag("mlp_bias")? == Some(true) => Bias::All,
        None if attention => family.attention_bias,
        None => family.bias,
    })
}

fn latent(fields: &DecoderFields<'_>) -> Result<Option<Latent>, Unknown> {
    let Some(keys) = fields.size(&["kv_lora_rank"], MOST_WIDTH)? else {
        return Ok(None);
    };
    Ok(Some(Latent {
        queries: fields.count(&["q_lora_rank"], MOST_WIDTH)?.unwrap_or(0.0),
        keys,
        plain: fields.needed(&["qk_nope_head_dim"], MOST_WIDTH)?,
        rotary: fields.needed(&["qk_rope_head_dim"], MOST_WIDTH)?,
        values: fields.needed(&["v_head_dim"], MOST_WIDTH)?,
    }))
}

fn mixture(
    fields: &DecoderFields<'_>,
    family: &Family,
    layers: f64,
    ffn: f64,
) -> Result<Option<Mixture>, Unknown> {
    let experts = fields.count(&EXPERTS, MOST_EXPERTS)?.unwrap_or(0.0);
    if experts == 0.0 {
        return no_experts(fields).map(|()| None);
    }
    let chosen = fields.needed(&CHOSEN, MOST_EXPERTS)?;
    if chosen > experts {
        let why = format!("a token cannot pass {chosen} of {experts} experts");
        return Err(fields.fault(fields.first_given(&CHOSEN), why));
    }
    let width = fields
        .size(&["moe_intermediate_size"], MOST_WIDTH)?
        .unwrap_or(ffn);
    let shared = fields.count(
        &[
            "shared_expert_intermediate_size",
            "shared_intermediate_size",
        ],
        MOST_WIDTH,
    )?;
    Ok(Some(Mixture {
        experts,
        chosen,
        width,
        shared: match shared {
            Some(shared) => shared,
            None => {
                fields
                    .count(&SHARED, MOST_EXPERTS)?
                    .unwrap_or(family.shared)
                    * width
            }
        },
        layers: layers_with_experts(fields, layers)?,
    }))
}

/// Refuses experts under a name that is not known: they would be missed, and the model counted too small.
fn no_experts(fields: &DecoderFields<'_>) -> Result<(), Unknown> {
    let many = |key: &str| {
        fields
            .get(key)
            .and_then(Value::as_f64)
            .is_some_and(|x| x > 1.0)
    };
    let mut keys = fields.keys().filter(|k| k.contains("expert"));
    match keys.find(|k| many(k)) {
        Some(key) => {
            let why = format!("experts, but none of {} is given", EXPERTS.join(", "));
            Err(fields.fault(key, why))
        }
        None => Ok(()),
    }
}

/// Layers that have experts: all but the first ones, the named ones, and those between the steps.
fn layers_with_experts(fields: &DecoderFields<'_>, layers: f64) -> Result<f64, Unknown> {
    let first = fields
        .count(&["first_k_dense_replace"], layers)?
        .unwrap_or(0.0);
    let steps = [
        "decoder_sparse_step",
        "moe_layer_freq",
        "interleave_moe_layer_step",
    ];
    let step = fields.size(&steps, layers)?.unwrap_or(1.0);
    // Layer i has experts where i + 1 is a multiple of the step.
    let has = |layer: f64| layer >= first && layer < layers && (layer + 1.0) % step == 0.0;
    let named = fields.get("mlp_only_layers").and_then(Value::as_array);
    let named = named.into_iter().flatten().filter_map(Value::as_u64);
    let named: BTreeSet<u32> = named.filter_map(|n| u32::try_from(n).ok()).collect();
    let without = named.into_iter().filter(|n| has(f64::from(*n))).count();
    let without = without as f64;
    Ok((layers / step).floor() - (first / step).floor() - without)
}
