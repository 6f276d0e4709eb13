//! A model's dimensions: read from the text of its `config.json`, or from the tables that are shipped.
//!
//! Nothing is made up: a file that lacks a dimension, contradicts itself, or describes something else than a decoder of
//! attention and MLPs is refused with the key that says so.

mod contexts;
mod count;
mod decoder;
mod families;
mod fields;
mod tables;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value as Json};

use super::Unknown;
use decoder::Decoder;
use families::Family;
use fields::DecoderFields;
use oomctl_base::{Value, ValueKind, word_list};

pub use contexts::{ContextSize, any_context, context};
pub use fields::place_of;
pub use tables::{Capacity, GpuTable, ModelEntry, ModelTable, capacity, processor};

/// The knob for the memory of one GPU.
pub const GPU_MEMORY: &str = "gpu_memory";
/// An example of its value: a card of 80 GB as the table of GPUs has it.
pub const GPU_MEMORY_EXAMPLE: &str = "79.18GiB";

/// The knobs of the set `model`.
pub const MODEL_KNOBS: [&str; 12] = word_list(
    "model.layers model.hidden model.intermediate model.heads model.kv_heads model.head_dim
     model.vocab model.max_position_embeddings model.params model.experts model.tied model.gated",
);

/// Most parameters of a model.
const MOST_PARAMS: f64 = 1e14;

/// Dimensions of a decoder-only transformer. Counts are `f64` as in [`super::Model`].
#[derive(Debug, Clone, PartialEq)]
pub struct Dimensions {
    /// `model_type`, the family.
    pub family: String,
    /// Layers.
    pub layers: f64,
    /// Width.
    pub hidden: f64,
    /// Width of the MLP that a token passes: of a mixture of experts the chosen and the shared ones together, the mean
    /// over the layers.
    pub intermediate: f64,
    /// Attention heads.
    pub heads: f64,
    /// Key and value heads.
    pub kv_heads: f64,
    /// Width of a head.
    pub head_dim: f64,
    /// Rows of the embedding.
    pub vocab: f64,
    /// Longest sequence in tokens, where it is given.
    pub max_positions: Option<f64>,
    /// Parameters in all: the published number where the table has it, else counted.
    pub params: f64,
    /// Experts of a layer; 0 without.
    pub experts: f64,
    /// One matrix for embedding and output projection.
    pub tied: bool,
    /// Three matrices in the MLP instead of two.
    pub gated: bool,
    /// Number format of the weights (`bfloat16`), where it is given.
    pub format: Option<String>,
    /// How the weights are quantised, where they are.
    pub quantised: Option<String>,
    /// What was assumed, in sentences for people.
    pub remarks: Vec<String>,
}

/// Reads the text of a `config.json`.
///
/// # Errors
/// Text that is no JSON object, and the first key that is missing, odd, absurd, contradictory, or belongs to a model that
/// cannot be counted.
pub fn read_dimensions(text: &str) -> Result<Dimensions, Unknown> {
    let top: Map<String, Json> = serde_json::from_str(text)
        .map_err(|e| Unknown::new("config.json", format!("is no JSON object: {e}")))?;
    Dimensions::of(&top)
}

impl Dimensions {
    /// From the keys of a `config.json`.
    ///
    /// # Errors
    /// As `read_dimensions`.
    pub fn of(top: &Map<String, Json>) -> Result<Self, Unknown> {
        let fields = DecoderFields::new(top);
        let family = fields.text("model_type").unwrap_or("");
        let (known, is_known) = Family::of(family);
        let decoder = Decoder::read(&fields, known)?;
        let vision = count::vision(&fields)?;
        let params = count::decoder(&decoder) + vision;
        if params > MOST_PARAMS {
            let why = format!("adds up to {params:.0} parameters, more than any model has");
            return Err(fields.fault("hidden_size", why));
        }
        let mut remarks = Vec::new();
        if !is_known {
            remarks.push(match family {
                "" => "there is no model_type; counted as a plain decoder".to_owned(),
                family => format!("model_type {family} is unknown; counted as a plain decoder"),
            });
            if fields.flag("tie_word_embeddings")?.is_none() {
                remarks.push("tie_word_embeddings is not given; counted as not tied".to_owned());
            }
        }
        if vision > 0.0 {
            remarks.push("of the part that sees only the weights are counted".to_owned());
        }
        Ok(Self {
            family: family.to_owned(),
            layers: decoder.layers,
            hidden: decoder.hidden,
            intermediate: decoder.passed().round(),
            heads: decoder.heads,
            kv_heads: decoder.kv_heads,
            head_dim: decoder.head_dim,
            vocab: decoder.vocab,
            max_positions: decoder.positions,
            params,
            experts: decoder.mixture.map_or(0.0, |m| m.experts),
            tied: decoder.tied,
            gated: decoder.family.gated,
            format: fields
                .text("torch_dtype")
                .or(fields.text("dtype"))
                .map(str::to_owned),
            quantised: quantised(&fields)?,
            remarks,
        })
    }

    /// The knobs of the set `model` that these dimensions give, each with the key of `config.json` that it stands under
    /// (empty for those that are counted).
    pub fn knobs(&self) -> Vec<(&'static str, Value, &'static str)> {
        let number = |x: f64| Value::from_number(ValueKind::Int, x);
        let mut knobs = vec![
            ("model.layers", number(self.layers), "num_hidden_layers"),
            ("model.hidden", number(self.hidden), "hidden_size"),
            (
                "model.intermediate",
                number(self.intermediate),
                "intermediate_size",
            ),
            ("model.heads", number(self.heads), "num_attention_heads"),
            (
                "model.kv_heads",
                number(self.kv_heads),
                "num_key_value_heads",
            ),
            ("model.head_dim", number(self.head_dim), "head_dim"),
            ("model.vocab", number(self.vocab), "vocab_size"),
            ("model.params", number(self.params), ""),
            ("model.tied", Value::Bool(self.tied), "tie_word_embeddings"),
            ("model.gated", Value::Bool(self.gated), "hidden_act"),
            ("model.experts", number(self.experts), ""),
        ];
        let longest = self.max_positions.map(number);
        knobs.extend(longest.map(|n| {
            (
                "model.max_position_embeddings",
                n,
                "max_position_embeddings",
            )
        }));
        knobs
    }
}

/// How the weights are quantised: the method, with its bits where they are given.
fn quantised(fields: &DecoderFields<'_>) -> Result<Option<String>, Unknown> {
    let Some(config) = fields
        .get("quantization_config")
        .or(fields.beside("quantization_config"))
    else {
        return Ok(None);
    };
    let name = "quantization_config";
    let config = config
        .as_object()
        .ok_or_else(|| Unknown::new(name, "is no object"))?;
    let part = DecoderFields::part(config, "quantization_config.");
    let bits = match (part.flag("load_in_4bit")?, part.flag("load_in_8bit")?) {
        (Some(true), _) => Some(4.0),
        (_, Some(true)) => Some(8.0),
        _ => part.size(&["bits"], 64.0)?,
    };
    let method = part
        .text("quant_method")
        .unwrap_or("a method that is not named");
    Ok(Some(match bits {
        Some(bits) => format!("{method}, {bits} bit"),
        None => method.to_owned(),
    }))
}
