//! Why an attempt ended: the incident.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bugs::KnownBug;
use super::class::{Class, Tri};
use super::course::{CoursePattern, MemoryCourse};
use super::engine_cache::EngineCache;
use super::evidence::Evidence;
use super::frame::Frame;
use super::snapshot::Snapshot;
use oomctl_base::job::ExitStatus;
use oomctl_base::units::Bytes;

/// The end of a remark that asks for what the code would tell.
pub(super) const CODE_ASKED: &str = "(does the code keep tensors without .item() or .detach()?)";

/// The note of a job that ended without a line in its logs.
pub const EMPTY_LOG: &str = "the log is empty: nothing shows that it trained";

/// The beginning of a remark on what may hold memory.
const PERHAPS: &str = "perhaps: ";

fn perhaps(place: &String) -> String {
    format!("{PERHAPS}{place}")
}

/// Why an attempt ended.
///
/// Field meanings are those of the labelled corpus; bytes are as printed by the first root failure,
/// `None` where the text has none. Figures may contradict each other (allocated larger than total);
/// they are reported as printed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
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
    /// `init`, `load`, `preparation`, `rollout`, `kv_cache`, `cuda_graph`, `wake_up`, `old_logprob`, `ref_logprob`,
    /// `critic`, `actor_update`, `optimizer_step`, `forward`, `backward`, `checkpoint`,
    /// `preprocessing`, `dataloader`, `eval`, `nccl`, `unknown`. An RL phase wins over forward or backward in it.
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
    /// Host memory that Ray saw where it ran out: the node's, or what the job's cgroup may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_total_bytes: Option<Bytes>,
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
    /// What a rollout engine says of its cache of keys and values, too small for one sequence or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_cache: Option<EngineCache>,
    /// What filled the GPU, by a snapshot of PyTorch's allocator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Snapshot>,
    /// One process drives several GPUs (`nn.DataParallel`), by its frames or its warnings.
    #[serde(default)]
    pub data_parallel: bool,
    /// An inference engine or Ray runs beside the trainer, by what the log prints.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub engine: bool,
    /// What other processes held of the GPU, this job's own or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside_bytes: Option<Bytes>,
    /// They held as much as the configuration gives its inference engine: it did not sleep while the models trained.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub engine_awake: bool,
    /// Other ranks of the job hold memory on the GPU of the one that died.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ranks_share_gpu: bool,
    /// It died while it held one number for each word of the vocabulary (logits, log-probabilities, the loss), by its frames, and did not
    /// ask for less than 3 % of the GPU.
    #[serde(default)]
    pub logits: bool,
    /// It died in attention that holds a score for each pair of positions, by its frames, and did not ask for less than 3 % of
    /// the GPU.
    #[serde(default)]
    pub attention_scores: bool,
    /// It died while it computed a layer of the model, forward or again in the backward pass, where no logits lie, by its frames.
    #[serde(default)]
    pub in_layer: bool,
    /// It died in an evaluation whose batches come from a loader of its own, by its frames.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own_loader: bool,
    /// What weights, gradients and the optimizer's states alone need of each GPU at least, where by the configuration that is more than
    /// it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub states_bytes: Option<Bytes>,
    /// Training step at which it died, where the log shows steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// Did it die in the first step (or before)? `None` when nothing was ever counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_step: Option<bool>,
    /// What memory did over the steps before; `None` where the log does not tell, or too little.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub course: Option<MemoryCourse>,
    /// The last line of the traceback that ended the program, where the failure is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exception: Option<String>,
    /// Where the program was: the innermost frame of the user's own code, or else the innermost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<Frame>,
    /// The frames of the user's own code in the traceback, the outermost first; of many, the first and the last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub own_frames: Vec<Frame>,
    /// The innermost frame of the traceback, as `path/file.py:function`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub innermost: Option<String>,
    /// The latest line that showed progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress_line: Option<String>,
    /// How the job ended, by the scheduler's count, where no signature tells why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<ExitStatus>,
    /// The last lines of the log, where no signature tells why it ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_lines: Vec<String>,
    /// Places of the program's own code that hold the memory, each with what to do about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub own_code: Vec<String>,
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
    /// Did the job end without a line in its logs? Then nothing shows that it did its work.
    pub fn is_of_empty_log(&self) -> bool {
        self.notes.iter().any(|note| note == EMPTY_LOG)
    }

    /// A process was killed, and nothing shows that it was for lack of host memory.
    pub fn is_bare_kill(&self) -> bool {
        self.class == Class::HostOom && self.is_host_oom == Tri::Ambiguous
    }

    /// Is one request `parts` of the `of` parts of the GPU, or more?
    pub(crate) fn asks_for(&self, parts: u64, of: u64) -> bool {
        let figures = self.requested_bytes.zip(self.total_bytes);
        figures.is_some_and(|(wanted, all)| all.0 > 0 && wanted.0 >= all.0 / of * parts)
    }

    /// Does memory fill up whatever a step needs? Then another way to train only delays the end.
    pub fn leaks(&self) -> bool {
        let course = self.course.as_ref();
        let rises = course.is_some_and(|course| course.pattern == CoursePattern::Leak);
        rises || !self.own_code.is_empty()
    }

    /// Takes places of the program that hold memory. Where it is uncertain that this failure is theirs, they are remarks.
    pub fn held_by_code(&mut self, places: Vec<String>, certain: bool) {
        if !certain {
            self.notes.extend(places.iter().map(perhaps));
            return;
        }
        if !places.is_empty() {
            self.notes.retain(|note| !note.ends_with(CODE_ASKED));
            self.helps.clone_from(&places);
            self.worse =
                vec!["smaller batches: the code would keep as much all the same".to_owned()];
        }
        self.own_code = places;
    }

    /// Takes places of which only a run would tell how much they hold. Where steps went well before they come before all else.
    pub fn held_perhaps(&mut self, places: Vec<String>) {
        let places: Vec<String> = places.iter().map(perhaps).collect();
        match self.first_step == Some(false) && self.own_code.is_empty() {
            true => drop(self.helps.splice(0..0, places)),
            false => self.notes.extend(places),
        }
    }

    /// What helps if it is only suspected of holding the memory.
    pub fn suspected(&self) -> impl Iterator<Item = &String> {
        let helps = self.helps.iter();
        helps.take_while(|help| help.starts_with(PERHAPS))
    }

    /// A fatal incident of which only kind and class are known; the class says what ran out.
    pub fn bare(kind: &str, class: Class) -> Self {
        Self {
            kind: kind.to_owned(),
            class,
            is_gpu_oom: Tri::of(matches!(class, Class::GpuOom | Class::EngineMemory)),
            is_host_oom: Tri::of(class == Class::HostOom),
            fatal: true,
            phase: "unknown".to_owned(),
            ..Self::default()
        }
    }
}
