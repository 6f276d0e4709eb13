//! A bare specification, with the field names of published measurements, made into a [`Spec`].

use serde::Deserialize;

use super::profile::{Profile, Profiles};
use super::spec::{Lora, Model, Rollout, Spec};
use super::words;
use crate::core::units::GIB;

/// A job in the fields that tables of measurements have. Fields that are not named here are ignored;
/// every field may be missing or null where a default is stated.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
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
    /// Data parallel size; 1 by default.
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

/// Largest number that is taken for a count.
const ABSURD: f64 = 1e13;

fn positive(field: &str, value: Option<f64>) -> Result<f64, Unknown> {
    match value {
        None => Err(Unknown::new(field, "is needed and missing")),
        Some(x) if x.is_finite() && x > 0.0 && x < ABSURD => Ok(x),
        Some(x) => Err(Unknown::new(field, format!("{x} is no size"))),
    }
}

fn or(field: &str, value: Option<f64>, default: f64) -> Result<f64, Unknown> {
    value.map_or(Ok(default), |x| positive(field, Some(x)))
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
        let row = serde_json::from_value(fields.into()).map_err(bad)?;
        Ok((row, profile))
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
        let data_parallel = or("dp", self.dp, 1.0)?;
        let tensor_parallel = or("tp", self.tp, 1.0)?;
        let pipeline_parallel = or("pp", self.pp, 1.0)?;
        let context_parallel = or("cp", self.cp, 1.0)?;
        let product = data_parallel * tensor_parallel * pipeline_parallel * context_parallel;
        let gpus = or("gpus", self.gpus, product)?;
        let rollout = self.rollout()?;
        // Weights are sharded over context parallel GPUs and, in a hybrid job, over all of them.
        let shard_group = if let Some(size) = self.shard_group {
            positive("shard_group", Some(size))?
        } else if rollout.is_some() && sharding.gathers() {
            gpus.max(data_parallel)
        } else {
            data_parallel
                * if sharding.gathers() {
                    context_parallel
                } else {
                    1.0
                }
        };
        let micro_batch = positive("micro_batch", self.micro_batch)?;
        let marks = [
            own.unwrap_or(""),
            if tensor_parallel > 1.0 { "tp" } else { "" },
            if micro_batch <= 1.0 { "one" } else { "" },
        ];
        Ok(Spec {
            task: words::task(self.task.as_deref())?,
            precision,
            optimizer: words::optimizer(self.optimizer.as_deref(), precision.moments)?,
            sharding,
            data_parallel: shard_group,
            tensor_parallel,
            pipeline_parallel,
            context_parallel,
            pipeline_chunks: or("vpp", self.vpp, 1.0)?,
            sequence_parallel: self.sp.unwrap_or(false),
            offloads_params,
            offloads_optimizer,
            offload_returns: rollout.is_some() && !stays,
            checkpointing: words::checkpointing(self.grad_checkpointing.as_deref())?,
            attention: words::attention(self.attention.as_deref())?,
            micro_batch,
            sequence: positive("seq_len", self.seq_len)?,
            accumulation: or("grad_accum", self.grad_accum, 1.0)?,
            lora,
            quantised: words::quantised(self.quant.as_deref())?,
            // Kernels that fuse the loss come with fused norms and MLPs (Hsu 2024).
            compiled: self.compile.unwrap_or(false) || self.loss_impl.as_deref() == Some("fused"),
            logit_bytes: profile.logit_bytes(self.loss_impl.as_deref().unwrap_or("other"), &marks),
            gpus,
            gpus_per_node: gpus.min(8.0),
            gpu_bytes: self
                .gpu_total_gib
                .map(|g| positive("gpu_total_gib", Some(g)))
                .transpose()?
                .map(|g| g * GIB),
            rollout,
            metric: words::metric(self.metric.as_deref()),
            fill: self.fill.map(|f| positive("fill", Some(f))).transpose()?,
            model,
        })
    }

    fn model(&self, profile: &Profile) -> Result<Model, Unknown> {
        let hidden = positive("hidden", self.hidden)?;
        let heads = positive("heads", self.heads)?;
        let mut model = Model {
            params: 0.0,
            layers: positive("layers", self.layers)?,
            hidden,
            heads,
            kv_heads: or("kv_heads", self.kv_heads, heads)?,
            head_dim: or("head_dim", self.head_dim, hidden / heads)?,
            ffn: positive("ffn", self.ffn)?,
            vocab: positive("vocab", self.vocab)?,
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
        if self.params_b.is_none() && self.experts.is_some_and(|n| n > 0.0) {
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
        if profile.unties && model.tied {
            model.tied = false;
            model.params += model.vocab * hidden;
        }
        Ok(model)
    }

    fn lora(&self, model: &Model) -> Result<Option<Lora>, Unknown> {
        let rank = match self.lora_r {
            None => return Ok(None),
            Some(0.0) => return Ok(None),
            rank => positive("lora_r", rank)?,
        };
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
        Ok(Some(Lora {
            rank,
            widths,
            mlp: targets.contains("mlp") || targets.contains("all"),
            embeddings,
        }))
    }

    fn rollout(&self) -> Result<Option<Rollout>, Unknown> {
        let Some(share) = self.engine_share else {
            return Ok(None);
        };
        let context = self.max_prompt.unwrap_or(0.0) + self.max_response.unwrap_or(0.0);
        let tokens =
            positive("micro_batch", self.micro_batch)? * positive("seq_len", self.seq_len)?;
        Ok(Some(Rollout {
            memory_fraction: positive("engine_share", Some(share))?,
            tensor_parallel: or("rollout_tp", self.rollout_tp, 1.0)?,
            sleeps: self.engine_sleeps.unwrap_or(true),
            cuda_graphs: self.cuda_graphs.unwrap_or(false),
            logprob_tokens: or("logprob_tokens", self.logprob_tokens, tokens)?,
            ref_tokens: match self.ref_tokens {
                Some(0.0) => 0.0,
                given => or("ref_tokens", given, tokens)?,
            },
            ref_weight: 2.0,
            context,
            batched_tokens: or("engine_tokens", self.engine_tokens, 8192.0)?,
            sequences: or("engine_sequences", self.engine_sequences, 256.0)?,
            sync_buffer: self.sync_buffer_mib.unwrap_or(0.0).max(0.0) * GIB / 1024.0,
        }))
    }
}
