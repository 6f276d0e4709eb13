//! What a bare specification means: the [`Spec`] of a [`MeasurementRow`].

use super::profile::Profile;
use super::row::{MeasurementRow, Unknown};
use super::sizes::{Parallelism, heads_agree, or, or_none, params_agree, size};
use super::spec::{Lora, Model, Quantised, Rollout, Spec, Task};
use super::words;
use oomctl_base::units::GIB;

impl MeasurementRow {
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
        let quantised = self.quantised(lora.is_none() && task == Task::Train)?;
        let split = Parallelism::of(self, &model)?;
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
        let usual = sharding.is_fsdp().then_some(profile.no_sync_bytes);
        let bucket_bytes = self.bucket_bytes.map(|b| or_none("bucket_bytes", Some(b)));
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
            no_sync_bytes: or_none("no_sync_bytes", self.no_sync_bytes.or(usual))?,
            bucket_bytes: bucket_bytes.transpose()?,
            lora,
            quantised,
            reference: self.reference.unwrap_or(false),
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

    /// The format of the base, which is frozen unless all of it is trained.
    fn quantised(&self, trains_all: bool) -> Result<Option<Quantised>, Unknown> {
        let quantised = words::quantised(self.quant.as_deref())?;
        match quantised.is_some() && trains_all {
            true => {
                let why = "a quantised base cannot be trained; lora_r says what is";
                Err(Unknown::new("quant", why))
            }
            false => Ok(quantised),
        }
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
            let why = "is required: what a token passes does not say how large all experts are";
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
            critic: self.critic(profile)?,
        }))
    }
}
