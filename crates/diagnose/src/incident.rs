//! Why an attempt ended: the incident.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bugs::KnownBug;
use super::course::Course;
use super::engine_cache::EngineCache;
use super::frame::Frame;
use super::snapshot::Snapshot;
use oomctl_base::job::ExitStatus;
use oomctl_base::units::Bytes;

/// The class of a failure: which family of remedies applies.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Device memory of the GPU ran out.
    GpuOom,
    /// An inference engine's own memory budget does not fit (vLLM KV cache, start-up check). The
    /// remedy may have the opposite sign of an allocator's OOM.
    EngineMemory,
    /// Host memory ran out.
    HostOom,
    /// Shared memory (`/dev/shm`) ran out.
    Shm,
    /// Not a memory failure, or no failure at all; `kind` says which.
    NotOom,
}

impl Class {
    /// Its name in files and flags.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::GpuOom => "gpu_oom",
            Self::EngineMemory => "engine_memory",
            Self::HostOom => "host_oom",
            Self::Shm => "shm",
            Self::NotOom => "not_oom",
        }
    }
}

/// True, false, or cannot be told from what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tri {
    /// Yes.
    True,
    /// No.
    #[default]
    False,
    /// The text alone cannot tell.
    Ambiguous,
}

impl Serialize for Tri {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::True => s.serialize_bool(true),
            Self::False => s.serialize_bool(false),
            Self::Ambiguous => s.serialize_str("ambiguous"),
        }
    }
}

impl<'de> Deserialize<'de> for Tri {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        match serde_json::Value::deserialize(d)? {
            serde_json::Value::Bool(true) => Ok(Self::True),
            serde_json::Value::Bool(false) => Ok(Self::False),
            _ => Ok(Self::Ambiguous),
        }
    }
}

/// What a line of evidence is to the failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceRole {
    /// The first fatal failure in time: the cause.
    Root,
    /// Follows from the root (collective timeout, actor died, SIGTERM).
    Consequence,
    /// Says the same again, or completes the root with figures.
    Confirmation,
    /// Text that speaks of memory without a failure.
    Advice,
    /// A failure that the program survived.
    Survived,
}

/// One line that proves something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// Signature that matched (`torch_cuda_oom`), or `scheduler` for a fact that is not in a log.
    pub signature: String,
    /// What the line is to the failure.
    pub role: EvidenceRole,
    /// File it stands in, as the reader named the source; empty for the scheduler.
    pub file: String,
    /// Line number from 1, counting `\n` only.
    pub line: u64,
    /// Byte offset of the start of the line.
    pub offset: u64,
    /// The text, lossily decoded, without control characters, at most 1,000 characters.
    pub text: String,
}

/// Why an attempt ended.
///
/// Field meanings are those of the labelled corpus; bytes are as printed by the first root failure,
/// `None` where the text has none. Figures may contradict each other (allocated larger than total);
/// they are reported as printed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Incident {
    /// `cuda_oom`, `cuda_driver_oom`, `hip_oom`, `cublas_alloc`, `nccl_oom`, `vllm_kv_cache`,
    /// `vllm_startup_memory`, `host_oom`, `nccl_timeout`, `node_failure`, `time_limit`, `preempted`,
    /// `config`, `code_bug`, `network`, `disk`, `other`, `no_failure`, …
    pub kind: String,
    /// Family of remedies.
    pub class: Class,
    /// Is it a GPU OOM?
    pub is_gpu_oom: Tri,
    /// Is it a host OOM?
    pub is_host_oom: Tri,
    /// Did the program die of it?
    pub fatal: bool,
    /// Would the same job, unchanged, have a fair chance? `None` where that cannot be told.
    pub retryable_unchanged: Option<bool>,
    /// `init`, `load`, `rollout`, `kv_cache`, `cuda_graph`, `wake_up`, `old_logprob`, `ref_logprob`,
    /// `critic`, `actor_update`, `optimizer_step`, `forward`, `backward`, `checkpoint`,
    /// `dataloader`, `eval`, `nccl`, `unknown`. An RL phase wins over forward or backward in it.
    pub phase: String,
    /// GPU index as printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_index: Option<u32>,
    /// Rank as printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// The allocation that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_bytes: Option<Bytes>,
    /// Capacity of the GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<Bytes>,
    /// Free on the GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<Bytes>,
    /// Allocated by PyTorch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated_bytes: Option<Bytes>,
    /// Reserved by PyTorch (allocated included).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_bytes: Option<Bytes>,
    /// Reserved but unallocated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_unallocated_bytes: Option<Bytes>,
    /// What other processes hold on the GPU, when our own cannot explain the bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub co_tenant_bytes: Option<Bytes>,
    /// Reserved-but-unallocated is at least the request.
    #[serde(default)]
    pub fragmentation: bool,
    /// What a rollout engine says of a cache that is too small for one sequence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_cache: Option<EngineCache>,
    /// What filled the GPU, by a snapshot of PyTorch's allocator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Snapshot>,
    /// One process drives several GPUs (`nn.DataParallel`), by its frames or its warnings.
    #[serde(default)]
    pub data_parallel: bool,
    /// Training step at which it died, where the log shows steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// Did it die in the first step (or before)? `None` when no step was ever printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_step: Option<bool>,
    /// What memory did over the steps before; `None` where the log does not tell, or too little.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub course: Option<Course>,
    /// The last line of the traceback that ended the program, where the failure is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exception: Option<String>,
    /// Where the program was: the innermost frame of the user's own code, or else the innermost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<Frame>,
    /// The latest line that showed progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress_line: Option<String>,
    /// How the job ended, by the scheduler's count, where no signature tells why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<ExitStatus>,
    /// The last lines of the log, where no signature tells why it ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_lines: Vec<String>,
    /// Bugs of a version that it is, or may be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known_bugs: Vec<KnownBug>,
    /// What helps, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub helps: Vec<String>,
    /// What makes it worse, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub worse: Vec<String>,
    /// Lines that prove it; the root comes first.
    pub evidence: Vec<Evidence>,
    /// What followed from it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consequences: Vec<Evidence>,
    /// Remarks for people: contradicting figures, truncated evidence, what could not be told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Incident {
    /// A fatal incident of which only kind and class are known; the class says what ran out.
    #[must_use]
    pub fn bare(kind: &str, class: Class) -> Self {
        let yes = |is: bool| if is { Tri::True } else { Tri::False };
        Self {
            kind: kind.to_owned(),
            class,
            is_gpu_oom: yes(matches!(class, Class::GpuOom | Class::EngineMemory)),
            is_host_oom: yes(class == Class::HostOom),
            fatal: true,
            retryable_unchanged: None,
            phase: "unknown".to_owned(),
            device_index: None,
            rank: None,
            requested_bytes: None,
            total_bytes: None,
            free_bytes: None,
            allocated_bytes: None,
            reserved_bytes: None,
            reserved_unallocated_bytes: None,
            co_tenant_bytes: None,
            fragmentation: false,
            engine_cache: None,
            snapshot: None,
            data_parallel: false,
            step: None,
            first_step: None,
            course: None,
            exception: None,
            frame: None,
            progress_line: None,
            exit: None,
            last_lines: Vec::new(),
            known_bugs: Vec::new(),
            helps: Vec::new(),
            worse: Vec::new(),
            evidence: Vec::new(),
            consequences: Vec::new(),
            notes: Vec::new(),
        }
    }
}

/// How far training has come, as the log shows it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Last finished training step, as printed: a bar may begin anew in every epoch, or count what is left
    /// of a run that was resumed.
    pub step: u64,
    /// Steps in all, where the log says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// Steps that this attempt itself has finished, where these are not `step`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<u64>,
}

impl Progress {
    /// Steps that the attempt itself has finished.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.own.unwrap_or(self.step)
    }

    /// Did it come further than another attempt of the run did? `None` where the printed steps cannot tell.
    #[must_use]
    pub fn is_further_than(&self, before: &Self) -> Option<bool> {
        if self.done() == 0 {
            return Some(false);
        }
        // A bar that began anew tells no place, and one with another end counts from another beginning.
        let restarted = |p: &Self| p.done() > p.step;
        let same_end = self.total.is_none() || before.total.is_none() || self.total == before.total;
        let told = same_end && !restarted(self) && !restarted(before);
        told.then_some(self.step > before.step)
    }

    /// The tenth of the way in which this step is, or its tens where the end is not known: what is worth a
    /// line, where each step is not.
    #[must_use]
    pub fn tenth(&self) -> u64 {
        match self.total {
            Some(total) if total > 0 => self.step.saturating_mul(10) / total,
            _ => self.step / 10,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(step: u64, total: Option<u64>, own: Option<u64>) -> Progress {
        Progress { step, total, own }
    }

    #[test]
    fn how_far_two_attempts_came_is_compared_only_where_their_steps_are_places() {
        let further = |now: Progress, before: Progress| now.is_further_than(&before);
        let of = |step| progress(step, Some(100), None);
        assert_eq!(further(of(40), of(40)), Some(false));
        assert_eq!(further(of(41), of(40)), Some(true));
        // Resumed, and nothing came of it.
        assert_eq!(
            further(progress(40, Some(100), Some(0)), of(30)),
            Some(false)
        );
        // A bar of what was left, and bars of epochs.
        assert_eq!(further(progress(40, Some(60), None), of(40)), None);
        assert_eq!(further(of(10), progress(50, Some(100), Some(150))), None);
    }
}
