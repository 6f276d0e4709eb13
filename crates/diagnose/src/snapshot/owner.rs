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
pub enum Owner {
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

impl Owner {
    /// In words.
    #[must_use]
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
struct Row {
    owner: Owner,
    file: &'static str,
    function: &'static str,
}

const fn row(owner: Owner, file: &'static str, function: &'static str) -> Row {
    Row {
        owner,
        file,
        function,
    }
}

/// In the order in which they are asked for one frame.
const ROWS: &[Row] = &[
    row(Owner::Optimizer, "torch/optim/", ""),
    row(Owner::Optimizer, "bitsandbytes/optim/", ""),
    row(Owner::Optimizer, "apex/optimizers/", ""),
    row(Owner::Optimizer, "optimizer/distrib_optimizer.py", ""),
    row(Owner::Optimizer, "ops/adam/", ""),
    row(Owner::Optimizer, "", "initialize_optimizer_states"),
    row(Owner::Optimizer, "", "_create_fp16_partitions"),
    row(Owner::Logits, "", "cross_entropy"),
    row(Owner::Logits, "transformers/loss/", ""),
    row(Owner::Logits, "", "logprobs_from_logits"),
    row(Owner::Logits, "", "entropy_from_logits"),
    row(Owner::Logits, "", "selective_log_softmax"),
    row(Owner::Logits, "", "log_softmax"),
    row(Owner::Logits, "", "logsumexp"),
    row(Owner::Logits, "", "compute_logits"),
    row(Owner::Logits, "", "LogSoftmaxBackward"),
    row(Owner::Logits, "", "NllLossBackward"),
    row(Owner::KvCache, "", "_allocate_kv_cache"),
    row(Owner::KvCache, "", "initialize_kv_cache"),
    row(Owner::KvCache, "worker/cache_engine.py", ""),
    row(Owner::KvCache, "mem_cache/memory_pool.py", ""),
    row(Owner::Gradients, "", "AccumulateGrad"),
    row(Owner::Weights, "fsdp/_fully_shard/", ""),
    row(Owner::Weights, "fsdp/_flat_param.py", ""),
    row(Owner::Weights, "fsdp/flat_param.py", ""),
    row(Owner::Weights, "zero/partition_parameters.py", ""),
    row(Owner::Weights, "nn/modules/module.py", "_apply"),
    row(Owner::Weights, "nn/modules/module.py", "convert"),
    row(Owner::Weights, "", "from_pretrained"),
    row(Owner::Weights, "", "load_weights"),
    row(Owner::Weights, "", "load_state_dict"),
    row(Owner::Weights, "", "create_weights"),
    row(Owner::Activations, "nn/modules/module.py", "_call_impl"),
    row(Owner::Activations, "utils/checkpoint.py", ""),
    row(Owner::Backward, "", "torch::autograd::Engine"),
    row(Owner::Backward, "autograd/graph.py", "_engine_run_backward"),
    row(Owner::Backward, "torch/autograd/", "backward"),
];

/// The owner that one frame tells.
pub(super) fn of_frame(file: &str, function: &str) -> Option<Owner> {
    let tells = |row: &&Row| file.contains(row.file) && function.contains(row.function);
    ROWS.iter().find(tells).map(|row| row.owner)
}
