//! The named parts of an estimate, and where their formulas come from.

use serde::Serialize;

/// What an amount of memory depends on, and so which of the hidden factors moves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TermKind {
    /// Weights, gradients, optimizer states: counted from dimensions.
    States,
    /// Activations and buffers that live for a part of a step.
    Activations,
    /// Logits and their copies.
    Logits,
    /// The rollout engine.
    Engine,
    /// Context, communication, constants: not counted from dimensions.
    Outside,
}

/// How many kinds there are.
pub const KINDS: usize = 5;

/// A named amount of memory on one GPU.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Term {
    /// Name, one of [`TERMS`].
    pub name: &'static str,
    /// What moves it.
    pub kind: TermKind,
    /// Amount in bytes.
    pub bytes: f64,
}

/// Formula and source of a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct About {
    /// Name of the term.
    pub name: &'static str,
    /// Formula in words.
    pub formula: &'static str,
    /// Where it comes from.
    pub source: &'static str,
}

const fn about(name: &'static str, formula: &'static str, source: &'static str) -> About {
    About {
        name,
        formula,
        source,
    }
}

/// Name of the memory that is free at the end of the backward pass, but in pieces.
pub const PIECES: &str = "pieces between gradients";

/// Name of the memory that is free between blocks in use.
pub const FRAGMENTS: &str = "fragments";

/// Every term there is.
pub const TERMS: &[About] = &[
    about(
        "weights",
        "parameters x bytes / shards",
        "Rajbhandari 2019 (ZeRO), section 3; PyTorch FSDP",
    ),
    about(
        "reference model",
        "parameters x bytes / shards, of a frozen copy",
        "TRL 1.9.0 trainer/dpo_trainer.py, grpo_trainer.py",
    ),
    about(
        "gradients",
        "trainable parameters x bytes / shards; whole while micro batches accumulate under no_sync",
        "Rajbhandari 2019 (ZeRO), section 3; PyTorch FSDP no_sync",
    ),
    about(
        "optimizer",
        "trainable parameters x (moments + master copy) / shards",
        "Rajbhandari 2019 (ZeRO), section 3; Megatron-LM theoretical_memory_usage.py",
    ),
    about(
        "adapter",
        "rank x (inputs + outputs of each adapted matrix) x bytes of weight, gradient, moments",
        "Hu 2021 (LoRA), section 4; PEFT",
    ),
    about(
        "cast copy",
        "parameters x 2: autocast keeps the cast weights during a step",
        "PyTorch torch.amp, autocast cache",
    ),
    about(
        "gathered weight",
        "parameters of the largest weight x bytes as it is stored, and in 16 bits",
        "PyTorch DTensor.full_tensor in the weight sync",
    ),
    about(
        "gathered layers",
        "layers gathered at once x parameters of a layer x bytes of the computation",
        "PyTorch FSDP, forward and backward prefetch",
    ),
    about(
        "gathered embeddings",
        "vocabulary x hidden x bytes of the computation",
        "PyTorch FSDP, root module",
    ),
    about(
        "gathered gradients",
        "parameters of a layer x (bytes of the computation + bytes of the reduction)",
        "PyTorch FSDP, reduce-scatter",
    ),
    about(
        "communication buffers",
        "DDP buckets, DeepSpeed reduce_bucket_size and allgather_bucket_size",
        "PyTorch DDP; DeepSpeed configuration",
    ),
    about(
        "activations",
        "tokens x layers x (norms + attention + MLP)",
        "Korthikanti 2022, section 4; Bekman, ml-engineering, activation memory",
    ),
    about(
        "checkpoints",
        "tokens x layers x 2 x hidden",
        "Chen 2016; Korthikanti 2022, section 5",
    ),
    about(
        "working set",
        "activations of the layer that is recomputed, and their gradients",
        "Chen 2016",
    ),
    about(
        "dequantised matrix",
        "largest matrix of a layer x bytes of the computation",
        "bitsandbytes MatMul4Bit",
    ),
    about(
        "logits",
        "tokens x vocabulary x bytes of all copies alive",
        "Hsu 2024 (Liger), section 3",
    ),
    about(
        "weights for reuse",
        "parameters, at most 10^9, x 2: gathered until the backward pass",
        "DeepSpeed stage3_max_reuse_distance, stage3_max_live_parameters",
    ),
    about(
        "gradients in fp32",
        "trained parameters of this GPU x 4, in stage 3 of at most 10^9 at a time",
        "DeepSpeed 0.19 stage_1_and_2.py, step; stage3.py, _prepare_fp32_grad_for_sub_group",
    ),
    about(
        "optimizer temporaries",
        "trainable bytes x share that the foreach implementation copies",
        "PyTorch torch.optim foreach",
    ),
    about(
        "rollout engine",
        "share of the GPU",
        "vLLM, share of the GPU",
    ),
    about(
        "sleeping engine",
        "what the engine keeps asleep",
        "vLLM sleep mode, cumem.py",
    ),
    about(
        "engine weights",
        "parameters x 2 / tensor parallel size of the engine",
        "vLLM",
    ),
    about(
        "sync buffers",
        "2 x the buffer through which new weights go to the engine",
        "bucketed_weight_transfer.py of the stack; its copy on the other side",
    ),
    about(
        "reference policy",
        "parameters x bytes / shards, gathered layer by layer",
        "PyTorch FSDP with CPU offload",
    ),
    about(
        "KV cache",
        "tokens x layers x 2 x key and value heads x head width x 2",
        "Kwon 2023 (PagedAttention), section 2",
    ),
    about(
        "whole copies",
        "parameters x bytes: weights that pass through one GPU whole at load or save",
        "PyTorch FSDP FULL_STATE_DICT",
    ),
    about(
        "replica outputs",
        "outputs of all replicas gathered on GPU 0",
        "PyTorch nn.DataParallel",
    ),
    about(
        "context",
        "CUDA context and loaded kernels",
        "Bekman, ml-engineering, preloaded CUDA kernels",
    ),
    about(
        "communication",
        "NCCL's buffers after the first collective",
        "Bekman, ml-engineering, torch.distributed memory",
    ),
    about(
        "allocator cache",
        "share of what moves during a step that the allocator keeps for reuse, at most what is free",
        "PyTorch CUDACachingAllocator; measured, per stack",
    ),
    about(
        FRAGMENTS,
        "share of what moves during a step that lies between blocks in use",
        "PyTorch CUDACachingAllocator; measured, per stack",
    ),
    about(
        PIECES,
        "2 x gathered layers + 0.15 x what was kept: free, but too small for the gradient of the embeddings",
        "PyTorch CUDACachingAllocator, release_cached_blocks",
    ),
    about(
        "constant",
        "small tensors that no formula names",
        "measured, per stack",
    ),
];
