//! Whose memory it is, by the frames that asked for it.
//!
//! Sources: PyTorch 2.x `optim/`, `nn/functional.py`, `autograd/`, `distributed/fsdp/`, `csrc/autograd/engine.cpp`; transformers 4.x `loss/`;
//! TRL `trainer/utils.py` (`selective_log_softmax`); verl 0.4 to 0.9 `utils/torch_functional.py`; Megatron-LM `core/`; DeepSpeed `runtime/`;
//! vLLM 0.4 to 0.13 `v1/worker/`, SGLang 0.2 to 0.5 `srt/mem_cache/memory_pool.py`.

use oomctl_base::table;
use schemars::JsonSchema;
use serde::de::value::{Error as ValueError, StrDeserializer};
use serde::{Deserialize, Serialize};

/// What memory of a GPU is for.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Owner")]
pub enum MemoryOwner {
    /// States of the optimizer, and what its step needs meanwhile.
    Optimizer,
    /// Logits, the loss, and what is computed from them.
    Logits,
    /// The rollout engine's cache of keys and values.
    KvCache,
    /// Weights, and what gathers them.
    Weights,
    /// Gradients that are kept.
    Gradients,
    /// What the backward pass needs meanwhile.
    Backward,
    /// What the forward pass keeps for it, and needs itself.
    Activations,
    /// Its frames tell nothing that is known here.
    Other,
    /// It has no frames: it was made before they were recorded, or in a thread without them.
    Unnamed,
}

impl MemoryOwner {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Optimizer => "optimizer",
            Self::Logits => "logits and loss",
            Self::KvCache => "KV cache",
            Self::Weights => "weights",
            Self::Gradients => "gradients",
            Self::Backward => "backward",
            Self::Activations => "activations",
            Self::Other => "other",
            Self::Unnamed => "without frames",
        }
    }
}

/// Frames of an owner, in the order in which they are asked for one frame: a part of the file's path, and one of the function's
/// name; an empty one is any.
const ROWS: [[&str; 3]; 37] = table(
    "
    optimizer | torch/optim/ |
    optimizer | bitsandbytes/optim/ |
    optimizer | apex/optimizers/ |
    optimizer | optimizer/distrib_optimizer.py |
    optimizer | ops/adam/ |
    optimizer |  | initialize_optimizer_states
    optimizer |  | _create_fp16_partitions
    logits |  | cross_entropy
    logits | transformers/loss/ |
    logits |  | logprobs_from_logits
    logits |  | entropy_from_logits
    logits |  | selective_log_softmax
    logits |  | log_softmax
    logits |  | logsumexp
    logits |  | compute_logits
    logits |  | LogSoftmaxBackward
    logits |  | NllLossBackward
    kv_cache |  | _allocate_kv_cache
    kv_cache |  | initialize_kv_cache
    kv_cache | worker/cache_engine.py |
    kv_cache | mem_cache/memory_pool.py |
    gradients |  | AccumulateGrad
    weights | fsdp/_fully_shard/ |
    weights | fsdp/_flat_param.py |
    weights | fsdp/flat_param.py |
    weights | zero/partition_parameters.py |
    weights | nn/modules/module.py | _apply
    weights | nn/modules/module.py | convert
    weights |  | from_pretrained
    weights |  | load_weights
    weights |  | load_state_dict
    weights |  | create_weights
    activations | nn/modules/module.py | _call_impl
    activations | utils/checkpoint.py |
    backward |  | torch::autograd::Engine
    backward | autograd/graph.py | _engine_run_backward
    backward | torch/autograd/ | backward
    ",
);

/// The owner that one frame tells.
pub(super) fn of_frame(file: &str, function: &str) -> Option<MemoryOwner> {
    let tells = |row: &&[&str; 3]| file.contains(row[1]) && function.contains(row[2]);
    let [owner, ..] = ROWS.iter().find(tells)?;
    MemoryOwner::deserialize(StrDeserializer::<ValueError>::new(owner)).ok()
}
