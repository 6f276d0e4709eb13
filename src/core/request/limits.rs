//! The bounds of a run, and how it is supervised.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bounds of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Attempts in all, the first included.
    pub attempts: u32,
    /// Seconds from when its first attempt was written down; no limit where it is not given.
    pub wall_time_s: Option<u64>,
    /// GPU-hours over all attempts; no limit where it is not given.
    pub gpu_hours: Option<f64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            attempts: 12,
            wall_time_s: None,
            gpu_hours: None,
        }
    }
}

/// How a run is supervised.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Supervision {
    /// Seconds between polls of the scheduler; doubled on trouble up to `poll_max_s`.
    pub poll_s: u64,
    /// Longest time between polls, in seconds.
    pub poll_max_s: u64,
    /// Seconds without progress after a fatal OOM in the log before the job, whose other ranks hang
    /// in a collective, is cancelled.
    pub hang_grace_s: u64,
    /// Seconds after an unclear submission before the token may be called absent. More than Slurm's
    /// MessageTimeout (10 s by default) plus 10 s.
    pub settle_s: u64,
    /// Seconds after the end of a job for which its logs are read again, for file systems that show
    /// remote writes late.
    pub drain_s: u64,
    /// Seconds for which they are read again when the job failed, they do not say why, and they lie on a
    /// network file system. NFS has been seen to show another node's last lines 60 to 90 s late.
    pub late_logs_s: u64,
    /// Unchanged resubmissions after a node failure.
    pub node_failure_retries: u32,
    /// Unchanged resubmissions after a preemption that Slurm does not requeue itself.
    pub preemption_retries: u32,
    /// Unchanged resubmissions after a time limit.
    pub time_limit_retries: u32,
    /// Unchanged resubmissions on another node when another process held the GPU.
    pub co_tenant_retries: u32,
    /// Unchanged resubmissions, from the checkpoint, when GPU memory ran out only after many steps.
    pub late_oom_retries: u32,
    /// Unchanged resubmissions, from the checkpoint, when memory rose step by step until it was full; as long as each attempt
    /// comes further than the one before.
    pub leak_retries: u32,
    /// False for a job that must not run twice: whatever ends it, it is not submitted again.
    pub resubmit: bool,
    /// Are jobs of the user's that wait for an attempt told to wait for the one that replaces it?
    pub move_dependents: bool,
    /// Are nodes excluded that failed jobs of the project by themselves?
    pub exclude_bad_nodes: bool,
    /// Seconds until a submission that the scheduler refuses for now is made again; doubled with every refusal up to
    /// `refused_pause_max_s`.
    pub refused_pause_s: u64,
    /// Longest time until then, in seconds.
    pub refused_pause_max_s: u64,
    /// Seconds for which that is tried, from the first refusal on; 0 for never.
    pub refused_wait_s: u64,
    /// Seconds after which a job is cancelled, and the run ends, that waits for what no waiting brings; 0 for never.
    pub never_starts_s: u64,
    /// Seconds without progress of a running job after which that is told; 0 for never.
    pub stall_s: u64,
    /// Is such a job cancelled besides?
    pub stall_cancel: bool,
    /// Does `submit` on a terminal stay and watch, as with --watch?
    pub watch: bool,
    /// Is a configuration measured on phantom GPUs before it is submitted, as with --measure?
    pub measure: bool,
}

impl Default for Supervision {
    fn default() -> Self {
        Self {
            poll_s: 15,
            poll_max_s: 120,
            hang_grace_s: 60,
            settle_s: 30,
            drain_s: 5,
            late_logs_s: 90,
            node_failure_retries: 3,
            preemption_retries: 10,
            time_limit_retries: 0,
            co_tenant_retries: 2,
            late_oom_retries: 1,
            leak_retries: 5,
            resubmit: true,
            move_dependents: false,
            exclude_bad_nodes: true,
            refused_pause_s: 60,
            refused_pause_max_s: 900,
            refused_wait_s: 172_800,
            never_starts_s: 600,
            stall_s: 1_800,
            stall_cancel: false,
            watch: false,
            measure: false,
        }
    }
}
