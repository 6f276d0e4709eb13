//! A bare specification, with the field names of published measurements, as it is read.

use std::iter;

use serde::de::value::MapDeserializer;
use serde::{Deserialize, Serialize};

use super::profile::{Profile, Profiles};

/// A job in the fields that tables of measurements have. Fields that are not named here are ignored;
/// every field may be missing or null where a default is stated.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct MeasurementRow {
    /// Name of the row, printed again.
    pub id: Option<String>,
    /// Training stack; none means an unknown one.
    pub framework: Option<String>,
    /// `sft`, `pretrain`, `grpo`, `infer` or `serve`; training by default.
    pub task: Option<String>,
    /// Parameters in 10^9; counted from the dimensions by default.
    pub params_b: Option<f64>,
    /// Layers.
    pub layers: Option<f64>,
    /// Width.
    pub hidden: Option<f64>,
    /// Attention heads.
    pub heads: Option<f64>,
    /// Key and value heads; all heads by default.
    pub kv_heads: Option<f64>,
    /// Width of a head; `hidden / heads` by default.
    pub head_dim: Option<f64>,
    /// Width of the MLP.
    pub ffn: Option<f64>,
    /// Rows of the embedding.
    pub vocab: Option<f64>,
    /// `swiglu` (three matrices; the default), `gelu` or `sqrelu` (two).
    pub mlp: Option<String>,
    /// One matrix for embedding and output; no by default.
    pub tied: Option<bool>,
    /// Experts of a layer; 0 by default. With experts `ffn` is what a token passes, and `params_b` is needed.
    pub experts: Option<f64>,
    /// GPUs of the job; the product of the parallel sizes by default.
    pub gpus: Option<f64>,
    /// Capacity of a GPU in GiB.
    pub gpu_total_gib: Option<f64>,
    /// `pure_bf16`, `fp32`, `amp`, `amp_apex`, `fsdp_mp`, `hf_bf16`, `hf_fp16`, `ds_bf16`, `megatron`,
    /// `megatron_do`, and the profile's own words.
    pub precision: Option<String>,
    /// `adamw` (the default), `adamw_fused`, `adamw8bit`, `paged_adamw8bit`, `adamw_in_bwd`, `adafactor`, `muon`,
    /// `none`.
    pub optimizer: Option<String>,
    /// `none` (the default), `ddp`, `dp`, `zero0`, `zero1`, `zero2`, `zero3`, `fsdp`, `fsdp2`,
    /// `fsdp_grad_op`.
    pub sharding: Option<String>,
    /// Data parallel size; by default the GPUs, divided by the other parallel sizes.
    pub dp: Option<f64>,
    /// Tensor parallel size; 1 by default.
    pub tp: Option<f64>,
    /// Pipeline parallel size; 1 by default.
    pub pp: Option<f64>,
    /// Context parallel size; 1 by default.
    pub cp: Option<f64>,
    /// Pipeline chunks per GPU; 1 by default.
    pub vpp: Option<f64>,
    /// Sequence parallel norms; no by default.
    pub sp: Option<bool>,
    /// `none` (the default), `optimizer`, `param`, `param+optimizer`; `always` for both, while the trainer computes too.
    pub offload: Option<String>,
    /// `none` (the default), `selective`, `full`, `offload`.
    pub grad_checkpointing: Option<String>,
    /// `flash` (the default), `sdpa`, `eager`.
    pub attention: Option<String>,
    /// Sequences per GPU and forward pass.
    pub micro_batch: Option<f64>,
    /// Tokens per sequence.
    pub seq_len: Option<f64>,
    /// Forward passes per step; 1 by default.
    pub grad_accum: Option<f64>,
    /// Bytes per number of gradients that micro batches but the last of a step keep whole on each GPU (PyTorch FSDP
    /// `no_sync`), 0 where each of them reduces its own; the profile's by default.
    pub no_sync_bytes: Option<f64>,
    /// Bytes of the buffers through which gradients are reduced (DeepSpeed's `reduce_bucket_size` times the bytes of a number,
    /// twice with `overlap_comm` below stage 3); the profile's by default.
    pub bucket_bytes: Option<f64>,
    /// Rank of an adapter; 0 (the default) trains everything.
    pub lora_r: Option<f64>,
    /// Adapted matrices: `q,k,v,o,mlp,head,c_attn`, `all`, with `+emb` where embeddings are trained too.
    pub lora_targets: Option<String>,
    /// `none` (the default), `nf4`, `nf4-dq`, `gptq4`, `gptq8`, `int8`.
    pub quant: Option<String>,
    /// `torch.compile`; no by default.
    pub compile: Option<bool>,
    /// How logits become a loss, by the profile's names.
    pub loss_impl: Option<String>,
    /// The same where old log-probabilities are computed; `loss_impl` by default.
    pub logprob_loss_impl: Option<String>,
    /// The same for those of the reference policy; `loss_impl` by default.
    pub ref_loss_impl: Option<String>,
    /// `allocated`, `reserved`, `nvidia-smi`; the device's use by default.
    pub metric: Option<String>,
    /// A frozen copy of the model is held beside it; no by default.
    pub reference: Option<bool>,
    /// Share of the GPU of a rollout engine.
    pub engine_share: Option<f64>,
    /// Tensor parallel size of the rollout engine.
    pub rollout_tp: Option<f64>,
    /// Prompt tokens.
    pub max_prompt: Option<f64>,
    /// Response tokens.
    pub max_response: Option<f64>,
    /// GPUs over which weights are sharded, where it is neither `dp` nor all of them.
    pub shard_group: Option<f64>,
    /// Tokens that fill a micro batch over those that its limits allow; the profile's by default.
    pub fill: Option<f64>,
    /// Tokens of a forward pass for old log-probabilities; as in training by default.
    pub logprob_tokens: Option<f64>,
    /// Tokens of a forward pass of the reference policy; as in training by default, 0 without one.
    pub ref_tokens: Option<f64>,
    /// A critic as large as the policy is trained on the same GPUs; no by default.
    pub critic: Option<bool>,
    /// Sequences per GPU and forward pass of the critic.
    pub critic_micro_batch: Option<f64>,
    /// Tokens per sequence of the critic; the policy's by default.
    pub critic_seq_len: Option<f64>,
    /// Forward passes per step of the critic; 1 by default.
    pub critic_grad_accum: Option<f64>,
    /// As `offload`, of the critic.
    pub critic_offload: Option<String>,
    /// As `grad_checkpointing`, of the critic.
    pub critic_grad_checkpointing: Option<String>,
    /// Context parallel size of the critic; 1 by default.
    pub critic_cp: Option<f64>,
    /// The rollout engine gives its memory back while the trainer computes; yes by default.
    pub engine_sleeps: Option<bool>,
    /// The rollout engine captures CUDA graphs; no by default.
    pub cuda_graphs: Option<bool>,
    /// Tokens of one forward pass of the rollout engine; 8192 by default.
    pub engine_tokens: Option<f64>,
    /// Sequences that the rollout engine samples from at a time; 256 by default.
    pub engine_sequences: Option<f64>,
    /// MiB of the buffer through which new weights go to the rollout engine; 0 by default.
    pub sync_buffer_mib: Option<f64>,
}

/// Letters from which on a name that differs by one from that of a field is a slip.
const SHORTEST_SLIP: usize = 4;

/// A name that is one letter away from a field's: other names belong to whoever wrote them, but a default must not
/// stand for what somebody gave.
fn slip_in(given: &serde_json::Map<String, serde_json::Value>) -> Option<Unknown> {
    let fields = serde_json::to_value(MeasurementRow::default()).ok()?;
    let fields = fields.as_object()?;
    let others = given.keys().filter(|name| !fields.contains_key(*name));
    let mut long = others.filter(|name| name.len() >= SHORTEST_SLIP);
    long.find_map(|name| {
        let one_off = |field: &&String| strsim::damerau_levenshtein(name, field) == 1;
        let meant = fields.keys().find(one_off)?;
        let why = format!("is not a field; did you mean {meant}?");
        Some(Unknown::new(name, why))
    })
}

impl MeasurementRow {
    /// Reads one specification, a JSON object, with the words of its training stack.
    ///
    /// # Errors
    /// Text that is no JSON object, and fields of the wrong type.
    pub fn read<'p>(text: &str, profiles: &'p Profiles) -> Result<(Self, &'p Profile), Unknown> {
        let bad = |e: serde_json::Error| Unknown::new("specification", e.to_string());
        let object: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(text).map_err(bad)?;
        let framework = object.get("framework").and_then(|f| f.as_str());
        let profile = profiles.of_framework(framework.unwrap_or(""));
        let general = |own: String| profile.fields.get(&own).cloned().unwrap_or(own);
        let fields = object.into_iter().map(|(own, v)| (general(own), v));
        let fields: serde_json::Map<_, _> = fields.collect();
        if let Some(slip) = slip_in(&fields) {
            return Err(slip);
        }
        Ok((Self::of_fields(&fields)?, profile))
    }

    /// The row of these fields, or the field that is of the wrong type.
    fn of_fields(fields: &serde_json::Map<String, serde_json::Value>) -> Result<Self, Unknown> {
        Self::deserialize(fields).map_err(|all| {
            let alone = fields.iter().find_map(|(name, value)| {
                let one = iter::once((name.as_str(), value));
                let read = Self::deserialize(MapDeserializer::<_, serde_json::Error>::new(one));
                Some((name.as_str(), read.err()?))
            });
            let (name, why) = alone.unwrap_or(("specification", all));
            Unknown::new(name, why.to_string().replace("f64", "a number"))
        })
    }
}

/// A field that is missing or makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct Unknown {
    /// Its name.
    pub field: String,
    /// What is wrong with it, and what would be right.
    pub why: String,
}

impl Unknown {
    pub(super) fn new(field: &str, why: impl Into<String>) -> Self {
        Self {
            field: field.to_owned(),
            why: why.into(),
        }
    }
}
