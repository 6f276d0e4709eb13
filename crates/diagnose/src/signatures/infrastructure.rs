//! Ends that are no lack of memory: hardware, disk, configuration, bugs; and what follows from another
//! failure.

use super::row::{CONSEQUENCE, SPECIFIC, Signature, weight};

const DISK: Signature = Signature {
    kind: "disk",
    ..SPECIFIC
};

const HARDWARE: Signature = Signature {
    kind: "hw_error",
    any_level: true,
    ..SPECIFIC
};

const CONFIG: Signature = Signature {
    kind: "config",
    ..SPECIFIC
};

const BUG: Signature = Signature {
    kind: "code_bug",
    ..SPECIFIC
};

pub(super) const TABLE: &[Signature] = &[
    Signature {
        id: "program_missing",
        kind: "code_bug",
        weight: weight::NETWORK,
        literals: &[
            "can't open file '",
            "command not found",
            "cannot execute",
            "error: execve(): ",
        ],
        pattern: Some(
            r"^\S*python\S*: can't open file '|: command not found$|: cannot execute|error: execve\(\): ",
        ),
        phase: Some("init"),
        source: "CPython 3.x, bash 4 and 5, slurmstepd",
        example: "/usr/bin/python3: can't open file '/home/me/diamonds/train.py': [Errno 2] No such file or directory",
        ..SPECIFIC
    },
    Signature {
        id: "job_script_gave_up",
        kind: "code_bug",
        weight: weight::NETWORK,
        literals: &["oomctl: "],
        pattern: Some(r"^oomctl: "),
        unless: Some(r" is dropped, it clashes |^oomctl: dry run"),
        phase: Some("init"),
        source: "this project's templates (slurm/_start.sh.j2, `die`)",
        example: "oomctl: 1 of 2 nodes joined Ray within 600 s (ray_wait)",
        ..SPECIFIC
    },
    Signature {
        id: "hw_ecc",
        literals: &[
            "ncorrectable ECC error",
            "ouble-bit ECC error",
            "ouble Bit ECC Error",
            "CUDA_ERROR_ECC_UNCORRECTABLE",
            "hipErrorECCNotCorrectable",
            "UNCORRECTABLE MEMORY ERROR",
            "uncorrectable NVLink error",
            "ncorrected hardware memory error",
            "due to hardware memory corruption",
        ],
        source: "CUDA and HIP runtime and driver; DCGM; Slurm; Linux mm/memory-failure.c and arch/x86 mce",
        example: "RuntimeError: CUDA error: uncorrectable ECC error encountered",
        ..HARDWARE
    },
    Signature {
        id: "hw_gpu_lost",
        literals: &[
            "fallen off the bus",
            "GPU is lost",
            "device(s) is/are busy or unavailable",
            "Unable to determine the device handle",
            "HW Exception by GPU node",
            "mce: [Hardware Error]",
            "PCIe Bus Error: severity=Uncorrected",
            "couldn't communicate with the NVIDIA driver",
            ": system not yet initialized",
            "amdgpu: GPU reset begin!",
        ],
        source: "NVIDIA driver and kernel (dmesg), nvidia-smi, CUDA runtime (802: the fabric of the GPUs is not up), ROCm and amdgpu",
        example: "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.  Reboot the system to recover this GPU",
        ..HARDWARE
    },
    Signature {
        id: "hw_xid",
        literals: &["NVRM: Xid (PCI"],
        pattern: Some(
            r"Xid \(PCI[^)]*\): (?:32|38|44|48|61|62|63|64|74|79|92|94|95|109|119|120|121|140|143|14[4-9]|150)\b",
        ),
        source: "NVIDIA, XID Errors: numbers of the GPU, its memory, its links and the driver",
        example: "NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, name=python, GPU has fallen off the bus.",
        ..HARDWARE
    },
    Signature {
        id: "xid_of_a_program",
        weight: weight::NETWORK,
        literals: &["NVRM: Xid (PCI"],
        pattern: Some(r"Xid \(PCI[^)]*\): (?:8|13|31|43|69|137)\b"),
        any_level: true,
        source: "NVIDIA, XID Errors: numbers of a program's mistakes, after which the GPU is healthy",
        example: "NVRM: Xid (PCI:0000:3b:00): 31, pid=4711, name=python, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7f3a_1c000000.",
        ..BUG
    },
    Signature {
        id: "disk_full",
        literals: &[
            "No space left on device",
            "Disk quota exceeded",
            "isk quota exceeded",
            "OutOfDiskError: ",
            "low on resource: ephemeral-storage",
        ],
        unless: Some(r"/dev/shm"),
        source: "ENOSPC and EDQUOT; Ray 2.x; Kubernetes' kubelet",
        example: "OSError: [Errno 28] No space left on device",
        ..DISK
    },
    Signature {
        id: "disk_io",
        literals: &[
            "Input/output error",
            "Stale file handle",
            "Read-only file system",
            "PytorchStreamWriter failed writing file",
            "EOFError: Ran out of input",
            "PytorchStreamReader failed",
            ". unexpected pos ",
            "after transport endpoint shutdown",
            "Transport endpoint is not connected: '",
            "Remote I/O error",
            "unable to lock file, errno",
        ],
        source: "EIO, ESTALE, EROFS, ESHUTDOWN (Lustre), ENOTCONN (FUSE), EREMOTEIO; PyTorch serialization and pickle: a file that is cut off; HDF5",
        example: "OSError: [Errno 116] Stale file handle: '/scratch/ckpt/step_40/model.pt'",
        ..DISK
    },
    Signature {
        id: "config_hydra",
        literals: &[
            "ConfigCompositionException",
            "Could not override '",
            "is not in struct",
            "ConfigAttributeError",
            "ConfigKeyError",
            "MissingMandatoryValue",
            "full_key: ",
            "Primary config module '",
            "Primary config directory not found",
        ],
        pattern: Some(
            r"ConfigCompositionException|Could not override '|is not in struct|Config(?:Attribute|Key)Error|MissingMandatoryValue|^Primary config |^\s*full_key: \S",
        ),
        source: "hydra 1.x, omegaconf 2.x",
        example: "hydra.errors.ConfigCompositionException: Could not override 'actor_rollout_ref.rollout.max_len'.",
        ..CONFIG
    },
    Signature {
        id: "config_batch_rules",
        literals: &[
            "should be larger than 0 after normalization",
            "Check batch related parameters",
            "only support equal chunk",
            "_batch_size (",
            "must be divisible by",
            "must be evenly divisible by",
            "not divisible by",
        ],
        pattern: Some(
            r"after normalization|Check batch related|only support equal chunk|Error\b.*(?:must be|not) (?:evenly )?divisible by|\w_batch_size \(\d+\) must",
        ),
        source: "verl workers/fsdp_workers.py, protocol.py and utils/config.py, 0.2 to 0.9; DeepSpeed runtime/config.py; Megatron-LM arguments.py; TRL grpo_config.py",
        example: "AssertionError: Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * gradient_acc_step * world_size 64 != 4 * 3 * 4",
        ..CONFIG
    },
    Signature {
        id: "config_broken_installation",
        literals: &[
            ": undefined symbol: ",
            "cannot open shared object file: No such file",
            "CUDA driver version is insufficient",
            "no kernel image is available for execution",
            "Torch not compiled with CUDA enabled",
            "CUDA Setup failed",
            "CUDA SETUP: Setup Failed",
            "error while loading shared libraries",
            "error: invalid device function",
            "Found no NVIDIA driver on your system",
            "NVIDIA driver on your system is too old",
            "No CUDA GPUs are available",
            "no CUDA-capable device is detected",
            "CUDA_HOME environment variable is not set",
            "FlashAttention only supports",
            "Driver/library version mismatch",
            "' not found (required by",
            "mismatches the version that was used to compile",
            "unsupported display driver / cuda driver combination",
            "could not select device driver",
            "nvidia-container-cli: ",
        ],
        source: "glibc's loader, PyTorch, bitsandbytes, flash-attn, containers: built for another PyTorch, CUDA or card, or no driver",
        example: "ImportError: /opt/env/lib/python3.11/site-packages/flash_attn_2_cuda.so: undefined symbol: _ZN3c104cuda9SetDeviceEi",
        ..CONFIG
    },
    Signature {
        id: "config_arguments",
        literals: &[
            "error: unrecognized arguments",
            "error: the following arguments are required",
            "error: argument ",
            "invalid device ordinal",
            "Duplicate GPU detected",
        ],
        source: "argparse; CUDA runtime and NCCL: more ranks than visible GPUs",
        example: "train.py: error: unrecognized arguments: --micro_batch 4",
        ..CONFIG
    },
    Signature {
        id: "config_resources",
        literals: &[
            "is less than total desired GPUs",
            "is greater than the derived max_model_len",
            "number of required GPUs exceeds the total number of available GPUs",
            "is only supported on GPUs with compute capability",
            "can be caused by too large tensor parallel size",
            "are not supported for now. Supported architectures",
        ],
        unless: Some(r"\bWARNING\b"),
        source: "verl trainer/ppo/ray_trainer.py, 0.2 to 0.9; vLLM config.py, executor/ray_utils.py and model_executor/models/registry.py, 0.4 to 0.13",
        example: "ValueError: Total available GPUs 4 is less than total desired GPUs 8",
        ..CONFIG
    },
    Signature {
        id: "config_limits",
        literals: &[
            "Too many open files",
            "received 0 items of ancdata",
            "can't start new thread",
        ],
        source: "EMFILE and thread limits (ulimit) in CPython and PyTorch's file-descriptor sharing",
        example: "OSError: [Errno 24] Too many open files",
        ..CONFIG
    },
    Signature {
        id: "config_model",
        literals: &[
            "is not a valid model identifier",
            "does not appear to have a file named",
            "but Transformers does not recognize this architecture",
            "access a gated repo",
            "Attempting to deserialize object on a CUDA device",
        ],
        phase: Some("load"),
        source: "transformers utils/hub.py and configuration_auto.py, 4.x; torch.load",
        example: "OSError: /models/qwen is not a local folder and is not a valid model identifier listed on 'https://huggingface.co/models'",
        ..CONFIG
    },
    Signature {
        id: "config_environment",
        literals: &[
            "Lmod has detected the following error",
            "has not been properly configured to use 'conda activate'",
            "EnvironmentNameNotFound: ",
            "Failed to find C compiler",
        ],
        source: "Lmod 7 and 8; conda 4 to 25; Triton 2 and 3, which compiles at run time",
        example: "Lmod has detected the following error: The following module(s) are unknown: \"cuda/12.9\"",
        ..CONFIG
    },
    Signature {
        id: "bug_illegal_access",
        literals: &[
            "an illegal memory access was encountered",
            "device-side assert triggered",
            "misaligned address",
            "CUDA_ERROR_ILLEGAL_ADDRESS",
            "unspecified launch failure",
            "CUDA_ERROR_LAUNCH_FAILED",
            "Memory access fault by GPU node",
            "HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION",
            "HSA_STATUS_ERROR_MEMORY_FAULT",
        ],
        pattern: Some(
            r"illegal memory access|CUDA error: |CUDA_ERROR_|unspecified launch failure|Memory access fault|HSA_STATUS_",
        ),
        source: "CUDA runtime and driver; ROCr",
        example: "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
        ..BUG
    },
    Signature {
        id: "bug_assertion",
        literals: &["] Assertion `", ": Assertion `", "Device-side assertion `"],
        pattern: Some(r"ssertion `.+['`] ?failed"),
        source: "assert(3) in CUDA and HIP kernels (PyTorch ATen/native, an index outside its range) and in C",
        example: "../aten/src/ATen/native/cuda/Indexing.cu:1141: indexSelectLargeIndex: block: [4,0,0], thread: [7,0,0] Assertion `srcIndex < srcSelectDimSize` failed.",
        ..BUG
    },
    Signature {
        id: "bug_triton_resources",
        literals: &["out of resource: shared memory", "out of resource: triton"],
        source: "Triton 2.x to 3.x: on-chip shared memory, wants smaller blocks",
        example: "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 131072, Hardware limit: 101376. Reducing block sizes or `num_stages` may help.",
        ..BUG
    },
    Signature {
        id: "bug_segfault",
        literals: &[
            "Segmentation fault",
            "Signals.SIGSEGV",
            "exitcode: -11",
            "Signal 11 (SIGSEGV)",
        ],
        retry: None,
        source: "kernel, torchrun, subprocess, UCX",
        example: "subprocess.CalledProcessError: Command '['python3', 'train.py']' died with <Signals.SIGSEGV: 11>.",
        ..BUG
    },
    Signature {
        id: "ray_actor_died",
        literals: &[
            "ActorDiedError",
            "RayActorError",
            "The actor is dead because",
            "The actor died unexpectedly",
            "A worker died or was killed while executing",
            "WorkerCrashedError",
            "OwnerDiedError",
        ],
        source: "Ray 2.x: the text lists guesses, OOM killer among them, and knows nothing",
        example: "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file. There are some potential root causes. (1) The process is killed by SIGKILL by OOM killer due to high memory usage.",
        ..CONSEQUENCE
    },
    Signature {
        id: "ray_task_error",
        weight: weight::CONSEQUENCE - 1,
        literals: &["ray.exceptions.RayTaskError("],
        unless: Some(r"RayTaskError\(OutOfMemoryError\)"),
        source: "Ray 2.x: the error of a remote method, raised again at the driver",
        example: "ray.exceptions.RayTaskError(ValueError): ray::WorkerDict.actor_rollout_init_model() (pid=4711, ip=192.0.2.7)",
        ..CONSEQUENCE
    },
    Signature {
        id: "elastic_closing",
        literals: &[
            "closing signal SIGTERM",
            "forcefully exiting via Signals.SIGKILL",
            "ChildFailedError",
            "Root Cause (first observed failure)",
            "SignalException",
            "got signal: 15",
        ],
        source: "torchrun (torch.distributed.elastic), 1.9 to 2.x",
        example: "W0302 05:20:11.000000 4711 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 4712 closing signal SIGTERM",
        ..CONSEQUENCE
    },
    Signature {
        id: "elastic_failed",
        literals: &[
            "failed (exitcode:",
            "exits with return code =",
            "Killing subprocess",
        ],
        unless: Some(r"exitcode: -(?:9|11)\b|return code = -9\b|return code = 0\b"),
        source: "torchrun 1.9 to 2.x, DeepSpeed launcher",
        example: "[2025-03-02 01:24:59,694] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 4711",
        ..CONSEQUENCE
    },
    Signature {
        id: "engine_core_failed",
        literals: &["Engine core initialization failed", "Engine core proc"],
        phase: Some("init"),
        source: "vLLM v1/engine, 0.8 to 0.13: the cause stands above, or was lost",
        example: "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
        ..CONSEQUENCE
    },
    Signature {
        id: "engine_core_died",
        literals: &[
            "EngineDeadError",
            "EngineCore encountered an issue",
            "EngineCore encountered a fatal error",
        ],
        phase: Some("rollout"),
        source: "vLLM v1/engine, 0.8 to 0.13: the cause stands above, or was lost",
        example: "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.",
        ..CONSEQUENCE
    },
    Signature {
        id: "worker_terminated",
        literals: &["is killed by signal: Terminated", "exited unexpectedly"],
        pattern: Some(r"DataLoader worker"),
        phase: Some("dataloader"),
        source: "PyTorch torch/utils/data, 0.4 to 2.x",
        example: "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Terminated. ",
        ..CONSEQUENCE
    },
    Signature {
        id: "program_failed",
        weight: weight::CONSEQUENCE - 2,
        literals: &[
            "exited with code",
            "exited with status",
            "with exit value",
            "with exit status",
            "with exit code",
            "with return code",
            "non-zero exit ",
        ],
        pattern: Some(
            r"(?i)\b(?:exited|failed|finished|ended|terminated)\b[^.;]{0,40}\b(?:code|status|value)\b\s*[:=]?\s*[1-9]|non-?zero exit (?:code|status)",
        ),
        source: "launchers, workflow engines and make: a program ended badly, and no more is said",
        example: "ERROR: launcher: the command exited with code 1",
        ..CONSEQUENCE
    },
    Signature {
        id: "process_aborted",
        weight: weight::CONSEQUENCE - 1,
        literals: &[
            "terminate called after throwing",
            "terminate called without an active",
            "core dumped)",
            "Fatal Python error:",
        ],
        unless: Some(r"bad_alloc|Segmentation fault"),
        source: "C++ runtime, shells, CPython faulthandler",
        example: "terminate called after throwing an instance of 'c10::DistBackendError'",
        ..CONSEQUENCE
    },
];
