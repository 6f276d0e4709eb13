//! Whose memory it is, by the frames that asked for it.
//!
//! Sources: PyTorch 2.x `optim/`, `nn/functional.py`, `autograd/`, `distributed/fsdp/`, `csrc/autograd/engine.cpp`; transformers 4.x `loss/`;
//! TRL `trainer/utils.py` (`selective_log_softmax`); verl 0.4 to 0.9 `utils/torch_functional.py`; Megatron-LM `core/`; DeepSpeed `runtime/`;
//! vLLM 0.4 to 0.13 `v1/worker/`, SGLang 0.2 to 0.5 `srt/mem_cache/memory_pool.py`.

use schemars::JsonSchema;
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

/// Frames of an owner: a part of the file's path, and one of the function's name; an empty one is any.
struct OwnerRow {
    owner: MemoryOwner,
    file: &'static str,
    function: &'static str,
}

const fn row(owner: MemoryOwner, file: &'static str, function: &'static str) -> OwnerRow {
    OwnerRow {
        owner,
        file,
        function,
    }
}

/// In the order in which they are asked for one frame.
const ROWS: &[OwnerRow] = &[
    row(MemoryOwner::Optimizer, "torch/optim/", ""),
    row(MemoryOwner::Optimizer, "bitsandbytes/optim/", ""),
    row(MemoryOwner::Optimizer, "apex/optimizers/", ""),
    row(MemoryOwner::Optimizer, "optimizer/distrib_optimizer.py", ""),
    row(MemoryOwner::Optimizer, "ops/adam/", ""),
    row(MemoryOwner::Optimizer, "", "initialize_optimizer_states"),
    row(MemoryOwner::Optimizer, "", "_create_fp16_partitions"),
    row(MemoryOwner::Logits, "", "cross_entropy"),
    row(MemoryOwner::Logits, "transformers/loss/", ""),
    row(MemoryOwner::Logits, "", "logprobs_from_logits"),
    row(MemoryOwner::Logits, "", "entropy_from_logits"),
    row(MemoryOwner::Logits, "", "selective_log_softmax"),
    row(MemoryOwner::Logits, "", "log_softmax"),
    row(MemoryOwner::Logits, "", "logsumexp"),
    row(MemoryOwner::Logits, "", "compute_logits"),
    row(MemoryOwner::Logits, "", "LogSoftmaxBackward"),
    row(MemoryOwner::Logits, "", "NllLossBackward"),
    row(MemoryOwner::KvCache, "", "_allocate_kv_cache"),
    row(MemoryOwner::KvCache, "", "initialize_kv_cache"),
    row(MemoryOwner::KvCache, "worker/cache_engine.py", ""),
    row(MemoryOwner::KvCache, "mem_cache/memory_pool.py", ""),
    row(MemoryOwner::Gradients, "", "AccumulateGrad"),
    row(MemoryOwner::Weights, "fsdp/_fully_shard/", ""),
    row(MemoryOwner::Weights, "fsdp/_flat_param.py", ""),
    row(MemoryOwner::Weights, "fsdp/flat_param.py", ""),
    row(MemoryOwner::Weights, "zero/partition_parameters.py", ""),
    row(MemoryOwner::Weights, "nn/modules/module.py", "_apply"),
    row(MemoryOwner::Weights, "nn/modules/module.py", "convert"),
    row(MemoryOwner::Weights, "", "from_pretrained"),
    row(MemoryOwner::Weights, "", "load_weights"),
    row(MemoryOwner::Weights, "", "load_state_dict"),
    row(MemoryOwner::Weights, "", "create_weights"),
    row(
        MemoryOwner::Activations,
        "nn/modules/module.py",
        "_call_impl",
    ),
    row(MemoryOwner::Activations, "utils/checkpoint.py", ""),
    row(MemoryOwner::Backward, "", "torch::autograd::Engine"),
    row(
        MemoryOwner::Backward,
        "autograd/graph.py",
        "_engine_run_backward",
    ),
    row(MemoryOwner::Backward, "torch/autograd/", "backward"),
];

/// The owner that one frame tells.
pub(super) fn of_frame(file: &str, function: &str) -> Option<MemoryOwner> {
    let tells = |row: &&OwnerRow| file.contains(row.file) && function.contains(row.function);
    ROWS.iter().find(tells).map(|row| row.owner)
}
