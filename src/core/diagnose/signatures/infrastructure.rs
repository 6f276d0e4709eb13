//! Ends that are no lack of memory: Slurm's own, NCCL, hardware, network, disk, configuration, bugs; and
//! what follows from another failure.

use super::{CONSEQUENCE, Role, SPECIFIC, Signature, weight};

/// What Slurm says about the end of a job: trusted, yet it comes last.
const SCHEDULER: Signature = Signature {
    weight: weight::SCHEDULER,
    any_level: true,
    ..SPECIFIC
};

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

const NETWORK: Signature = Signature {
    kind: "network",
    weight: weight::NETWORK,
    ..SPECIFIC
};

pub(super) const TABLE: &[Signature] = &[
    Signature {
        id: "slurm_time_limit",
        kind: "time_limit",
        literals: &["DUE TO TIME LIMIT"],
        source: "slurmstepd, 2.x to 26.05",
        example: "slurmstepd-gpu07: error: *** JOB 4711 ON gpu07 CANCELLED AT 2026-03-02T01:57:33 DUE TO TIME LIMIT ***",
        ..SCHEDULER
    },
    Signature {
        id: "slurm_node_failure",
        kind: "node_failure",
        literals: &["DUE TO NODE FAILURE", "Node failure on", "NODE_FAIL"],
        pattern: Some(r"DUE TO NODE FAILURE|error: Node failure on|\bNODE_FAIL\b[ ,]"),
        source: "slurmstepd, srun, salloc, Slurm's mails, 2.x to 26.05",
        example: "slurmstepd: error: *** STEP 4711.0 ON gpu07 CANCELLED AT 2026-03-02T04:11:09 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***",
        ..SCHEDULER
    },
    Signature {
        id: "slurm_preempted",
        kind: "preempted",
        literals: &["DUE TO PREEMPTION", "DUE TO JOB REQUEUE"],
        source: "slurmstepd, 2.x to 26.05",
        example: "slurmstepd-gpu07: error: *** JOB 4711 ON gpu07 CANCELLED AT 2026-03-02T01:57:33 DUE TO PREEMPTION ***",
        ..SCHEDULER
    },
    Signature {
        id: "slurm_cancelled",
        kind: "other",
        weight: weight::CONSEQUENCE + 2,
        literals: &[" CANCELLED AT "],
        unless: Some(r"DUE TO"),
        retry: Some(true),
        source: "slurmstepd: scancel, or the rest of a job after a failure; 2.x to 26.05",
        example: "slurmstepd-node1: error: *** JOB 43 ON node1 CANCELLED AT 2026-11-21T01:57:33 ***",
        ..CONSEQUENCE
    },
    Signature {
        id: "program_missing",
        kind: "code_bug",
        weight: weight::NETWORK,
        literals: &["can't open file '", "command not found", "cannot execute"],
        pattern: Some(r"^\S*python\S*: can't open file '|: command not found$|: cannot execute"),
        phase: Some("init"),
        source: "CPython 3.x, bash 4 and 5",
        example: "/usr/bin/python3: can't open file '/home/me/diamonds/train.py': [Errno 2] No such file or directory",
        ..SPECIFIC
    },
    Signature {
        id: "job_script_gave_up",
        kind: "code_bug",
        weight: weight::NETWORK,
        literals: &["oomctl: "],
        pattern: Some(r"^oomctl: "),
        unless: Some(r" is dropped, it clashes "),
        phase: Some("init"),
        source: "this project's templates (slurm/_start.sh.j2, `die`)",
        example: "oomctl: 1 of 2 nodes joined Ray within 600 s (ray_wait)",
        ..SPECIFIC
    },
    Signature {
        id: "srun_launch_failed",
        kind: "other",
        literals: &[
            "srun: error: Task launch for",
            "Job credential expired",
            "Unable to create step for job",
        ],
        retry: Some(true),
        phase: Some("init"),
        source: "srun, 2.x to 26.05",
        example: "srun: error: Task launch for StepId=4711.0 failed on node gpu07: Job credential expired",
        ..SCHEDULER
    },
    Signature {
        id: "nccl_watchdog",
        kind: "nccl_timeout",
        role: Role::Consequence,
        weight: weight::SCHEDULER,
        literals: &["Watchdog caught collective"],
        any_level: true,
        source: "PyTorch ProcessGroupNCCL.cpp, 1.8 to 2.9",
        example: "[rank1]:[E302 06:24:44.903881913 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=808, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600020 milliseconds before timing out.",
        ..SPECIFIC
    },
    Signature {
        id: "gloo_timeout",
        kind: "nccl_timeout",
        literals: &[
            "Timed out waiting",
            "Socket Timeout",
            "wait timeout after",
            "Timed out initializing process group",
        ],
        pattern: Some(r"gloo|process group|[Ss]tore|recvValue|c10d"),
        source: "PyTorch gloo and TCPStore, 1.8 to 2.9",
        example: "RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete",
        ..NETWORK
    },
    Signature {
        id: "hw_ecc",
        literals: &[
            "uncorrectable ECC error",
            "CUDA_ERROR_ECC_UNCORRECTABLE",
            "UNCORRECTABLE MEMORY ERROR",
            "uncorrectable NVLink error",
        ],
        source: "CUDA runtime and driver; Slurm",
        example: "RuntimeError: CUDA error: uncorrectable ECC error encountered",
        ..HARDWARE
    },
    Signature {
        id: "hw_gpu_lost",
        literals: &[
            "NVRM: Xid (PCI",
            "has fallen off the bus",
            "GPU is lost",
            "device(s) is/are busy or unavailable",
            "Unable to determine the device handle",
        ],
        source: "NVIDIA driver (dmesg), nvidia-smi, CUDA runtime",
        example: "NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, GPU has fallen off the bus.",
        ..HARDWARE
    },
    Signature {
        id: "disk_full",
        literals: &[
            "No space left on device",
            "Disk quota exceeded",
            "isk quota exceeded",
        ],
        unless: Some(r"/dev/shm"),
        source: "ENOSPC and EDQUOT",
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
        ],
        source: "EIO, ESTALE, EROFS; PyTorch serialization",
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
        ],
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
            "real_train_batch_size (",
            "must be divisible by",
        ],
        pattern: Some(
            r"after normalization|Check batch related|only support equal chunk|Error\b.*must be divisible by|real_train_batch_size \(\d+\) must",
        ),
        source: "verl workers/fsdp_workers.py, protocol.py and utils/config.py, 0.2 to 0.9; DeepSpeed runtime/config.py; Megatron-LM arguments.py",
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
        ],
        source: "glibc's loader: an extension built for another PyTorch or CUDA",
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
        ],
        source: "argparse; CUDA runtime: more ranks than visible GPUs",
        example: "train.py: error: unrecognized arguments: --micro_batch 4",
        ..CONFIG
    },
    Signature {
        id: "bug_illegal_access",
        literals: &[
            "an illegal memory access was encountered",
            "device-side assert triggered",
            "misaligned address",
            "CUDA_ERROR_ILLEGAL_ADDRESS",
        ],
        pattern: Some(r"illegal memory access|CUDA error: |CUDA_ERROR_ILLEGAL_ADDRESS"),
        source: "CUDA runtime",
        example: "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
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
        id: "network_address_in_use",
        weight: weight::SPECIFIC,
        literals: &["ddress already in use", "EADDRINUSE"],
        source: "torch.distributed TCPStore, Ray, vLLM: port taken",
        example: "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
        ..NETWORK
    },
    Signature {
        id: "network_unreachable",
        weight: weight::EXCEPTION + 1,
        literals: &[
            "Max retries exceeded with url",
            "couldn't connect to 'https://",
            "Temporary failure in name resolution",
            "Name or service not known",
            "LocalEntryNotFoundError",
        ],
        phase: Some("load"),
        source: "requests, huggingface_hub",
        example: "requests.exceptions.ConnectionError: (MaxRetryError(\"HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded with url: /api/models/x (Caused by NewConnectionError)",
        ..NETWORK
    },
    Signature {
        id: "network_tracker",
        weight: weight::EXCEPTION + 1,
        literals: &["Connection to wandb service failed"],
        source: "wandb sdk, 0.13 to 0.2x: the tracker's own process is gone",
        example: "wandb.sdk.wandb_manager.ManagerConnectionRefusedError: Connection to wandb service failed since the process is not available.",
        ..NETWORK
    },
    Signature {
        id: "network_retry",
        literals: &["entering retry loop"],
        handled: true,
        source: "wandb sdk, 0.10 to 0.2x: the tracker waits, training may go on",
        example: "wandb: Network error (ConnectTimeout), entering retry loop.",
        ..NETWORK
    },
    Signature {
        id: "nccl_system_error",
        kind: "network",
        weight: weight::NETWORK,
        literals: &[
            "ncclSystemError",
            "ncclRemoteError",
            "Connection closed by remote peer",
            "unhandled system error",
        ],
        phase: Some("nccl"),
        retry: Some(true),
        source: "NCCL 2.x through PyTorch: the peer's own error is the cause",
        example: "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.",
        ..CONSEQUENCE
    },
    Signature {
        id: "nccl_connection_closed",
        literals: &[
            "Connection closed by localRank",
            "NCCL communicator was aborted",
            "Exception (either an error or timeout) detected by watchdog",
            "remote process exited or there was a network error",
        ],
        kind: "network",
        phase: Some("nccl"),
        retry: Some(true),
        source: "NCCL 2.x, PyTorch ProcessGroupNCCL.cpp",
        example: "gpu07:4711:4790 [2] NCCL INFO [Service thread] Connection closed by localRank 2",
        ..CONSEQUENCE
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
        id: "srun_task_ended",
        weight: weight::CONSEQUENCE + 1,
        literals: &[
            "srun: error: ",
            "srun: Job step aborted",
            "srun: launch/slurm:",
        ],
        pattern: Some(
            r"tasks? [\d,-]+: (?:Exited with exit code|Killed|Terminated|Aborted|Segmentation)|Job step aborted|_step_signal",
        ),
        unless: Some(r"exit code 137|Out Of Memory"),
        source: "srun, 2.x to 26.05",
        example: "srun: error: gpu07: task 0: Exited with exit code 1",
        ..CONSEQUENCE
    },
    Signature {
        id: "engine_core_failed",
        literals: &[
            "Engine core initialization failed",
            "EngineDeadError",
            "EngineCore encountered a fatal error",
            "Engine core proc",
        ],
        phase: Some("init"),
        source: "vLLM v1/engine, 0.8 to 0.13: the cause stands above, or was lost",
        example: "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
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
