//! A bare specification, with the field names of published measurements, made into a [`Spec`].

use serde::Deserialize;

use super::profile::Profile;
use super::spec::{
    Attention, Checkpointing, Lora, Metric, Model, Optimizer, Precision, Quantised, Rollout,
    Sharding, Spec, Task,
};

const GIB: f64 = 1_073_741_824.0;

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
    /// GPUs of the job; the product of the parallel sizes by default.
    pub gpus: Option<f64>,
    /// Capacity of a GPU in GiB.
    pub gpu_total_gib: Option<f64>,
    /// `pure_bf16`, `fp32`, `amp`, `amp_apex`, `fsdp_mp`, `hf_bf16`, `hf_fp16`, `axo_bf16`, `ds_bf16`, `megatron`,
    /// `megatron_do`, `verl_bf16`, `verl_mp`.
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
    /// `none` (the default), `optimizer`, `param`, `param+optimizer`.
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
    pub gpu_memory_utilization: Option<f64>,
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
    fn new(field: &str, why: impl Into<String>) -> Self {
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

fn word<T: Copy>(
    field: &str,
    value: Option<&str>,
    default: T,
    words: &[(&str, T)],
) -> Result<T, Unknown> {
    let Some(text) = value else {
        return Ok(default);
    };
    let found = words.iter().find(|(name, _)| *name == text);
    found.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
        Unknown::new(
            field,
            format!("`{text}` is not one of {}", names.join(", ")),
        )
    })
}

impl Row {
    /// The job that the row describes, for a training stack.
    ///
    /// # Errors
    /// The first field that is missing without a default, absurd, or no word that is known.
    pub fn spec(&self, profile: &Profile) -> Result<Spec, Unknown> {
        let model = self.model()?;
        let lora = self.lora(&model)?;
        let offload = self.offload.as_deref().unwrap_or("none");
        let sharding = self.sharding()?;
        let data_parallel = or("dp", self.dp, 1.0)?;
        let tensor_parallel = or("tp", self.tp, 1.0)?;
        let pipeline_parallel = or("pp", self.pp, 1.0)?;
        let context_parallel = or("cp", self.cp, 1.0)?;
        let product = data_parallel * tensor_parallel * pipeline_parallel * context_parallel;
        let gpus = or("gpus", self.gpus, product)?;
        let known_offload = ["none", "optimizer", "param", "param+optimizer"];
        if !known_offload.contains(&offload) {
            return Err(Unknown::new(
                "offload",
                format!("`{offload}` is not one of {}", known_offload.join(", ")),
            ));
        }
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
        Ok(Spec {
            task: self.task()?,
            precision: self.precision()?,
            optimizer: self.optimizer()?,
            sharding,
            data_parallel: shard_group,
            tensor_parallel,
            pipeline_parallel,
            context_parallel,
            pipeline_chunks: or("vpp", self.vpp, 1.0)?,
            sequence_parallel: self.sp.unwrap_or(false),
            param_offload: offload.contains("param"),
            optimizer_offload: offload.contains("optimizer"),
            offload_returns: rollout.is_some(),
            checkpointing: self.checkpointing()?,
            attention: self.attention()?,
            micro_batch: positive("micro_batch", self.micro_batch)?,
            sequence: positive("seq_len", self.seq_len)?,
            accumulation: or("grad_accum", self.grad_accum, 1.0)?,
            lora,
            quantised: self.quantised()?,
            // Kernels that fuse the loss come with fused norms and MLPs (Hsu 2024).
            compiled: self.compile.unwrap_or(false) || self.loss_impl.as_deref() == Some("fused"),
            logit_bytes: profile.logit_bytes(self.loss_impl.as_deref().unwrap_or("other")),
            gpus,
            gpus_per_node: gpus.min(8.0),
            gpu_bytes: self
                .gpu_total_gib
                .map(|g| positive("gpu_total_gib", Some(g)))
                .transpose()?
                .map(|g| g * GIB),
            rollout,
            metric: self.metric(),
            fill: self.fill.map(|f| positive("fill", Some(f))).transpose()?,
            model,
        })
    }

    fn model(&self) -> Result<Model, Unknown> {
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
            gated: word(
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
        let apart = model.counted_params();
        model.params = or("params_b", self.params_b, apart / 1e9)? * 1e9;
        if self.tied.is_none() {
            // Which of both the parameters speak for.
            let shared = apart - model.vocab * model.hidden;
            model.tied = (model.params - shared).abs() < (model.params - apart).abs();
        }
        Ok(model)
    }

    fn task(&self) -> Result<Task, Unknown> {
        word(
            "task",
            self.task.as_deref(),
            Task::Train,
            &[
                ("sft", Task::Train),
                ("pretrain", Task::Train),
                ("grpo", Task::Train),
                ("ppo", Task::Train),
                ("dpo", Task::Train),
                ("infer", Task::Infer),
                ("serve", Task::Serve),
            ],
        )
    }

    fn precision(&self) -> Result<Precision, Unknown> {
        let bytes = |weight, gradient, moments, master, compute, cast_copy, adapter| Precision {
            weight,
            gradient,
            moments,
            master,
            compute,
            cast_copy,
            adapter,
        };
        let pure = bytes(2.0, 2.0, 4.0, 0.0, 2.0, false, 8.0);
        word(
            "precision",
            self.precision.as_deref(),
            pure,
            &[
                ("pure_bf16", pure),
                ("fp32", bytes(4.0, 4.0, 8.0, 0.0, 4.0, false, 16.0)),
                ("amp", bytes(4.0, 4.0, 8.0, 0.0, 2.0, true, 16.0)),
                ("amp_apex", bytes(2.0, 2.0, 8.0, 4.0, 2.0, false, 16.0)),
                ("fsdp_mp", bytes(4.0, 4.0, 8.0, 0.0, 2.0, false, 16.0)),
                ("verl_mp", bytes(4.0, 4.0, 8.0, 0.0, 2.0, false, 16.0)),
                ("verl_bf16", bytes(2.0, 2.0, 4.0, 0.0, 2.0, false, 8.0)),
                ("hf_bf16", bytes(2.0, 2.0, 8.0, 4.0, 2.0, false, 16.0)),
                ("hf_fp16", bytes(2.0, 2.0, 8.0, 4.0, 2.0, false, 16.0)),
                ("axo_bf16", bytes(2.0, 2.0, 4.0, 0.0, 2.0, false, 8.0)),
                ("ds_bf16", bytes(2.0, 2.0, 8.0, 4.0, 2.0, false, 16.0)),
                ("megatron", bytes(2.0, 4.0, 8.0, 4.0, 2.0, false, 18.0)),
                ("megatron_do", bytes(2.0, 4.0, 8.0, 4.0, 2.0, false, 18.0)),
            ],
        )
    }

    fn optimizer(&self) -> Result<Optimizer, Unknown> {
        let kind = |moments, temporary, in_backward, paged| Optimizer {
            moments,
            temporary,
            in_backward,
            paged,
        };
        let eight_bit = self.precision.as_deref().map_or(0.5, |p| {
            if p == "pure_bf16" || p.starts_with("axo") {
                0.5
            } else {
                0.25
            }
        });
        let adamw = kind(1.0, 1.0, false, false);
        word(
            "optimizer",
            self.optimizer.as_deref(),
            adamw,
            &[
                ("adamw", adamw),
                ("adamw_fused", kind(1.0, 0.0, false, false)),
                ("adamw8bit", kind(eight_bit, 0.0, false, false)),
                ("paged_adamw8bit", kind(eight_bit, 0.0, false, true)),
                ("adamw_in_bwd", kind(1.0, 0.0, true, false)),
                ("adafactor", kind(0.01, 0.5, false, false)),
                ("muon", kind(0.5, 0.5, false, false)),
                ("sgd", kind(0.0, 0.0, false, false)),
                ("none", kind(0.0, 0.0, false, false)),
            ],
        )
    }

    fn sharding(&self) -> Result<Sharding, Unknown> {
        word(
            "sharding",
            self.sharding.as_deref(),
            Sharding::None,
            &[
                ("none", Sharding::None),
                ("ddp", Sharding::Ddp),
                ("dp", Sharding::DataParallel),
                ("zero1", Sharding::Zero1),
                ("zero2", Sharding::Zero2),
                ("zero3", Sharding::Zero3),
                ("fsdp", Sharding::Fsdp),
                ("fsdp_grad_op", Sharding::FsdpGradOp),
            ],
        )
    }

    fn checkpointing(&self) -> Result<Checkpointing, Unknown> {
        word(
            "grad_checkpointing",
            self.grad_checkpointing.as_deref(),
            Checkpointing::None,
            &[
                ("none", Checkpointing::None),
                ("selective", Checkpointing::Selective),
                ("full", Checkpointing::Full),
                ("offload", Checkpointing::Offload),
            ],
        )
    }

    fn attention(&self) -> Result<Attention, Unknown> {
        word(
            "attention",
            self.attention.as_deref(),
            Attention::Flash,
            &[
                ("flash", Attention::Flash),
                ("sdpa", Attention::Sdpa),
                ("eager", Attention::Eager),
            ],
        )
    }

    /// 4-bit formats with their scales (Dettmers 2023, section 3: one fp32 scale in 64 numbers, or 0.127 bit
    /// with double quantisation), GPTQ with groups of 128, LLM.int8().
    fn quantised(&self) -> Result<Option<Quantised>, Unknown> {
        let format = |bytes, keeps_inputs| {
            Some(Quantised {
                bytes,
                keeps_inputs,
            })
        };
        word(
            "quant",
            self.quant.as_deref(),
            None,
            &[
                ("none", None),
                ("nf4", format(0.5625, true)),
                ("nf4-dq", format(0.516, true)),
                ("gptq4", format(0.53, false)),
                ("gptq8", format(1.03, false)),
                ("int8", format(1.01, true)),
            ],
        )
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
        let Some(share) = self.gpu_memory_utilization else {
            return Ok(None);
        };
        let context = self.max_prompt.unwrap_or(0.0) + self.max_response.unwrap_or(0.0);
        let tokens =
            positive("micro_batch", self.micro_batch)? * positive("seq_len", self.seq_len)?;
        Ok(Some(Rollout {
            memory_fraction: positive("gpu_memory_utilization", Some(share))?,
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
            batched_tokens: 8192.0,
        }))
    }

    fn metric(&self) -> Metric {
        match self.metric.as_deref() {
            Some("allocated" | "active") => Metric::Allocated,
            Some("reserved") => Metric::Reserved,
            _ => Metric::Device,
        }
    }
}
