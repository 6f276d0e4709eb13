//! Host memory and shared memory: Slurm, the kernel, Ray, PyTorch's data loader, Python.

use super::row::{CAUSE, Signature, weight};
use crate::class::Tri;

const CGROUP: &str = "host memory of the job's cgroup";
const RSS: &str = "host memory";
const NODE: &str = "host memory of the node, as Ray watches it";

/// SIGKILL without a sender: mostly the kernel's OOM killer, but nothing in the line says so.
const KILLED: Signature = Signature {
    kind: "host_oom",
    weight: weight::KILLED,
    host: Some(Tri::Ambiguous),
    any_level: true,
    pool: "unknown: SIGKILL has no sender",
    ..CAUSE
};

pub(super) const TABLE: &[Signature] = &[
    Signature {
        id: "slurm_oom_kill",
        kind: "host_oom",
        literals: &["oom-kill event", "oom_kill event"],
        pattern: Some(r"Detected \d+ oom[-_]kill event"),
        any_level: true,
        pool: CGROUP,
        source: "slurmstepd, 17.11 to 26.05 (hyphen up to 21.08, underscore from 23.02)",
        example: "slurmstepd-gpu07: error: Detected 1 oom-kill event(s) in StepId=4711.batch. Some of your processes may have been killed by the cgroup out-of-memory handler.",
        ..CAUSE
    },
    Signature {
        id: "slurm_cgroup_killed",
        kind: "host_oom",
        literals: &[
            "killed by the cgroup out-of-memory handler",
            "step tasks have been OOM Killed",
        ],
        any_level: true,
        pool: CGROUP,
        source: "slurmstepd, up to 21.08 and from 23.02",
        example: "Some of the step tasks have been OOM Killed.",
        ..CAUSE
    },
    Signature {
        id: "srun_task_oom",
        kind: "host_oom",
        literals: &[": Out Of Memory"],
        pattern: Some(r"srun: error: \S+: tasks? [\d,-]+: Out Of Memory"),
        any_level: true,
        pool: CGROUP,
        source: "srun, 18.08 to 26.05",
        example: "srun: error: gpu07: task 3: Out Of Memory",
        ..CAUSE
    },
    Signature {
        id: "slurm_over_memory",
        kind: "host_oom",
        literals: &[
            "exceeded memory limit",
            "Exceeded job memory limit",
            "Exceeded step memory limit",
        ],
        pattern: Some(r"exceeded memory limit \(\d+ > \d+\)|Exceeded (?:job|step) memory limit"),
        unless: Some(r"at some point"),
        any_level: true,
        pool: "host memory as Slurm polls it",
        source: "slurmstepd with OverMemoryKill, 2.6 to 26.05",
        example: "slurmstepd-gpu07: error: StepId=4711.batch exceeded memory limit (448004096 > 209715200), being killed",
        ..CAUSE
    },
    Signature {
        id: "sacct_out_of_memory",
        kind: "host_oom",
        literals: &["OUT_OF_ME"],
        pattern: Some(
            r"\bOUT_OF_ME(?:MORY\b|\+)\s+.*\b\d+:\d+\b|State=OUT_OF_MEMORY|\bOUT_OF_MEMORY\s*,",
        ),
        any_level: true,
        pool: CGROUP,
        source: "sacct and scontrol output, and Slurm's mails, 18.08 to 26.05",
        example: "4711.0       train.sh               lab          8 OUT_OF_ME+    0:125",
        ..CAUSE
    },
    Signature {
        id: "kernel_oom_kill",
        kind: "host_oom",
        literals: &[
            "ut of memory: Kill",
            "invoked oom-killer",
            "oom-kill:constraint=",
            "oom_reaper: reaped process",
            "oom_score_adj name",
        ],
        any_level: true,
        pool: RSS,
        source: "Linux mm/oom_kill.c, 2.6 to 6.x",
        example: "[Sun Mar  2 08:24:00 2025] Memory cgroup out of memory: Killed process 4711 (python3) total-vm:91234840kB, anon-rss:64370088kB, file-rss:0kB, shmem-rss:0kB",
        ..CAUSE
    },
    Signature {
        id: "flux_oom_kill",
        kind: "host_oom",
        literals: &["oom: Memory cgroup out of memory: killed "],
        any_level: true,
        pool: CGROUP,
        source: "flux-core shell, its plugin oom",
        example: "230.432s: flux-shell[1]: ERROR: oom: Memory cgroup out of memory: killed 1 task on gpu07.",
        ..CAUSE
    },
    Signature {
        id: "service_oom_kill",
        kind: "host_oom",
        literals: &[
            "of this unit has been killed by the OOM killer",
            "with result 'oom-kill'",
            "systemd-oomd killed ",
            "with reclaim activity",
            "and swap used (",
        ],
        pattern: Some(
            r"killed by the OOM killer|'oom-kill'|systemd-oomd killed \d|Killed /\S+ due to memory",
        ),
        any_level: true,
        pool: CGROUP,
        source: "systemd core/service.c, 240 to 258; systemd-oomd oom/oomd-manager.c, 248 to 258",
        example: "Mar 02 08:24:00 gpu07 systemd[1]: trainer.service: Failed with result 'oom-kill'.",
        ..CAUSE
    },
    Signature {
        id: "batch_system_memory_limit",
        kind: "host_oom",
        literals: &[
            "TERM_MEMLIMIT: ",
            "PBS: job killed: mem",
            "PBS: job killed: vmem",
            "exceeds job hard limit ",
        ],
        pattern: Some(
            r#"TERM_MEMLIMIT|PBS: job killed|job hard limit "?(?:h_vmem|h_rss|h_data)\b"#,
        ),
        any_level: true,
        pool: "host memory that the job may use",
        source: "IBM LSF bjobs and job reports; OpenPBS mom; Grid Engine execd_ck_to_do.c",
        example: "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.",
        ..CAUSE
    },
    Signature {
        id: "dask_memory_budget",
        kind: "host_oom",
        literals: &["memory budget. Restarting"],
        handled: true,
        any_level: true,
        pool: "host memory of one Dask worker; the nanny starts it again",
        source: "distributed worker_memory.py, 1.x to 2025",
        example: "distributed.nanny.memory - WARNING - Worker tcp://127.0.0.1:49477 (pid=4711) exceeded 95% memory budget. Restarting...",
        ..CAUSE
    },
    Signature {
        id: "managed_heap",
        kind: "host_oom",
        literals: &[
            "java.lang.OutOfMemoryError",
            "JavaScript heap out of memory",
        ],
        pool: "heap of a managed runtime, whose limit is its own",
        source: "OpenJDK 8 to 21; Node.js 8 to 22",
        example: "Exception in thread \"main\" java.lang.OutOfMemoryError: Java heap space",
        ..CAUSE
    },
    Signature {
        id: "ray_object_store_full",
        kind: "host_oom",
        literals: &["ObjectStoreFullError"],
        pool: "shared memory of the node that Ray keeps for objects",
        source: "Ray core plasma store, 1.x to 2.x",
        example: "ray.exceptions.ObjectStoreFullError: Failed to put object 00ff in object store because it is full. Object size is 8589934592 bytes.",
        ..CAUSE
    },
    Signature {
        id: "container_oom_killed",
        kind: "host_oom",
        literals: &[
            "OOMKilled",
            "low on resource: memory",
            "container init was OOM-killed",
        ],
        pattern: Some(
            r"\d/\d+\s+OOMKilled|low on resource: memory|OOM-killed|(?:[Rr]eason|State|status)\S*\s*[:=]?\s*OOMKilled|OOMKilled: true|\bOOMKilled\s*\(",
        ),
        any_level: true,
        pool: CGROUP,
        source: "Kubernetes pod status and events, runc, docker inspect",
        example: "      Reason:       OOMKilled",
        ..CAUSE
    },
    Signature {
        id: "torch_worker_killed",
        kind: "host_oom",
        literals: &["is killed by signal: Killed"],
        phase: Some("dataloader"),
        pool: "host memory of data loading workers",
        source: "PyTorch torch/utils/data, 0.4 to 2.x",
        example: "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed. ",
        ..CAUSE
    },
    Signature {
        id: "datasets_worker_died",
        literals: &["of the subprocesses has abruptly died during map"],
        phase: Some("dataloader"),
        pool: "unknown: a process that prepares data is gone, mostly for lack of host memory",
        source: "datasets utils/py_utils.py (iflatmap_unordered), 2.12 to 4.x",
        example: "RuntimeError: One of the subprocesses has abruptly died during map operation.To debug the error, disable multiprocessing.",
        ..KILLED
    },
    Signature {
        id: "pool_worker_died",
        literals: &[
            "A worker process managed by the executor was unexpectedly terminated",
            "A process in the process pool was terminated abruptly",
        ],
        source: "joblib (loky process_executor.py), 1.0 to 1.5; CPython concurrent/futures/process.py: a process is gone, mostly for lack of host memory",
        example: "concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated abruptly while the future was running or pending.",
        ..KILLED
    },
    Signature {
        id: "ray_low_on_memory",
        kind: "host_oom",
        literals: &[
            "due to the node running low on memory",
            "which exceeds the memory usage threshold of",
            "Memory on the node (IP:",
        ],
        any_level: true,
        pool: NODE,
        source: "Ray memory monitor, 2.2 to 2.x",
        example: "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
        ..CAUSE
    },
    Signature {
        id: "ray_workers_killed",
        kind: "host_oom",
        literals: &["killed due to memory pressure (OOM)"],
        pattern: Some(r"[1-9]\d* Workers \(tasks / actors\) killed due to memory pressure"),
        any_level: true,
        pool: NODE,
        source: "raylet node_manager.cc, 2.2 to 2.x",
        example: "(raylet) [2025-03-02 15:21:29,851 E 4711 4711] (raylet) node_manager.cc:3084: 2 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons at node (ID: 0f, IP: 192.0.2.7) over the last time period.",
        ..CAUSE
    },
    Signature {
        id: "torch_cpu_allocator",
        kind: "host_oom",
        literals: &[
            "DefaultCPUAllocator:",
            "posix_memalign(&data",
            "not enough memory: you tried to allocate",
        ],
        pattern: Some(
            r"can't allocate memory|not enough memory|posix_memalign\(&data, \w+, nbytes\) == 0\. 12 vs 0",
        ),
        pool: RSS,
        source: "PyTorch c10/core/impl/alloc_cpu.cpp, 1.0 to 2.x",
        example: "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 68719476736 bytes. Error code 12 (Cannot allocate memory)",
        ..CAUSE
    },
    Signature {
        id: "bad_alloc",
        kind: "host_oom",
        literals: &["std::bad_alloc", "LLVM ERROR: out of memory"],
        pool: RSS,
        source: "C++ standard library",
        example: "terminate called after throwing an instance of 'std::bad_alloc'",
        ..CAUSE
    },
    Signature {
        id: "runtime_allocation",
        kind: "host_oom",
        literals: &[
            " bytes failed",
            "fatal error: runtime: out of memory",
            "fatal error: runtime: cannot allocate memory",
            "cannot allocate vector of size ",
        ],
        pattern: Some(
            r"^memory allocation of \d+ bytes failed|^fatal error: runtime: |cannot allocate vector of size [\d.]+ [KMG]b",
        ),
        pool: RSS,
        source: "standard library of Rust (tokenizers, polars, safetensors), runtime of Go, R 3 and 4",
        example: "memory allocation of 34359738368 bytes failed",
        ..CAUSE
    },
    Signature {
        id: "cannot_allocate_memory",
        kind: "host_oom",
        literals: &["Cannot allocate memory"],
        pattern: Some(
            r"\[Errno 12\] Cannot allocate memory|fork: (?:retry: )?(?:Resource temporarily unavailable|Cannot allocate memory)|: Cannot allocate memory(?: \(12\))?\s*$",
        ),
        unless: Some(r"NCCL|ibv_"),
        pool: "host memory or overcommit",
        source: "ENOMEM in CPython, bash, C programs",
        example: "OSError: [Errno 12] Cannot allocate memory",
        ..CAUSE
    },
    Signature {
        id: "python_memory_error",
        kind: "host_oom",
        literals: &["MemoryError", "Unable to allocate "],
        pattern: Some(
            r"^\s*(?:\w+\.)*_?(?:Array|Arrow)?MemoryError\b\s*(?:$|:)|Unable to allocate (?:[\d.]+ ?\w+ for an )?array with ",
        ),
        pool: RSS,
        source: "CPython, numpy, Arrow",
        example: "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 37.3 GiB for an array with shape (50000, 100000) and data type float64",
        ..CAUSE
    },
    Signature {
        id: "tf_host_oom",
        kind: "host_oom",
        literals: &["OOM when allocating tensor with shape"],
        pattern: Some(r"device:CPU|by allocator (?:cpu|mklcpu)"),
        pool: RSS,
        source: "TensorFlow core/framework, 1.x to 2.x",
        example: "ResourceExhaustedError: OOM when allocating tensor with shape[50000,30000] and type float on /job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu",
        ..CAUSE
    },
    Signature {
        id: "shell_killed",
        literals: &[
            "Killed",
            "zsh: killed  ",
            "已杀死",
            "Processus arrêté",
            "Terminado (killed)",
        ],
        pattern: Some(
            r"^\s*[*`]*(?:Killed(?:: 9)?|已杀死|Processus arrêté|Terminado \(killed\))[*`.]*\s*$|(?:line \d+:\s+\d+|行:?\s*\d+|^\[\d+\]\s*[-+]?)\s+(?:Killed\b|已杀死)|^zsh: killed\b",
        ),
        source: "bash, dash, zsh; the word for signal 9 of the C library's translations",
        example: "/var/spool/slurmd/job04711/slurm_script: line 31: 48151 Killed                  python3 train.py",
        ..KILLED
    },
    Signature {
        id: "elastic_sigkill",
        literals: &[
            "exitcode: -9",
            "exitcode  : -9",
            "exitcode : -9",
            "exit code -9",
            "exit status -9",
            "Signal 9 (SIGKILL)",
            "Signals.SIGKILL",
            "return code = -9",
            "exited with code -9",
            "killed by signal 9",
            "terminated by signal 9",
            "signal: killed",
            "exited on signal 9",
            "Killed signal terminated program",
        ],
        unless: Some(r"forcefully exiting via"),
        source: "torchrun (torch.distributed.elastic) 1.9 to 2.x, subprocess, DeepSpeed launcher, Open MPI, GCC's driver",
        example: "E0302 10:13:05.000000 4711 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -9) local_rank: 0 (pid: 4712) of binary: /usr/bin/python3",
        ..KILLED
    },
    Signature {
        id: "mpich_sigkill",
        literals: &["=   EXIT CODE: 9", "=   KILLED BY SIGNAL: 9"],
        pattern: Some(r"^=   (?:EXIT CODE|KILLED BY SIGNAL): 9\b"),
        source: "MPICH and Intel MPI (hydra), 1.x to 4.x and 2017 to 2021",
        example: "=   EXIT CODE: 9",
        ..KILLED
    },
    Signature {
        id: "slurmctld_sigkill",
        literals: &["WTERMSIG 9"],
        source: "slurmctld's log, 17.11 to 26.05: the batch script ended by SIGKILL",
        example: "[2026-03-02T11:37:57.377] _job_complete: JobId=4711 WTERMSIG 9",
        ..KILLED
    },
    Signature {
        id: "exit_137",
        literals: &[
            "exit code 137",
            "exit code (137)",
            "Exit code 137",
            "exit status 137",
            "exit code: 137",
            "exitcode 137",
            "status code 137",
        ],
        source: "docker, Kubernetes, srun, shells: 128 + SIGKILL",
        example: "srun: error: gpu07: task 0: Exited with exit code 137",
        ..KILLED
    },
    Signature {
        id: "shm_worker_bus_error",
        kind: "shm",
        literals: &[
            "insufficient shared memory (shm)",
            "out of shared memory",
            "is killed by signal: Bus",
            "workers are out of shared",
        ],
        pool: "/dev/shm",
        source: "PyTorch torch/utils/data/_utils/signal_handling.py, 0.4 to 2.x",
        example: "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory. Please try to raise your shared memory limit.",
        ..CAUSE
    },
    Signature {
        id: "shm_no_space",
        kind: "shm",
        literals: &[
            "No space left on device",
            "unable to allocate shared memory",
            "creating shared memory segment",
            "unable to write to file </torch",
        ],
        pattern: Some(
            r"/dev/shm|unable to write to file </torch|unable to allocate shared memory\(shm\)|Error while creating shared memory segment|shared memory (?:object|file)",
        ),
        any_level: true,
        pool: "/dev/shm",
        source: "PyTorch, NCCL 2.x src/misc/shmutils.cc, Ray object store",
        example: "gpu07:4711:4790 [2] misc/shmutils.cc:72 NCCL WARN Error while creating shared memory segment /dev/shm/nccl-6iHtDe (size 9637888)",
        ..CAUSE
    },
];
