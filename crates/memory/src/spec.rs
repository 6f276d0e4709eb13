//! What an estimate needs to know of a training job. Counts are `f64` because they only meet
//! arithmetic here; bytes, where they are meant, are `f64` too and named so.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::loss::Loss;
use super::phase::Phase;

/// Dimensions of a decoder-only transformer (or one that is counted as such).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// Parameters in all, embeddings included.
    pub params: f64,
    /// Layers.
    pub layers: f64,
    /// Width.
    pub hidden: f64,
    /// Attention heads.
    pub heads: f64,
    /// Key and value heads.
    pub kv_heads: f64,
    /// Width of one head.
    pub head_dim: f64,
    /// Width of the MLP.
    pub ffn: f64,
    /// Rows of the embedding.
    pub vocab: f64,
    /// Three matrices in the MLP (SwiGLU) instead of two.
    pub gated: bool,
    /// One matrix for embedding and output projection.
    pub tied: bool,
}

impl Model {
    /// Parameters of embedding and output projection.
    pub fn embedding_params(&self) -> f64 {
        let copies = if self.tied { 1.0 } else { 2.0 };
        (copies * self.vocab * self.hidden).min(self.params)
    }

    /// Parameters of one layer: what the embeddings leave, in equal parts.
    pub fn layer_params(&self) -> f64 {
        (self.params - self.embedding_params()) / self.layers.max(1.0)
    }

    /// Parameters that the dimensions add up to: attention, MLP and norms of each layer, embeddings.
    /// Biases are left out (a thousandth).
    pub fn counted_params(&self) -> f64 {
        let (h, d) = (self.hidden, self.head_dim);
        let attention = 2.0 * h * d * (self.heads + self.kv_heads);
        let matrices = if self.gated { 3.0 } else { 2.0 };
        let copies = if self.tied { 1.0 } else { 2.0 };
        self.layers * (attention + matrices * h * self.ffn + 2.0 * h) + copies * self.vocab * h
    }
}

/// Bytes per parameter of what stays on the GPU between steps, and of what is computed with.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Precision {
    /// A weight at rest.
    pub weight: f64,
    /// A gradient.
    pub gradient: f64,
    /// Both of Adam's moments.
    pub moments: f64,
    /// A master copy beside the weight.
    pub master: f64,
    /// A number in the computation.
    pub compute: f64,
    /// A copy of the weights in the computation's format is kept during a step (autocast).
    pub cast_copy: bool,
    /// Weight, gradient, moments and master copy of an adapter's parameter, together.
    pub adapter: f64,
}

/// How states are spread over data parallel GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharding {
    /// One process, or copies that know nothing of each other.
    None,
    /// Whole copies with gradients summed (`DistributedDataParallel`).
    Ddp,
    /// One process that drives several GPUs (`nn.DataParallel`).
    DataParallel,
    /// Nothing is, under `DeepSpeed`.
    Zero0,
    /// Optimizer states are sharded.
    Zero1,
    /// Optimizer states and gradients.
    Zero2,
    /// Everything, gathered layer by layer (`DeepSpeed`).
    Zero3,
    /// Everything, gathered layer by layer (`FSDP`).
    Fsdp,
    /// The same parameter by parameter (`fully_shard`, FSDP2).
    Fsdp2,
    /// Weights stay whole between forward and backward (`SHARD_GRAD_OP`).
    FsdpGradOp,
}

impl Sharding {
    /// PyTorch's FSDP, of any kind.
    pub fn is_fsdp(self) -> bool {
        matches!(self, Self::Fsdp | Self::Fsdp2 | Self::FsdpGradOp)
    }

    /// `DeepSpeed`, of any stage.
    pub fn is_zero(self) -> bool {
        matches!(self, Self::Zero0 | Self::Zero1 | Self::Zero2 | Self::Zero3)
    }

    /// Weights are gathered for the computation.
    pub fn gathers(self) -> bool {
        self == Self::Zero3 || self.is_fsdp()
    }
}

/// Which activations wait for the backward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Checkpointing {
    /// All.
    None,
    /// Those of chosen operations.
    Selective,
    /// The input of each layer.
    Full,
    /// The input of each layer, in host memory.
    Offload,
}

/// How the attention scores are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attention {
    /// In tiles, never whole.
    Flash,
    /// PyTorch's `scaled_dot_product_attention`.
    Sdpa,
    /// Whole score matrices.
    Eager,
}

/// The optimizer, as far as memory goes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Optimizer {
    /// Moments relative to two numbers of the format of `Precision::moments` (1 for Adam, 0.25 for 8-bit Adam
    /// in fp32, 0 for none).
    pub moments: f64,
    /// Temporary bytes per byte of trainable weight during the step.
    pub temporary: f64,
    /// The step of a layer follows its backward, so that gradients never all exist.
    pub in_backward: bool,
    /// Moments live in host memory that the driver pages in.
    pub paged: bool,
}

/// A low-rank adapter on a frozen base.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lora {
    /// Rank.
    pub rank: f64,
    /// Sum over the adapted matrices of a layer of (inputs + outputs).
    pub widths: f64,
    /// The MLP is adapted.
    pub mlp: bool,
    /// Embedding and output projection are trained in full.
    pub embeddings: bool,
}

/// The frozen base of an adapter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Quantised {
    /// Bytes per parameter of the layers.
    pub bytes: f64,
    /// Inputs of its matrix products are kept for the backward pass (bitsandbytes, `MatMul4Bit`).
    pub keeps_inputs: bool,
    /// What is not quantised is cast to fp32 for training (PEFT, `prepare_model_for_kbit_training`, which leaves
    /// GPTQ models as they are).
    pub casts_rest: bool,
}

/// A rollout engine that shares the GPUs with the trainer.
#[derive(Debug, Clone, PartialEq)]
pub struct Rollout {
    /// Share of the GPU that the engine may take.
    pub memory_fraction: f64,
    /// GPUs over which one engine spreads the model.
    pub tensor_parallel: f64,
    /// It gives weights and cache back while the trainer computes.
    pub sleeps: bool,
    /// It keeps CUDA graphs.
    pub cuda_graphs: bool,
    /// Tokens of one forward pass for old log-probabilities, on one GPU.
    pub logprob_tokens: f64,
    /// Tokens of one forward pass of the reference policy, on one GPU; 0 without one.
    pub ref_tokens: f64,
    /// What the loss of old log-probabilities keeps of the logits.
    pub logprob_loss: Loss,
    /// The same of the reference policy's.
    pub ref_loss: Loss,
    /// Bytes per parameter of the reference policy at rest.
    pub ref_weight: f64,
    /// Longest sequence that the engine plans for, tokens.
    pub context: f64,
    /// Tokens of one forward pass of the engine.
    pub batched_tokens: f64,
    /// Sequences that the engine samples from at a time.
    pub sequences: f64,
    /// Bytes of the buffer through which new weights go to the engine.
    pub sync_buffer: f64,
    /// The critic that is trained on the same GPUs, as a job of its own.
    pub critic: Option<Box<Spec>>,
}

/// What the job does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Trains.
    Train,
    /// Generates with plain PyTorch.
    Infer,
    /// Serves with an engine that takes its share of the GPU.
    Serve,
}

/// What figure of memory is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Held by live tensors (`torch.cuda.max_memory_allocated`).
    Allocated,
    /// Held by PyTorch's allocator (`torch.cuda.max_memory_reserved`).
    Reserved,
    /// Used on the device, context and communication included, as the GPU's driver counts.
    #[default]
    Device,
}

/// A training job.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    /// The model.
    pub model: Model,
    /// What it does.
    pub task: Task,
    /// Formats.
    pub precision: Precision,
    /// The optimizer.
    pub optimizer: Optimizer,
    /// Sharding over data parallel GPUs.
    pub sharding: Sharding,
    /// Data parallel size (of the shard group, where it is smaller).
    pub data_parallel: f64,
    /// Tensor parallel size.
    pub tensor_parallel: f64,
    /// Pipeline parallel size.
    pub pipeline_parallel: f64,
    /// Context (or Ulysses) parallel size.
    pub context_parallel: f64,
    /// Pipeline chunks per GPU.
    pub pipeline_chunks: f64,
    /// Norms and dropout are split over the tensor parallel GPUs too.
    pub sequence_parallel: bool,
    /// Weights (and gradients) wait in host memory.
    pub offloads_params: bool,
    /// Moments and master copies wait in host memory.
    pub offloads_optimizer: bool,
    /// Offloaded states are fetched for the step and the computation (verl's way) instead of being used
    /// where they lie (`FSDP`'s and `ZeRO`'s way).
    pub offload_returns: bool,
    /// Activations.
    pub checkpointing: Checkpointing,
    /// Attention.
    pub attention: Attention,
    /// Sequences per forward pass on one GPU.
    pub micro_batch: f64,
    /// Tokens per sequence.
    pub sequence: f64,
    /// Forward passes per optimizer step.
    pub accumulation: f64,
    /// Bytes per number of gradients that micro batches but the last of a step keep whole on each GPU; 0 where each of
    /// them reduces its own.
    pub no_sync_bytes: f64,
    /// Bytes of the buffers through which gradients are reduced, where they are known.
    pub bucket_bytes: Option<f64>,
    /// The adapter, where the base is frozen.
    pub lora: Option<Lora>,
    /// The format of the frozen base.
    pub quantised: Option<Quantised>,
    /// A frozen copy of the model is held beside it, sharded as it is.
    pub reference: bool,
    /// `torch.compile`.
    pub compiled: bool,
    /// What the loss keeps of the logits; the profile's, by its name.
    pub loss: Loss,
    /// GPUs of the job.
    pub gpus: f64,
    /// GPUs of one node.
    pub gpus_per_node: f64,
    /// Capacity of one GPU in bytes.
    pub gpu_bytes: Option<f64>,
    /// The rollout engine, in reinforcement learning.
    pub rollout: Option<Rollout>,
    /// Which figure is meant.
    pub metric: Metric,
    /// Tokens that fill a micro batch over those that its limits allow, where it is known.
    pub fill: Option<f64>,
}

impl Spec {
    /// Tokens of one forward and backward on one GPU.
    pub fn tokens(&self) -> f64 {
        self.micro_batch * self.sequence / self.context_parallel
    }

    /// Communicators of NCCL beside the one over all GPUs: one of each kind of model parallelism, and the one over which
    /// trainer and rollout engine share weights.
    pub fn further_communicators(&self) -> u8 {
        let groups = [
            self.tensor_parallel > 1.0,
            self.pipeline_parallel > 1.0,
            self.context_parallel > 1.0,
            self.rollout.is_some(),
        ];
        groups.map(u8::from).iter().sum()
    }

    /// The loss of a phase: log-probabilities name their own.
    pub fn loss_of(&self, phase: Phase) -> &Loss {
        match (phase, &self.rollout) {
            (Phase::OldLogprob, Some(rollout)) => &rollout.logprob_loss,
            (Phase::RefLogprob, Some(rollout)) => &rollout.ref_loss,
            (Phase::Critic, Some(rollout)) => {
                rollout.critic.as_ref().map_or(&self.loss, |c| &c.loss)
            }
            _ => &self.loss,
        }
    }
}
