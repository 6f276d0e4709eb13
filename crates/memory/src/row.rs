//! A bare specification, with the field names of published measurements, made into a [`Spec`].

use std::iter;

use serde::de::value::MapDeserializer;
use serde::{Deserialize, Serialize};

use super::profile::{Profile, Profiles};
use super::sizes::{Split, heads_agree, or, or_none, params_agree, size};
use super::spec::{Lora, Model, Rollout, Spec, Task};
use super::words;
use oomctl_base::units::GIB;

/// A job in the fields that tables of measurements have. Fields that are not named here are ignored;
/// every field may be missing or null where a default is stated.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Row {
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
    /// `none` (the default), `ddp`, `dp`, `zero1`, `zero2`, `zero3`, `fsdp`, `fsdp_grad_op`.
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

/// Letters from which on a name that differs by one from that of a field is a slip.
const SHORTEST_SLIP: usize = 4;

/// A name that is one letter away from a field's: other names belong to whoever wrote them, but a default must not
/// stand for what somebody gave.
fn slip_in(given: &serde_json::Map<String, serde_json::Value>) -> Option<Unknown> {
    let fields = serde_json::to_value(Row::default()).ok()?;
    let fields = fields.as_object()?;
    let others = given.keys().filter(|name| !fields.contains_key(*name));
    let mut long = others.filter(|name| name.len() >= SHORTEST_SLIP);
    long.find_map(|name| {
        let one_off = |field: &&String| strsim::damerau_levenshtein(name, field) == 1;
        let meant = fields.keys().find(one_off)?;
        let why = format!("is no field; did you mean {meant}?");
        Some(Unknown::new(name, why))
    })
}

impl Row {
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

    /// The job that the row describes, for a training stack.
    ///
    /// # Errors
    /// The first field that is missing without a default, absurd, or no word that is known.
    pub fn spec(&self, profile: &Profile) -> Result<Spec, Unknown> {
        let own = self.precision.as_deref();
        let general = own.and_then(|word| profile.precisions.get(word));
        let precision = words::precision(general.map(String::as_str).or(own))?;
        let model = self.model(profile)?;
        let lora = self.lora(&model)?;
        let (offloads_params, offloads_optimizer, stays) = words::offload(self.offload.as_deref())?;
        let sharding = words::sharding(self.sharding.as_deref())?;
        let task = words::task(self.task.as_deref())?;
        let quantised = words::quantised(self.quant.as_deref())?;
        if quantised.is_some() && lora.is_none() && task == Task::Train {
            let why = "a quantised base cannot be trained; lora_r says what is";
            return Err(Unknown::new("quant", why));
        }
        let split = Split::of(self, &model)?;
        let rollout = self.rollout(split.gpus, profile)?;
        // Weights are sharded over context parallel GPUs and, in a hybrid job, over all of them.
        let shards = match (sharding.gathers(), &rollout) {
            (true, Some(_)) => split.gpus,
            (true, None) => split.data * split.context,
            (false, _) => split.data,
        };
        let shards = or("shard_group", self.shard_group, shards)?;
        if shards > split.gpus {
            let why = format!("{shards} are more than {} GPUs", split.gpus);
            return Err(Unknown::new("shard_group", why));
        }
        let micro_batch = size("micro_batch", self.micro_batch)?;
        let marks = [
            own.unwrap_or(""),
            if split.tensor > 1.0 { "tp" } else { "" },
            if micro_batch <= 1.0 { "one" } else { "" },
        ];
        Ok(Spec {
            task,
            precision,
            optimizer: words::optimizer(self.optimizer.as_deref(), precision.moments)?,
            sharding,
            data_parallel: shards,
            tensor_parallel: split.tensor,
            pipeline_parallel: split.pipeline,
            context_parallel: split.context,
            pipeline_chunks: split.chunks,
            sequence_parallel: self.sp.unwrap_or(false),
            offloads_params,
            offloads_optimizer,
            offload_returns: rollout.is_some() && !stays,
            checkpointing: words::checkpointing(self.grad_checkpointing.as_deref())?,
            attention: words::attention(self.attention.as_deref())?,
            micro_batch,
            sequence: size("seq_len", self.seq_len)?,
            accumulation: or("grad_accum", self.grad_accum, 1.0)?,
            lora,
            quantised,
            // Kernels that fuse the loss come with fused norms and MLPs (Hsu 2024).
            compiled: self.compile.unwrap_or(false) || self.loss_impl.as_deref() == Some("fused"),
            loss: profile.loss(self.loss_name(), &marks),
            gpus: split.gpus,
            gpus_per_node: split.gpus.min(8.0),
            gpu_bytes: self
                .gpu_total_gib
                .map(|g| size("gpu_total_gib", Some(g)))
                .transpose()?
                .map(|g| g * GIB),
            rollout,
            metric: words::metric(self.metric.as_deref())?,
            fill: self.fill.map(|f| size("fill", Some(f))).transpose()?,
            model,
        })
    }

    fn model(&self, profile: &Profile) -> Result<Model, Unknown> {
        let hidden = size("hidden", self.hidden)?;
        let heads = size("heads", self.heads)?;
        let kv_heads = or("kv_heads", self.kv_heads, heads)?;
        heads_agree(self, heads, hidden)?;
        let mut model = Model {
            params: 0.0,
            layers: size("layers", self.layers)?,
            hidden,
            heads,
            kv_heads,
            head_dim: or("head_dim", self.head_dim, hidden / heads)?,
            ffn: size("ffn", self.ffn)?,
            vocab: size("vocab", self.vocab)?,
            gated: words::word(
                "mlp",
                self.mlp.as_deref(),
                true,
                &[
                    ("swiglu", true),
                    ("geglu", true),
                    ("gelu", false),
                    ("sqrelu", false),
                ],
            )?,
            tied: self.tied.unwrap_or(false),
        };
        if or_none("experts", self.experts)? > 0.0 && self.params_b.is_none() {
            let why =
                "is needed and missing: what a token passes does not say how large all experts are";
            return Err(Unknown::new("params_b", why));
        }
        let apart = model.counted_params();
        model.params = or("params_b", self.params_b, apart / 1e9)? * 1e9;
        if self.tied.is_none() {
            // Which of both the parameters speak for.
            let shared = apart - model.vocab * model.hidden;
            model.tied = (model.params - shared).abs() < (model.params - apart).abs();
        }
        params_agree(model.params, model.counted_params())?;
        if profile.unties && model.tied {
            model.tied = false;
            model.params += model.vocab * hidden;
        }
        Ok(model)
    }

    fn lora(&self, model: &Model) -> Result<Option<Lora>, Unknown> {
        let rank = or_none("lora_r", self.lora_r)?;
        if rank == 0.0 {
            return Ok(None);
        }
        let text = self.lora_targets.as_deref().unwrap_or("all");
        let (targets, embeddings) = match text.strip_suffix("+emb") {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let (h, d) = (model.hidden, model.head_dim);
        let (q, kv) = (model.heads * d, model.kv_heads * d);
        let matrices = if model.gated { 3.0 } else { 2.0 };
        let mlp = matrices * (h + model.ffn);
        let all = 2.0 * (h + q) + 2.0 * (h + kv) + mlp;
        let mut widths = 0.0;
        for target in targets.split(',').map(str::trim).filter(|t| !t.is_empty()) {
            widths += match target {
                "q" | "o" => h + q,
                "k" | "v" => h + kv,
                "mlp" => mlp,
                "c_attn" => h + q + 2.0 * kv,
                "head" => (h + model.vocab) / model.layers,
                "all" => all,
                other => {
                    return Err(Unknown::new(
                        "lora_targets",
                        format!("`{other}` is not one of q, k, v, o, mlp, head, c_attn, all"),
                    ));
                }
            };
        }
        if widths == 0.0 {
            return Err(Unknown::new("lora_targets", "names no matrix"));
        }
        Ok(Some(Lora {
            rank,
            widths,
            mlp: targets.contains("mlp") || targets.contains("all"),
            embeddings,
        }))
    }

    fn loss_name(&self) -> &str {
        self.loss_impl.as_deref().unwrap_or("other")
    }

    fn rollout(&self, gpus: f64, profile: &Profile) -> Result<Option<Rollout>, Unknown> {
        if self.engine_share.is_none() {
            return Ok(None);
        }
        let tokens = size("micro_batch", self.micro_batch)? * size("seq_len", self.seq_len)?;
        let tensor_parallel = or("rollout_tp", self.rollout_tp, 1.0)?;
        if gpus % tensor_parallel != 0.0 {
            let why = format!("{gpus} GPUs cannot be split into engines of {tensor_parallel}");
            return Err(Unknown::new("rollout_tp", why));
        }
        let loss = |own: &Option<String>| {
            let name = own.as_deref().unwrap_or_else(|| self.loss_name());
            profile.forward_loss(name)
        };
        Ok(Some(Rollout {
            memory_fraction: size("engine_share", self.engine_share)?,
            tensor_parallel,
            sleeps: self.engine_sleeps.unwrap_or(true),
            cuda_graphs: self.cuda_graphs.unwrap_or(false),
            logprob_tokens: or("logprob_tokens", self.logprob_tokens, tokens)?,
            ref_tokens: match self.ref_tokens {
                Some(0.0) => 0.0,
                given => or("ref_tokens", given, tokens)?,
            },
            logprob_loss: loss(&self.logprob_loss_impl),
            ref_loss: loss(&self.ref_loss_impl),
            ref_weight: 2.0,
            context: or_none("max_prompt", self.max_prompt)?
                + or_none("max_response", self.max_response)?,
            batched_tokens: or("engine_tokens", self.engine_tokens, 8192.0)?,
            sequences: or("engine_sequences", self.engine_sequences, 256.0)?,
            sync_buffer: or_none("sync_buffer_mib", self.sync_buffer_mib)? * GIB / 1024.0,
        }))
    }
}
