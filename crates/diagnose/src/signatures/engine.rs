//! Inference engines: their own budget, not only the card. The first group wants a larger share.

use super::row::{CAUSE, Signature};
use crate::class::Tri;

const BUDGET: &str = "KV budget = share x total - weights - activations: wants a LARGER share, a shorter context or eager mode";
const STATIC_POOL: &str =
    "SGLang's static pool: wants a LARGER --mem-fraction-static or fewer tokens";

pub(super) const TABLE: &[Signature] = &[
    Signature {
        id: "vllm_no_cache_blocks",
        quotable: true,
        kind: "vllm_kv_cache",
        literals: &["No available memory for the cache blocks"],
        pool: BUDGET,
        source: "vLLM worker/worker.py and v1/core/kv_cache_utils.py, 0.2.5 to 0.13",
        example: "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.",
        ..CAUSE
    },
    Signature {
        id: "vllm_context_too_long",
        kind: "vllm_kv_cache",
        literals: &[
            "is larger than the maximum number of tokens that can be stored in KV cache",
            "max seq len (",
        ],
        pattern: Some(r"max seq len \(\d+\) is larger than the\s+maximum number of tokens"),
        pool: BUDGET,
        source: "vLLM worker/worker.py, 0.2.6 to 0.8",
        example: "ValueError: The model's max seq len (16384) is larger than the maximum number of tokens that can be stored in KV cache (9008). Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.",
        ..CAUSE
    },
    Signature {
        id: "vllm_one_request_too_large",
        kind: "vllm_kv_cache",
        literals: &["which is larger than the available KV cache memory"],
        pool: BUDGET,
        source: "vLLM v1/core/kv_cache_utils.py, 0.8 to 0.13",
        example: "ValueError: To serve at least one request with the models's max seq len (32768), (4.00 GiB KV cache is needed, which is larger than the available KV cache memory (2.31 GiB). Based on the available memory, the estimated maximum model length is 18912.",
        ..CAUSE
    },
    Signature {
        id: "vllm_negative_kv_memory",
        kind: "vllm_kv_cache",
        literals: &["Available KV cache memory: -"],
        any_level: true,
        pool: BUDGET,
        source: "vLLM v1/worker/gpu_worker.py, 0.9 to 0.13; an INFO line, the failure follows at once",
        example: "INFO 06-30 13:53:19 [gpu_worker.py:276] Available KV cache memory: -1.25 GiB",
        ..CAUSE
    },
    Signature {
        id: "vllm_startup_memory",
        kind: "vllm_startup_memory",
        literals: &["on startup is less than desired GPU memory utilization"],
        pool: "the card is already occupied: by another process, a zombie, or our own trainer",
        source: "vLLM v1/worker/gpu_worker.py, 0.9 to 0.13",
        example: "ValueError: Free memory on device cuda:1 (10.50/79.25 GiB) on startup is less than desired GPU memory utilization (0.9, 71.33 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
        ..CAUSE
    },
    Signature {
        id: "vllm_profiling_disturbed",
        kind: "vllm_startup_memory",
        literals: &["Error in memory profiling."],
        gpu: Some(Tri::Ambiguous),
        retry: Some(true),
        pool: "another process freed memory while the engine measured",
        source: "vLLM worker/worker.py, 0.3 to 0.13",
        example: "AssertionError: Error in memory profiling. Initial free memory 70.11 GiB, current free memory 72.00 GiB. This happens when other processes sharing the same container release GPU memory while vLLM is profiling during initialization.",
        ..CAUSE
    },
    Signature {
        id: "vllm_sampler_warmup",
        kind: "cuda_oom",
        literals: &["CUDA out of memory occurred when warming up sampler"],
        phase: Some("init"),
        pool: "device, logits of max_num_seqs requests: wants a SMALLER share or fewer sequences",
        source: "vLLM v1/worker/gpu_model_runner.py, 0.8 to 0.13",
        example: "RuntimeError: CUDA out of memory occurred when warming up sampler with 256 dummy requests. Please try lowering `max_num_seqs` or `gpu_memory_utilization` when initializing the engine.",
        ..CAUSE
    },
    Signature {
        id: "tgi_warmup",
        kind: "cuda_oom",
        literals: &["Not enough memory to handle "],
        pattern: Some(r"Not enough memory to handle \d+ (?:total|prefill) tokens"),
        phase: Some("init"),
        pool: "device, while the engine warms up: wants fewer tokens a batch",
        source: "text-generation-inference server/models/flash_causal_lm.py, 0.9 to 3.x",
        example: "RuntimeError: Not enough memory to handle 4096 prefill tokens. You need to decrease `--max-batch-prefill-tokens`",
        ..CAUSE
    },
    Signature {
        id: "memory_saver_oom",
        kind: "cuda_driver_oom",
        literals: &["[torch_memory_saver.cpp] "],
        pattern: Some(r"\[torch_memory_saver\.cpp\] \w+ error(?:: 2 \(|\s+result=2\b)"),
        any_level: true,
        phase: Some("wake_up"),
        pool: "device, mapped outside PyTorch's allocator when a sleeping engine wakes up",
        source: "torch_memory_saver csrc/utils.h, 0.0.5 to 0.0.9, below SGLang in verl and slime",
        example: "[torch_memory_saver.cpp] CUresult error: 2 (out of memory)  file=csrc/utils.h func=cu_mem_create line=187",
        ..CAUSE
    },
    Signature {
        id: "sglang_pool_too_small",
        kind: "sglang_memory",
        literals: &[
            "Not enough memory. Please try to increase --mem-fraction-static",
            "Not enough memory; increase --mem-fraction-static",
        ],
        pool: STATIC_POOL,
        source: "SGLang srt/model_executor/model_runner.py, 0.1 to 0.5",
        example: "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
        ..CAUSE
    },
    Signature {
        id: "sglang_one_request_too_large",
        kind: "sglang_memory",
        literals: &["No space left for only one request"],
        phase: Some("rollout"),
        pool: STATIC_POOL,
        source: "SGLang srt/managers/schedule_batch.py, 0.2 to 0.5",
        example: "AssertionError: No space left for only one request",
        ..CAUSE
    },
    Signature {
        id: "sglang_pass_oom",
        kind: "sglang_memory",
        literals: &[
            "Prefill out of memory. Try to lower your batch size",
            "Decode out of memory. Try to lower your batch size",
        ],
        phase: Some("rollout"),
        pool: STATIC_POOL,
        source: "SGLang srt/managers/schedule_batch.py, 0.3 to 0.5",
        example: "RuntimeError: Decode out of memory. Try to lower your batch size.",
        ..CAUSE
    },
    Signature {
        id: "sglang_request_slots",
        kind: "config",
        literals: &["alloc_req_slots runs out of memory"],
        phase: Some("rollout"),
        pool: "none: request slots, no bytes",
        source: "SGLang srt/managers/schedule_batch.py, 0.4 to 0.5",
        example: "RuntimeError: alloc_req_slots runs out of memory. Please set a smaller number for `--max-running-requests`.",
        ..CAUSE
    },
];
