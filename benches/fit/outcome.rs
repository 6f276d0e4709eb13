//! What the bench asks of a truth, whichever family it is of.

use oomctl_diagnose::Incident;

use super::setup::Setup;

/// The phases of a job, in the words of an incident.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    Load,
    EngineStart,
    Cache,
    Graphs,
    WakeUp,
    OldLogprob,
    RefLogprob,
    ActorUpdate,
    Forward,
    Backward,
    OptimizerStep,
    Checkpoint,
}

impl Phase {
    /// As an incident names it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::EngineStart => "init",
            Self::Cache => "kv_cache",
            Self::Graphs => "cuda_graph",
            Self::WakeUp => "wake_up",
            Self::OldLogprob => "old_logprob",
            Self::RefLogprob => "ref_logprob",
            Self::ActorUpdate => "actor_update",
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::OptimizerStep => "optimizer_step",
            Self::Checkpoint => "checkpoint",
        }
    }
}

/// Bytes used on the GPU at the peak of a phase that passed, as a sampler would see them.
pub type Peaks = Vec<(Phase, u64)>;

/// How an attempt ended.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// What the log says; `None` for an attempt that ran to its end.
    pub incident: Option<Incident>,
    /// The phase in which it died, which its log need not tell.
    pub died: Option<Phase>,
    /// Phases that passed, in time.
    pub peaks: Peaks,
    /// Seconds until it failed or ended.
    pub seconds: f64,
    /// Tokens per second and GPU in a step.
    pub speed: f64,
}

/// What an oracle looks for sizes of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    Update,
    OldLogprob,
    RefLogprob,
}

/// What is true of a job and hidden from policies.
pub trait Truth: Send + Sync {
    /// Runs the job to its end.
    fn run(&self, setup: &Setup) -> Outcome;
    /// Whether it fits, without its log.
    fn fits(&self, setup: &Setup) -> bool;
    /// Whether one part fits, once all that stays on the GPU is there.
    fn holds(&self, setup: &Setup, part: Part) -> bool;
    /// Whether the engine starts.
    fn starts(&self, setup: &Setup) -> bool;
    /// Whether the engine wakes up beside the trainer.
    fn wakes(&self, setup: &Setup) -> bool;
    /// Tokens per second and GPU.
    fn speed(&self, setup: &Setup) -> f64;
    /// Bytes that each phase would use on a GPU without end.
    fn needs(&self, setup: &Setup) -> Peaks;
    /// The same with all that grows while the job runs counted from its first step.
    fn late(&self) -> Box<dyn Truth>;
    /// The term that the product does not know, if there is one.
    fn unknown(&self) -> String;
    /// All of it, for a reader.
    fn told(&self) -> String;
}
