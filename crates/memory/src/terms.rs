//! The named parts of an estimate, and where their formulas come from.

use oomctl_base::table;
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

/// Name of the memory that is free at the end of the backward pass, but in pieces.
pub const PIECES: &str = "pieces between gradients";

/// Name of the memory that is free between blocks in use.
pub const FRAGMENTS: &str = "fragments";

/// Every term there is: its name, its formula in words, and where that comes from.
pub const TERMS: [[&str; 3]; 35] = table(
    "
    weights | parameters x bytes / shards | Rajbhandari 2019 (ZeRO), section 3; PyTorch FSDP
    reference model | parameters x bytes / shards, of a frozen copy | TRL 1.9.0 trainer/dpo_trainer.py, grpo_trainer.py
    critic | weights and optimizer states of the critic that are not offloaded | engine_workers.py of the stack
    gradients | trainable parameters x bytes / shards; whole while micro batches accumulate under no_sync | Rajbhandari 2019 (ZeRO), section 3; PyTorch FSDP no_sync
    optimizer | trainable parameters x (moments + master copy) / shards | Rajbhandari 2019 (ZeRO), section 3; Megatron-LM theoretical_memory_usage.py
    adapter | rank x (inputs + outputs of each adapted matrix) x bytes of weight, gradient, moments | Hu 2021 (LoRA), section 4; PEFT
    cast copy | parameters x 2: autocast keeps the cast weights during a step | PyTorch torch.amp, autocast cache
    gathered weight | parameters of the largest weight x bytes as it is stored, and in 16 bits | PyTorch DTensor.full_tensor in the weight sync
    gathered layers | layers gathered at once x parameters of a layer x bytes of the computation | PyTorch FSDP, forward and backward prefetch
    weights for reuse | parameters, at most 10^9, x 2: gathered until the backward pass | DeepSpeed stage3_max_reuse_distance, stage3_max_live_parameters
    gathered embeddings | vocabulary x hidden x bytes of the computation | PyTorch FSDP, root module
    gathered gradients | parameters of a layer x (bytes of the computation + bytes of the reduction) | PyTorch FSDP, reduce-scatter
    communication buffers | DDP buckets, DeepSpeed reduce_bucket_size and allgather_bucket_size | PyTorch DDP; DeepSpeed configuration
    activations | tokens x layers x (norms + attention + MLP) | Korthikanti 2022, section 4; Bekman, ml-engineering, activation memory
    checkpoints | tokens x layers x 2 x hidden | Chen 2016; Korthikanti 2022, section 5
    working set | activations of the layer that is recomputed, and their gradients | Chen 2016
    attention scores | heads x tokens x length x bytes of all copies alive, in one layer of the forward pass | transformers modeling_llama.py
    dequantised matrix | largest matrix of a layer x bytes of the computation | bitsandbytes MatMul4Bit
    logits | tokens x vocabulary x bytes of all copies alive | Hsu 2024 (Liger), section 3
    optimizer temporaries | trainable bytes x share that the foreach implementation copies | PyTorch torch.optim foreach
    rollout engine | share of the GPU | vLLM, share of the GPU
    sleeping engine | what the engine keeps asleep | vLLM sleep mode, cumem.py
    engine weights | parameters x 2 / tensor parallel size of the engine | vLLM
    sync buffers | 2 x the buffer through which new weights go to the engine | bucketed_weight_transfer.py of the stack; its copy on the other side
    reference policy | parameters x bytes / shards, gathered layer by layer | PyTorch FSDP with CPU offload
    KV cache | tokens x layers x 2 x key and value heads x head width x 2 | Kwon 2023 (PagedAttention), section 2
    whole copies | parameters x bytes: weights that pass through one GPU whole at load or save | PyTorch FSDP FULL_STATE_DICT
    replica outputs | outputs of all replicas gathered on GPU 0 | PyTorch nn.DataParallel
    context | CUDA context and loaded kernels | Bekman, ml-engineering, preloaded CUDA kernels
    communication | NCCL's buffers after the first collective | Bekman, ml-engineering, torch.distributed memory
    allocator cache | share of what moves during a step that the allocator keeps for reuse, at most what is free | PyTorch CUDACachingAllocator; measured, per stack
    fragments | share of what moves during a step that lies between blocks in use | PyTorch CUDACachingAllocator; measured, per stack
    pieces between gradients | 2 x gathered layers + 0.15 x what was kept: free, but too small for the gradient of the embeddings | PyTorch CUDACachingAllocator, release_cached_blocks
    gradients in fp32 | trained parameters of this GPU x 4, in stage 3 of at most 10^9 at a time | DeepSpeed 0.19 stage_1_and_2.py, step; stage3.py, _prepare_fp32_grad_for_sub_group
    constant | small tensors that no formula names | measured, per stack
    ",
);
