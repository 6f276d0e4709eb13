//! How batch systems, and what stands in for one, say that a job or a step of it ended.

use super::row::{CONSEQUENCE, SPECIFIC, Signature, weight};

/// What Slurm says about the end of a job: trusted, yet it comes last.
const SCHEDULER: Signature = Signature {
    weight: weight::SCHEDULER,
    any_level: true,
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
        id: "sacct_timeout",
        kind: "time_limit",
        literals: &["   TIMEOUT     ", "State=TIMEOUT"],
        pattern: Some(r"\bTIMEOUT\s+\d+:\d+\b|State=TIMEOUT"),
        source: "sacct and scontrol output, 2.x to 26.05",
        example: "4711.batch       batch               lab          8    TIMEOUT      0:15",
        ..SCHEDULER
    },
    Signature {
        id: "batch_system_time_limit",
        kind: "time_limit",
        literals: &[
            "TERM_RUNLIMIT: ",
            "PBS: job killed: walltime",
            "exceeded hard wallclock time - ",
            "job.exception type=timeout severity=0",
        ],
        source: "IBM LSF job reports; OpenPBS mom; Grid Engine execd_ck_to_do.c (h_rt); flux-core job-exec, as flux job attach shows it",
        example: "=>> PBS: job killed: walltime 3611 exceeded limit 3600",
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
        id: "grid_engine_cpu_limit",
        kind: "time_limit",
        literals: &["exceeds job hard limit "],
        pattern: Some(r#"exceeds job hard limit "?h_cpu\b"#),
        source: "Grid Engine execd_ck_to_do.c",
        example: r#"03/02/2026 08:24:00|  main|gpu07|W|job 4711 exceeds job hard limit "h_cpu" of queue "all.q@gpu07" (3601.00000 > limit:3600.00000) - sending SIGKILL"#,
        ..SCHEDULER
    },
    Signature {
        id: "flux_node_failure",
        kind: "node_failure",
        literals: &["job.exception type="],
        pattern: Some(
            r"job\.exception type=(?:node-failure |exec severity=0 lost contact with job shell)",
        ),
        source: "flux-core job-exec, as flux job attach shows it",
        example: "311.204s: job.exception type=node-failure severity=2 lost contact with job shell on gpu07 (shell rank 1)",
        ..SCHEDULER
    },
    Signature {
        id: "cpu_lockup",
        kind: "node_failure",
        weight: weight::NETWORK,
        literals: &[
            "BUG: soft lockup - CPU#",
            "Watchdog detected hard LOCKUP on cpu",
        ],
        source: "Linux kernel/watchdog.c, 2.6 to 6.x: a processor of the node was stuck in the kernel",
        example: "watchdog: BUG: soft lockup - CPU#11 stuck for 26s! [python3:4711]",
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
        id: "sacct_preempted",
        kind: "preempted",
        literals: &["PREEMPTED     ", "State=PREEMPTED"],
        pattern: Some(r"\bPREEMPTED\s+\d+:\d+\b|State=PREEMPTED"),
        source: "sacct and scontrol output, 2.x to 26.05",
        example: "4711             train        gpu        lab          8  PREEMPTED      0:0",
        ..SCHEDULER
    },
    Signature {
        id: "pod_of_a_leaving_node",
        kind: "preempted",
        literals: &["in response to imminent node shutdown"],
        source: "Kubernetes' kubelet, 1.20 to 1.3x: the node is taken away, as spot nodes are",
        example: "Message:        Pod was terminated in response to imminent node shutdown.",
        ..SCHEDULER
    },
    Signature {
        id: "ray_node_dead",
        kind: "node_failure",
        weight: weight::NETWORK,
        literals: &["has been marked dead because"],
        source: "Ray gcs_health_check_manager and monitor, 1.x to 2.x: a node stopped answering",
        example: "The node with node id: 0f1e and address: 192.0.2.7 and node name: 192.0.2.7 has been marked dead because the detector has missed too many heartbeats from it.",
        ..SCHEDULER
    },
    Signature {
        id: "slurm_refused",
        kind: "config",
        literals: &[
            "Batch job submission failed: ",
            "Unable to allocate resources: ",
            "Unable to create step for job ",
        ],
        unless: Some(
            r"Socket timed out|Unable to contact|Unexpected message|already complet|expired|busy",
        ),
        phase: Some("init"),
        source: "sbatch, srun, salloc; 2.x to 26.05",
        example: "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified",
        ..SCHEDULER
    },
    Signature {
        id: "slurm_unreachable",
        kind: "network",
        literals: &[
            "Unable to contact slurm controller",
            "Could not establish a configuration source",
            "Socket timed out on send/recv operation",
        ],
        retry: Some(true),
        phase: Some("init"),
        source: "Slurm's commands, 2.x to 26.05",
        example: "squeue: fatal: Could not establish a configuration source",
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
        id: "srun_launch_failed",
        kind: "other",
        literals: &["srun: error: Task launch for", "Job credential expired"],
        retry: Some(true),
        phase: Some("init"),
        source: "srun, 2.x to 26.05",
        example: "srun: error: Task launch for StepId=4711.0 failed on node gpu07: Job credential expired",
        ..SCHEDULER
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
];
