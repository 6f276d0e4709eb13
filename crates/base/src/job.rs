//! A job as a scheduler sees it: identity, state, exit status. Nothing here knows which scheduler.
//!
//! State names are Slurm's (`job_state_string` in SchedMD/slurm `src/common/slurm_protocol_defs.c`);
//! the local backend reports in the same words.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Bytes;
use crate::word_list;

pub use crate::exit_status::ExitStatus;

/// A scheduler's job id, as text: `4711`, or an array task `4711_3`.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema, Default,
)]
#[serde(transparent)]
pub struct JobId(pub String);

impl std::fmt::Display for JobId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name that travels with a job (job name and comment) so that it can be found again when the
/// answer to its submission was lost: `oomctl-<run>-<attempt>-<8 hex>`, only `[A-Za-z0-9._-]`; for a task of a
/// job array, which travels under the array's, with `_<index>` behind it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(pub String);

impl Token {
    /// The token of a task of the job array that has this one: `<token>_<index>`, as Slurm writes the task's id.
    pub fn task(&self, index: u32) -> Self {
        Self(format!("{}_{index}", self.0))
    }

    /// The token of the array in which tasks of this one go at a later attempt.
    pub fn at_attempt(&self, attempt: u32) -> Self {
        let parts = self.0.rsplit_once('-').and_then(|(before, random)| {
            let (run, _) = before.rsplit_once('-')?;
            Some((run, random))
        });
        Self(parts.map_or_else(
            || self.0.clone(),
            |(run, random)| format!("{run}-{attempt}-{random}"),
        ))
    }

    /// For the token of a task of an array, that of the array, and the task's index.
    pub fn array(&self) -> Option<(Self, u32)> {
        let (array, index) = self.0.rsplit_once('_')?;
        let (_, random) = array.rsplit_once('-')?;
        let hex = random.len() == 8 && random.bytes().all(|b| b.is_ascii_hexdigit());
        let plain = index.bytes().all(|b| b.is_ascii_digit());
        let index = index.parse().ok().filter(|_| hex && plain)?;
        Some((Self(array.to_owned()), index))
    }
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// One submitted job. Ids are reused after a controller crash, so a job is its id, its token and
/// its submit time together, never the id alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRef {
    /// The scheduler's id.
    pub id: JobId,
    /// The cluster, where `sbatch --parsable` answered `id;cluster`; later calls need `-M cluster`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// Our token; `None` for a job that oomctl did not submit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Token>,
    /// When we learned that the job was accepted (our clock).
    pub submitted: Timestamp,
}

impl JobRef {
    /// A job that oomctl did not submit, on the cluster that answers here.
    pub fn foreign(id: &str, submitted: Timestamp) -> Self {
        Self {
            id: JobId(id.to_owned()),
            cluster: None,
            token: None,
            submitted,
        }
    }
}

/// State of a job: Slurm's 12 base states, the flags that change what we do, and the unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum JobState {
    /// Waits for resources, a dependency, a begin time, or is held.
    Pending,
    /// Allocated, nodes still booting or in the prolog.
    Configuring,
    /// Runs.
    Running,
    /// Stopped by a signal or an administrator, may go on.
    Suspended,
    /// The end is decided, processes may still run. Never resubmit before this is over.
    Completing,
    /// Goes back to the queue under the same id (`REQUEUED`, `REQUEUE_FED`).
    Requeued,
    /// Requeued and held (`REQUEUE_HOLD`, `SPECIAL_EXIT`).
    RequeueHold,
    /// Ended with exit code 0.
    Completed,
    /// Ended by a user or administrator.
    Cancelled,
    /// Ended with another exit code or by a signal.
    Failed,
    /// Reached its time limit.
    Timeout,
    /// A node of the job failed.
    NodeFail,
    /// Ended for a job of higher priority.
    Preempted,
    /// A node did not boot, or the launch failed (`BOOT_FAIL`, `LAUNCH_FAILED`).
    BootFail,
    /// Reached its deadline.
    Deadline,
    /// Host memory ran out (never GPU memory).
    OutOfMemory,
    /// A word that this version does not know. Unknown never means success, failure or
    /// "submit again": it means "ask again later".
    #[serde(untagged)]
    Unknown(String),
}

/// The states that are known, with Slurm's own word and what each means for a supervisor.
pub static STATES: [(JobState, &str, Stage); 16] = [
    (JobState::Pending, "PENDING", Stage::Waiting),
    (JobState::Configuring, "CONFIGURING", Stage::Waiting),
    (JobState::Running, "RUNNING", Stage::Running),
    (JobState::Suspended, "SUSPENDED", Stage::Running),
    (JobState::Completing, "COMPLETING", Stage::Ending),
    (JobState::Requeued, "REQUEUED", Stage::Waiting),
    (JobState::RequeueHold, "REQUEUE_HOLD", Stage::Waiting),
    (JobState::Completed, "COMPLETED", Stage::Ended),
    (JobState::Cancelled, "CANCELLED", Stage::Ended),
    (JobState::Failed, "FAILED", Stage::Ended),
    (JobState::Timeout, "TIMEOUT", Stage::Ended),
    (JobState::NodeFail, "NODE_FAIL", Stage::Ended),
    (JobState::Preempted, "PREEMPTED", Stage::Ended),
    (JobState::BootFail, "BOOT_FAIL", Stage::Ended),
    (JobState::Deadline, "DEADLINE", Stage::Ended),
    (JobState::OutOfMemory, "OUT_OF_MEMORY", Stage::Ended),
];

/// Reasons to wait that no waiting cures, in Slurm's words (`src/common/job_state_reason.c`, 26.05).
const NEVER: [&str; 8] = word_list(
    "PartitionTimeLimit AccountNotAllowed QOSNotAllowed InvalidAccount InvalidQOS BadConstraints
     DependencyNeverSatisfied ReservationDeleted",
);

/// How PBS's scheduler begins its comment on such a job (`src/scheduler/job_info.cpp`).
const NEVER_OF_PBS: &str = "Can Never Run";

/// Can a job that waits for this never start by itself? A limit on a single job, which the request breaks, is one
/// (`QOSMaxGRESPerJob`, `AssocMaxWallDurationPerJobLimit`, `QOSMinGRES`), a limit on all jobs of somebody is not. More
/// nodes than the partition has is none either: so Slurm names it too where nodes are down (squeue(1), `PartitionNodeLimit`).
pub fn never_passes(reason: &str) -> bool {
    let of_one = |limit: &str| limit.contains("PerJob") || limit.contains("PerNode");
    let most = reason
        .strip_prefix("QOSMax")
        .or(reason.strip_prefix("AssocMax"));
    NEVER.contains(&reason)
        || reason.starts_with(NEVER_OF_PBS)
        || most.is_some_and(of_one)
        || reason.starts_with("QOSMin")
}

/// What a state means for a supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Not running yet (also requeued jobs).
    Waiting,
    /// Processes run.
    Running,
    /// The end is decided but not complete.
    Ending,
    /// Final.
    Ended,
    /// Not known.
    Unknown,
}

impl Default for JobState {
    fn default() -> Self {
        Self::Unknown(String::new())
    }
}

impl JobState {
    /// The state of one of Slurm's words.
    pub fn named(word: &str) -> Option<Self> {
        let row = STATES.iter().find(|row| row.1 == word);
        row.map(|row| row.0.clone())
    }

    /// What the state means for a supervisor.
    pub fn stage(&self) -> Stage {
        let row = STATES.iter().find(|row| row.0 == *self);
        row.map_or(Stage::Unknown, |row| row.2)
    }

    /// Slurm's own word.
    pub fn word(&self) -> &str {
        let row = STATES.iter().find(|row| row.0 == *self);
        match self {
            Self::Unknown(word) => word,
            _ => row.map_or("", |row| row.1),
        }
    }
}

/// A GPU that a program was started on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GpuUsed {
    /// NVML's index; of a MIG device that of its GPU.
    pub index: u32,
    /// UUID, as in `CUDA_VISIBLE_DEVICES`.
    pub uuid: String,
    /// Product name.
    pub name: String,
    /// Capacity.
    pub total_bytes: Bytes,
    /// Bytes that were free at the start.
    pub free_bytes: Bytes,
}

/// The GPUs that a program could be given when it was started.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct RunMachine {
    /// The one that it got; none on the CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuUsed>,
    /// Capacity of each GPU, by UUID.
    pub capacities: BTreeMap<String, Bytes>,
}

impl RunMachine {
    /// What must be equal for two attempts to be compared: the model of the GPU and its capacity.
    pub fn model(&self) -> String {
        let gpu = self.gpu.as_ref();
        gpu.map_or_else(
            || "none".to_owned(),
            |gpu| format!("{}, {}", gpu.name, gpu.total_bytes),
        )
    }
}

/// What a job used of its nodes beside their GPUs, and what it was given, as accounting has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct HostUse {
    /// Resident memory at the peak: the tasks' peaks added up, of the step that had most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_peak: Option<Bytes>,
    /// Memory that the job was given on all its nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_given: Option<Bytes>,
    /// Seconds of CPU time of all steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_s: Option<u64>,
    /// CPUs of the job times the seconds that it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_given_s: Option<u64>,
}

impl HostUse {
    /// Share of its memory that the job used at the peak.
    pub fn memory_share(&self) -> Option<f64> {
        let given = self.memory_given.filter(|given| given.0 > 0)?;
        Some(self.memory_peak?.gib() / given.gib())
    }

    /// Share of its CPU time that the job used.
    pub fn cpu_share(&self) -> Option<f64> {
        let given = self.cpu_given_s.filter(|given| *given > 0)?;
        Some(self.cpu_s? as f64 / given as f64)
    }
}

/// What a scheduler says about one job at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct JobStatus {
    /// The job's id.
    pub id: JobId,
    /// The number of its own that a task of an array gets when it starts (`%j` in the names of logs).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<String>,
    /// State.
    pub state: JobState,
    /// Slurm's pending or end reason, as printed (`Resources`, `QOSMaxGRESPerUser`, …).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Exit of the job, when it has ended and the scheduler knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<ExitStatus>,
    /// Highest exit of any step (`DerivedExitCode`), when known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub derived_exit: Option<ExitStatus>,
    /// True when any step ended in `OUT_OF_MEMORY` although the job did not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub step_out_of_memory: bool,
    /// Node names, expanded; empty before the job runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// How often the job was restarted under the same id.
    #[serde(default)]
    pub restarts: u32,
    /// Start of the present run of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    /// End, for an ended job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// Expected start of a pending job, where the scheduler says one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_start: Option<Timestamp>,
    /// For a cancelled job, who cancelled it, as the scheduler prints it (`1000`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled_by: Option<String>,
    /// Seconds that its earlier parts ran, of a job that was restarted and of which accounting keeps each part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran_before_s: Option<u64>,
    /// True when the job said so of itself at the end of its script: the scheduler still calls it running for a
    /// moment, and what is submitted meanwhile has to wait for its true end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub self_reported: bool,
    /// Where `oomctl run` started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Box<RunMachine>>,
    /// What it used of its nodes, of an ended job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Box<HostUse>>,
}

/// Whom a scheduler names, in words: Slurm tells a user by number.
pub fn somebody(by: &str) -> String {
    match by.parse::<u32>() {
        Ok(0) => "root".to_owned(),
        Ok(_) => format!("the user with id {by}"),
        Err(_) => by.to_owned(),
    }
}

impl JobStatus {
    /// A status with only id and state, as for a job of which nothing else is known.
    pub fn bare(id: JobId, state: JobState) -> Self {
        Self {
            id,
            state,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_limit_that_the_request_breaks_never_passes_and_one_on_all_jobs_does() {
        for reason in "QOSMaxGRESPerJob QOSMaxWallDurationPerJobLimit AssocMaxCpuMinutesPerJobLimit
             QOSMaxMemoryPerNode QOSMinGRES PartitionTimeLimit BadConstraints"
            .split_whitespace()
        {
            assert!(never_passes(reason), "{reason}");
        }
        for reason in [
            "QOSMaxGRESPerUser",
            "QOSMaxJobsPerUserLimit",
            "QOSMaxSubmitJobPerUserLimit",
            "AssocGrpGRES",
            "AssocMaxJobsLimit",
            "PartitionNodeLimit",
            "PartitionDown",
            "Resources",
            "Dependency",
            "JobHeldUser",
            "",
        ] {
            assert!(!never_passes(reason), "{reason}");
        }
    }

    proptest! {
        /// A run may be called anything: only what was made of an array's token is a task's.
        #[test]
        fn the_token_of_a_task_leads_back_to_its_array(
            run in "[A-Za-z0-9][A-Za-z0-9._-]{0,20}(_[0-9]{1,3})?", attempt in 1_u32..9, random in "[0-9a-f]{8}", index in 0_u32..5_000,
        ) {
            let token = Token(format!("oomctl-{run}-{attempt}-{random}"));
            prop_assert_eq!(token.array(), None);
            prop_assert_eq!(token.task(index).array(), Some((token.clone(), index)));
            prop_assert_eq!(token.at_attempt(attempt + 1).at_attempt(attempt), token);
        }
    }
}
