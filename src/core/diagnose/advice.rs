//! What helps against a kind of failure and what makes it worse, in words.
//!
//! Rule: a remedy has a sign, and the pool decides it. What helps against one lack of memory can be
//! what causes another.

/// What is known about remedies of a kind.
pub(crate) struct Advice {
    pub kind: &'static str,
    pub helps: &'static [&'static str],
    pub worse: &'static [&'static str],
    /// Where this is from.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "for readers and tests of the table")
    )]
    pub source: &'static str,
}

const DEVICE_HELPS: &[&str] = &[
    "smaller micro batches, or a smaller token budget where batches are dynamic",
    "gradient checkpointing; offload of optimizer states and parameters",
    "shorter sequences; sharding over more GPUs",
];

/// One row a kind; a row with the id of a signature goes before its kind's.
pub(crate) const ADVICE: &[Advice] = &[
    Advice {
        kind: "cuda_oom",
        helps: DEVICE_HELPS,
        worse: &["a larger memory share for an inference engine on the same GPU"],
        source: "PyTorch docs, notes/cuda; verl docs, perf/perf_tuning",
    },
    Advice {
        kind: "torch_replica",
        helps: &[
            "DistributedDataParallel, one process a GPU: nothing is gathered on the first. It takes a script that is written for it",
            "output_device of DataParallel on a GPU with room; the loss inside forward(), so that scalars are gathered and not logits",
            "where somebody else holds memory of the first GPU: CUDA_VISIBLE_DEVICES without it",
            "then a smaller batch, shorter prompts, half precision",
        ],
        worse: &[
            "torchrun around a script that uses DataParallel: every process would use all GPUs",
            "more GPUs with a batch that grows with them: the first gathers the outputs of all",
        ],
        source: "PyTorch docs, nn.DataParallel and notes/cuda (use DistributedDataParallel instead)",
    },
    Advice {
        kind: "vllm_sampler_warmup",
        helps: &[
            "fewer concurrent sequences (max_num_seqs)",
            "a SMALLER memory share of the engine",
        ],
        worse: &["a larger memory share of the engine"],
        source: "vLLM v1/worker/gpu_model_runner.py, the message itself",
    },
    Advice {
        kind: "accelerate_no_batch_size",
        helps: &["offload, sharding or more GPUs: even a batch of 1 does not fit"],
        worse: &["smaller batches change nothing"],
        source: "accelerate utils/memory.py",
    },
    Advice {
        kind: "cuda_driver_oom",
        helps: &[
            "leave more of the GPU outside the framework's pool: a smaller memory share of the engine, fewer CUDA graphs",
            "a GPU that nobody else uses",
        ],
        worse: &["a larger memory share of the engine"],
        source: "CUDA driver API, CUDA_ERROR_OUT_OF_MEMORY; PyTorch docs, notes/cuda",
    },
    Advice {
        kind: "vllm_cumem_oom",
        helps: &[
            "a SMALLER memory share of the engine, or more tensor parallelism",
            "free the trainer's cache before the engine wakes up",
        ],
        worse: &["expandable_segments: it clashes with the engine's sleep mode"],
        source: "vLLM docs, features/sleep_mode; csrc/cumem_allocator.cpp",
    },
    Advice {
        kind: "hip_oom",
        helps: DEVICE_HELPS,
        worse: &["a larger memory share for an inference engine on the same GPU"],
        source: "PyTorch docs, notes/hip",
    },
    Advice {
        kind: "device_oom",
        helps: DEVICE_HELPS,
        worse: &[],
        source: "as for CUDA",
    },
    Advice {
        kind: "cublas_alloc",
        helps: &[
            "leave room outside the framework's pool: smaller batches, a smaller memory share of the engine",
        ],
        worse: &[],
        source: "cuBLAS docs, cublasStatus_t; CUBLAS_WORKSPACE_CONFIG",
    },
    Advice {
        kind: "cublas_not_initialized",
        helps: &[
            "first check token ids against the size of the vocabulary: an index outside it gives the same message",
            "then leave room outside the framework's pool",
        ],
        worse: &[],
        source: "cuBLAS docs, cublasStatus_t",
    },
    Advice {
        kind: "cudnn_alloc",
        helps: &["smaller batches; run with a mock convolution first to see the real message"],
        worse: &["cudnn.benchmark: it tries algorithms that need more workspace"],
        source: "cuDNN docs, cudnnStatus_t; PyTorch docs, backends",
    },
    Advice {
        kind: "nccl_oom",
        helps: &[
            "leave about 1 GiB outside the framework's pool: a smaller memory share of the engine, fewer channels (NCCL_MAX_NCHANNELS)",
        ],
        worse: &["more communicators and process groups"],
        source: "NCCL docs, environment variables",
    },
    Advice {
        kind: "bnb_oom",
        helps: &["smaller batches; an optimizer that is not paged on GPUs without managed memory"],
        worse: &[],
        source: "bitsandbytes docs, optimizers",
    },
    Advice {
        kind: "jax_oom",
        helps: &[
            "smaller batches, rematerialisation (jax.checkpoint), sharding",
            "XLA_PYTHON_CLIENT_MEM_FRACTION where another program shares the GPU",
        ],
        worse: &["two processes on one GPU with preallocation on"],
        source: "JAX docs, gpu_memory_allocation",
    },
    Advice {
        kind: "tf_oom",
        helps: &["smaller batches; memory growth where another program shares the GPU"],
        worse: &[],
        source: "TensorFlow guide, gpu",
    },
    Advice {
        kind: "vllm_kv_cache",
        helps: &[
            "a LARGER memory share of the engine (gpu_memory_utilization)",
            "a shorter context (max_model_len); more tensor parallelism; no CUDA graphs",
        ],
        worse: &["a smaller memory share of the engine"],
        source: "vLLM docs, configuration/conserving_memory; the message itself",
    },
    Advice {
        kind: "vllm_startup_memory",
        helps: &[
            "a GPU that nobody else uses: look for processes left over on the node",
            "a SMALLER memory share where the trainer on the same GPU is the other",
        ],
        worse: &["a larger memory share of the engine"],
        source: "vLLM v1/worker/gpu_worker.py",
    },
    Advice {
        kind: "sglang_memory",
        helps: &["a LARGER --mem-fraction-static, fewer running requests, shorter responses"],
        worse: &["a smaller --mem-fraction-static"],
        source: "SGLang docs, advanced_features/hyperparameter_tuning",
    },
    Advice {
        kind: "sglang_pass_oom",
        helps: &["a SMALLER --mem-fraction-static, smaller prefill chunks, fewer running requests"],
        worse: &["a larger --mem-fraction-static"],
        source: "SGLang docs, advanced_features/hyperparameter_tuning",
    },
    Advice {
        kind: "host_oom",
        helps: &[
            "more host memory for the job (--mem)",
            "fewer data loading workers and fewer GPUs a node; less offload to the host",
        ],
        worse: &[
            "offload of parameters or optimizer states to the host",
            "smaller GPU batches change nothing",
        ],
        source: "Slurm docs, cgroup.conf; Ray docs, ray-oom-prevention",
    },
    Advice {
        kind: "shm",
        helps: &["a larger /dev/shm (container option --shm-size), fewer data loading workers"],
        worse: &["more data loading workers"],
        source: "PyTorch docs, torch.utils.data; NCCL docs, troubleshooting",
    },
    Advice {
        kind: "node_failure",
        helps: &["submit again unchanged; exclude the node if it fails again"],
        worse: &[],
        source: "Slurm docs, job state codes",
    },
    Advice {
        kind: "time_limit",
        helps: &["a longer --time, or resume from the last checkpoint"],
        worse: &[],
        source: "Slurm docs, sbatch --time",
    },
    Advice {
        kind: "preempted",
        helps: &["submit again; resume from the last checkpoint"],
        worse: &[],
        source: "Slurm docs, preemption",
    },
    Advice {
        kind: "nccl_timeout",
        helps: &[
            "look at the rank that is missing from the collective: its own log holds the cause",
        ],
        worse: &["a longer timeout only delays the end where a rank has died"],
        source: "PyTorch docs, distributed; NCCL docs, troubleshooting",
    },
    Advice {
        kind: "hw_error",
        helps: &["another node; tell the administrators"],
        worse: &["submitting to the same node again"],
        source: "NVIDIA docs, XID errors",
    },
    Advice {
        kind: "network",
        helps: &[
            "submit again; on a cluster without internet fetch models first and set HF_HUB_OFFLINE=1, WANDB_MODE=offline",
        ],
        worse: &[],
        source: "huggingface_hub docs, environment variables; wandb docs",
    },
    Advice {
        kind: "disk",
        helps: &["free space or quota; put caches and checkpoints on another file system"],
        worse: &[],
        source: "errno(3): ENOSPC, EDQUOT, EIO",
    },
    Advice {
        kind: "config",
        helps: &["correct the setting that the message names; the job cannot succeed unchanged"],
        worse: &["smaller batches that break another rule"],
        source: "the message itself",
    },
    Advice {
        kind: "bus_error",
        helps: &[
            "look whether /dev/shm or the file system is full, or a file that the program maps was cut off",
            "another node, if it comes again there",
        ],
        worse: &["smaller batches change nothing"],
        source: "signal(7), mmap(2): SIGBUS",
    },
    Advice {
        kind: "bug_triton_resources",
        helps: &[
            "smaller blocks or fewer stages of the kernel: on-chip shared memory, not the GPU's memory",
        ],
        worse: &["smaller batches change nothing"],
        source: "Triton docs, triton.Config",
    },
    Advice {
        kind: "torch_absurd_size",
        helps: &["look for what came before it: a size like this is a corrupt number, no need"],
        worse: &["smaller batches change nothing"],
        source: "PyTorch c10/cuda/CUDACachingAllocator.cpp",
    },
];

/// The row for a signature, or else for its kind.
pub(crate) fn of(signature: &str, kind: &str) -> Option<&'static Advice> {
    let row = |name: &str| ADVICE.iter().find(|a| a.kind == name);
    row(signature).or_else(|| row(kind))
}

#[cfg(test)]
mod tests {
    use super::super::kind::KINDS;
    use super::super::signatures;
    use super::*;

    #[test]
    fn every_row_is_about_something_and_every_lack_of_memory_has_one() {
        for advice in ADVICE {
            let kind = KINDS.iter().any(|k| k.name == advice.kind);
            let signature = signatures::all().any(|s| s.id == advice.kind);
            assert!(kind || signature, "{}", advice.kind);
            assert!(!advice.helps.is_empty() && !advice.source.is_empty());
        }
        let none = ["code_bug", "other", "no_failure"];
        for kind in KINDS.iter().filter(|k| !none.contains(&k.name)) {
            assert!(of("", kind.name).is_some(), "{}", kind.name);
        }
    }

    #[test]
    fn the_engines_share_has_the_sign_of_its_pool() {
        let helps = |signature, kind| of(signature, kind).unwrap().helps.join(" ");
        assert!(helps("", "vllm_kv_cache").contains("LARGER"));
        assert!(helps("vllm_cumem_oom", "cuda_driver_oom").contains("SMALLER"));
        assert!(helps("sglang_pool_too_small", "sglang_memory").contains("LARGER"));
        assert!(helps("sglang_pass_oom", "sglang_memory").contains("SMALLER"));
    }
}
