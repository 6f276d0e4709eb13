//! The kinds of failure and what each means: one row a kind.

use super::class::{Class, Tri};

/// What follows from a kind when nothing else is known.
pub(crate) struct Kind {
    pub name: &'static str,
    pub class: Class,
    pub gpu: Tri,
    pub host: Tri,
    /// Would the same job, unchanged, have a fair chance?
    pub retry: Option<bool>,
    /// Phase when no frame tells it.
    pub phase: Option<&'static str>,
    /// For people, in a headline.
    pub words: &'static str,
}

const fn kind(name: &'static str, class: Class, words: &'static str) -> Kind {
    let gpu = match class {
        Class::GpuOom | Class::EngineMemory => Tri::True,
        _ => Tri::False,
    };
    let host = match class {
        Class::HostOom => Tri::True,
        _ => Tri::False,
    };
    Kind {
        name,
        class,
        gpu,
        host,
        retry: Some(false),
        phase: None,
        words,
    }
}

const fn retried(name: &'static str, words: &'static str) -> Kind {
    Kind {
        retry: Some(true),
        ..kind(name, Class::NotOom, words)
    }
}

/// Every kind.
pub(crate) const KINDS: &[Kind] = &[
    kind("cuda_oom", Class::GpuOom, "ran out of memory"),
    kind(
        "cuda_driver_oom",
        Class::GpuOom,
        "ran out of memory in the CUDA driver",
    ),
    kind("hip_oom", Class::GpuOom, "ran out of memory (HIP)"),
    kind("device_oom", Class::GpuOom, "ran out of memory"),
    Kind {
        retry: None,
        ..kind("cublas_alloc", Class::GpuOom, "had no memory for cuBLAS")
    },
    Kind {
        gpu: Tri::Ambiguous,
        retry: None,
        ..kind(
            "cublas_not_initialized",
            Class::GpuOom,
            "could not start cuBLAS, perhaps for lack of memory",
        )
    },
    Kind {
        retry: None,
        phase: Some("forward"),
        ..kind("cudnn_alloc", Class::GpuOom, "had no memory for cuDNN")
    },
    Kind {
        phase: Some("nccl"),
        ..kind(
            "nccl_oom",
            Class::GpuOom,
            "had no memory for NCCL's buffers",
        )
    },
    kind(
        "bnb_oom",
        Class::GpuOom,
        "ran out of memory in bitsandbytes",
    ),
    kind("jax_oom", Class::GpuOom, "ran out of memory (XLA)"),
    kind("tf_oom", Class::GpuOom, "ran out of memory (TensorFlow)"),
    Kind {
        phase: Some("kv_cache"),
        ..kind(
            "vllm_kv_cache",
            Class::EngineMemory,
            "the engine's memory share leaves too little for the KV cache",
        )
    },
    Kind {
        phase: Some("init"),
        retry: None,
        ..kind(
            "vllm_startup_memory",
            Class::EngineMemory,
            "less memory was free at the engine's start than its share",
        )
    },
    Kind {
        phase: Some("kv_cache"),
        ..kind(
            "sglang_memory",
            Class::EngineMemory,
            "the engine's memory pool is too small",
        )
    },
    kind("host_oom", Class::HostOom, "host memory ran out"),
    Kind {
        phase: Some("dataloader"),
        ..kind("shm", Class::Shm, "shared memory (/dev/shm) ran out")
    },
    retried("node_failure", "a node failed"),
    retried("time_limit", "the time limit was reached"),
    retried("preempted", "the job was preempted"),
    Kind {
        phase: Some("nccl"),
        ..retried("nccl_timeout", "a collective timed out")
    },
    retried("hw_error", "the hardware failed"),
    Kind {
        phase: Some("init"),
        ..retried("network", "the network failed")
    },
    kind("disk", Class::NotOom, "the file system failed or is full"),
    Kind {
        phase: Some("init"),
        ..kind("config", Class::NotOom, "the configuration was refused")
    },
    kind("code_bug", Class::NotOom, "the program failed"),
    Kind {
        retry: None,
        ..kind(
            "other",
            Class::NotOom,
            "the job failed for a reason that its log does not tell",
        )
    },
    Kind {
        retry: None,
        ..kind("no_failure", Class::NotOom, "no failure found")
    },
];

/// The row of a kind that is in the table.
pub(crate) fn known(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.name == name)
}

/// The row of a kind; the last but one (`other`) for a name that is not in the table.
pub(crate) fn row(name: &str) -> &'static Kind {
    known(name).unwrap_or(&KINDS[KINDS.len() - 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_the_fallback_is_other() {
        let mut names: Vec<_> = KINDS.iter().map(|k| k.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), KINDS.len());
        assert_eq!(row("never heard of").name, "other");
    }
}
