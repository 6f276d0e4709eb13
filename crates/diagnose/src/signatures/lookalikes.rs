//! Lines that speak of memory or of failure and are neither: they must not start a ladder.

use super::row::{ADVICE, Role, Signature};

/// The program says that it goes on. The kind names what it handled: itself only, or every lack of memory.
const HANDLED: Signature = Signature {
    role: Role::Handled,
    pool: "whatever failed before it was survived, unless what follows shows otherwise",
    ..ADVICE
};

/// Weight of a success that anybody may have said.
pub(crate) const SAID: u8 = 1;

/// The run came to its end. With weight [`SAID`] it counts only where training went on in between.
const SUCCESS: Signature = Signature {
    role: Role::Success,
    pool: "none",
    ..ADVICE
};

pub(super) const TABLE: &[Signature] = &[
    Signature {
        id: "handled_recover",
        literals: &[
            "attempting to recover from OOM",
            "Skipping batch",
            "skipping batch",
            "kipping this batch",
        ],
        source: "fairseq trainer.py, 0.9 to 0.12; training loops that follow it",
        example: "2025-03-02 22:55:35 | WARNING | fairseq.trainer | attempting to recover from OOM in forward/backward pass",
        ..HANDLED
    },
    Signature {
        id: "handled_retry",
        literals: &[
            "aught OOM",
            "OOM detected",
            "etrying with",
            "rying batch size",
            "ry again with batch size",
            "educing batch size",
            "ecreasing batch size",
            "alling back to",
        ],
        pattern: Some(
            r"(?i)(?:caught oom|oom detected).*(?:retry|reduc|skip|halv|continu|smaller)|retrying with .*(?:batch|smaller|fewer)|batch size \d+ (?:failed|succeeded), trying batch size|(?:reducing|decreasing) batch size|out of memory.*falling back",
        ),
        source: "Lightning tuner, 1.0 to 2.x; accelerate find_executable_batch_size; user code",
        example: "Batch size 64 failed, trying batch size 32",
        ..HANDLED
    },
    Signature {
        id: "handled_autotune",
        literals: &[
            "Ignoring this choice",
            "autotuning and ignored",
            "ignoring this config",
        ],
        source: "PyTorch torch/_inductor/select_algorithm.py, 2.1 to 2.9",
        example: "E1210 22:26:07.784000 4711 torch/_inductor/select_algorithm.py:2691] [8/0] Ignoring this choice.",
        kind: "code_bug",
        ..HANDLED
    },
    Signature {
        id: "success_transformers",
        literals: &["'train_runtime':", "\"train_runtime\":", "train_runtime  "],
        source: "transformers trainer.py, 4.x",
        example: "{'train_runtime': 601.9, 'train_samples_per_second': 7.0, 'train_loss': 1.4, 'epoch': 1.0}",
        ..SUCCESS
    },
    Signature {
        id: "success_trainer",
        literals: &["Final validation metrics", "`Trainer.fit` stopped: `max_"],
        source: "verl trainer/ppo/ray_trainer.py, 0.1 to 0.9; Lightning 1.6 to 2.x",
        example: "(TaskRunner pid=4711) ('Final validation metrics: {'val-core/openai/gsm8k/acc/mean@1': 0.61}')",
        ..SUCCESS
    },
    Signature {
        id: "success_said",
        weight: SAID,
        literals: &["raining complete", "raining finished", "raining completed"],
        unless: Some(r"(?i)blew up|fail|error"),
        source: "common scripts; a job script's own `echo` says it after a crash as well",
        example: "Training complete, checkpoint written to /scratch/run/final",
        ..SUCCESS
    },
    Signature {
        id: "advice_reserved",
        literals: &[
            "f reserved but unallocated memory is large",
            "If reserved memory is >> allocated memory",
        ],
        pool: "none: printed with every OOM, even when the option is set",
        source: "PyTorch c10/cuda/CUDACachingAllocator.cpp, 1.11 to 2.9",
        example: "If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.",
        ..ADVICE
    },
    Signature {
        id: "advice_cudagraph",
        literals: &[
            "If out-of-memory error occurs during cudagraph capture",
            "consider decreasing `gpu_memory_utilization`",
        ],
        pool: "none",
        source: "vLLM worker/model_runner.py, 0.3 to 0.10",
        example: "INFO 06-30 13:53:19 [model_runner.py:1442] If out-of-memory error occurs during cudagraph capture, consider decreasing `gpu_memory_utilization` or switching to eager mode.",
        ..ADVICE
    },
    Signature {
        id: "memory_saver_retries",
        literals: &["(may not be an issue e.g. torch allocator will free cache"],
        pool: "device: the allocator frees its cache and asks again",
        source: "torch_memory_saver csrc/utils.h, 0.0.8 to 0.0.9",
        example: "[torch_memory_saver.cpp] cuMemCreate CUDA_ERROR_OUT_OF_MEMORY (may not be an issue e.g. torch allocator will free cache and retry)",
        ..ADVICE
    },
    Signature {
        id: "engine_preempts_request",
        literals: &[
            "preempted by PreemptionMode",
            "Preempting request",
            "KV cache pool is full. Retract requests",
        ],
        pool: "KV pool: the request is computed again, the run goes on",
        source: "vLLM core/scheduler.py, 0.4 to 0.10; SGLang srt/managers/scheduler.py, 0.2 to 0.5",
        example: "WARNING 08-20 10:18:39 scheduler.py:1141] Sequence group 12 is preempted by PreemptionMode.RECOMPUTE mode because there is not enough KV cache space.",
        ..ADVICE
    },
    Signature {
        id: "tf_not_a_failure",
        literals: &["The caller indicates that this is not a failure"],
        pool: "device, handled",
        source: "TensorFlow core/common_runtime/bfc_allocator.cc, 1.x to 2.x",
        example: "W tensorflow/core/common_runtime/bfc_allocator.cc:271] Allocator (GPU_0_bfc) ran out of memory trying to allocate 3.02GiB with freed_by_count=0. The caller indicates that this is not a failure, but may mean that there could be performance gains if more memory were available.",
        ..ADVICE
    },
    Signature {
        id: "deepspeed_cache_flushes",
        literals: &["pytorch allocator cache flushes since last step"],
        pool: "device: pressure, handled",
        source: "DeepSpeed runtime/zero/stage3.py, 0.7 to 0.17",
        example: "[2025-03-02 08:12:44,441] [WARNING] [stage3.py:2069:step] 3 pytorch allocator cache flushes since last step. this happens when there is high memory pressure and is detrimental to performance.",
        ..ADVICE
    },
    Signature {
        id: "slurm_at_some_point",
        literals: &["memory limit at some point"],
        pool: "host, page cache: a remark",
        source: "slurmstepd, 15.08 to 20.02",
        example: "slurmstepd: error: Exceeded step memory limit at some point. Step may have been partially swapped out to disk.",
        ..ADVICE
    },
    Signature {
        id: "xla_rematerialization",
        literals: &["Can't reduce memory use below"],
        pool: "none: an estimate",
        source: "XLA hlo_rematerialization.cc",
        example: "hlo_rematerialization.cc:3183] Can't reduce memory use below 10.64GiB (11428802214 bytes) by rematerialization; only reduced to 71.27GiB",
        ..ADVICE
    },
    Signature {
        id: "segments_not_supported",
        literals: &["expandable_segments not supported on this platform"],
        pool: "none",
        source: "PyTorch c10/cuda/CUDAAllocatorConfig.h, 2.1 to 2.9",
        example: "UserWarning: expandable_segments not supported on this platform (Triggered internally at CUDAAllocatorConfig.h:28.)",
        ..ADVICE
    },
    Signature {
        id: "wandb_retries",
        literals: &["entering retry loop"],
        source: "wandb 0.12 to 0.2x",
        example: "wandb: Network error (ConnectTimeout), entering retry loop.",
        kind: "network",
        ..HANDLED
    },
];
