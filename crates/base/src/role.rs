//! What a knob means, and what moving it does to the experiment.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a knob means to the ladder, the rules and the memory model: the one closed list beside data.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Samples (or prompts) per training step.
    TrainBatch,
    /// Samples per optimizer step.
    MiniBatch,
    /// Samples per forward and backward on one GPU.
    MicroBatch,
    /// Samples per forward of log-probabilities on one GPU.
    LogprobMicroBatch,
    /// Tokens per forward on one GPU, with dynamic batches.
    TokenBudget,
    /// Forwards per optimizer step.
    GradAccumulation,
    /// Dynamic batches on or off.
    DynamicBatch,
    /// Parameters kept in host memory between uses.
    ParamOffload,
    /// Optimizer states kept in host memory between uses.
    OptimizerOffload,
    /// Host memory locked for copies to the GPU.
    PinnedMemory,
    /// Weights loaded in one process of a node, which sends the others theirs.
    LoadOnce,
    /// Activations kept in host memory.
    ActivationOffload,
    /// Activations recomputed in the backward pass.
    GradientCheckpointing,
    /// The loss, log-probabilities or entropy without all logits at once.
    FusedLoss,
    /// Attention that never holds the scores of all pairs of positions.
    FusedAttention,
    /// Number format of weights or computation.
    Precision,
    /// Share of the GPU that the rollout engine takes, 0 to 1.
    RolloutMemoryFraction,
    /// Longest sequence that the rollout engine plans for, in tokens.
    RolloutContext,
    /// Whether the rollout engine frees its memory between rollouts.
    RolloutSleep,
    /// Sequences at a time in one rollout engine.
    RolloutSequences,
    /// Tokens in one forward of the rollout engine.
    RolloutTokens,
    /// No CUDA graphs in the rollout engine.
    RolloutEager,
    /// Samples per prompt.
    RolloutSamples,
    /// Longest prompt, in tokens.
    PromptLength,
    /// Longest response, in tokens.
    ResponseLength,
    /// Longest sequence, in tokens.
    SequenceLength,
    /// Tensor parallel size.
    TensorParallel,
    /// Sequence (Ulysses, context) parallel size.
    SequenceParallel,
    /// Pipeline parallel size.
    PipelineParallel,
    /// GPUs a node.
    GpusPerNode,
    /// Type of the GPU, as the scheduler calls it.
    GpuType,
    /// Nodes.
    Nodes,
    /// CPUs a node or a task.
    Cpus,
    /// Host memory a node.
    HostMemory,
    /// Wall-clock limit of the job.
    TimeLimit,
    /// Partition, queue.
    Partition,
    /// Features a node must have.
    Constraint,
    /// Nodes not to be used.
    ExcludedNodes,
    /// The command that starts the program.
    Launcher,
    /// Settings of the CUDA caching allocator.
    AllocatorConf,
    /// Samples per forward in evaluation.
    EvalBatch,
    /// Data loader workers.
    NumWorkers,
    /// Processes that prepare the data before the first step, such as tokenize it.
    PreprocessingWorkers,
    /// Whether the samples are kept in host memory.
    DataInMemory,
    /// Which model, or which size of it.
    ModelVariant,
    /// Rank of a low-rank adapter.
    LoraRank,
    /// Which device.
    Device,
    /// Steps between checkpoints.
    CheckpointInterval,
    /// What to do with an earlier checkpoint at the start.
    Resume,
    /// Name of the run, which oomctl sets: what belongs to one run alone is named after it.
    RunName,
    /// Version of the framework.
    FrameworkVersion,
}

impl Role {
    /// Roles on which the number of GPUs of a job hangs.
    pub fn counts_gpus(self) -> bool {
        matches!(self, Self::GpusPerNode | Self::Nodes)
    }

    /// Roles that count things of which there is at least one: their knobs are never below 1.
    pub fn counts_from_one(self) -> bool {
        matches!(
            self,
            Self::TrainBatch
                | Self::MiniBatch
                | Self::MicroBatch
                | Self::LogprobMicroBatch
                | Self::TokenBudget
                | Self::GradAccumulation
                | Self::RolloutContext
                | Self::RolloutSequences
                | Self::RolloutTokens
                | Self::RolloutSamples
                | Self::PromptLength
                | Self::ResponseLength
                | Self::SequenceLength
                | Self::TensorParallel
                | Self::SequenceParallel
                | Self::PipelineParallel
                | Self::GpusPerNode
                | Self::Nodes
                | Self::Cpus
                | Self::EvalBatch
                | Self::PreprocessingWorkers
                | Self::LoraRank
        )
    }
}

/// What moving a knob does to the experiment.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, Default, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// Same mathematics; costs speed only.
    #[default]
    SameMath,
    /// Takes other or more resources.
    Resources,
    /// Nobody could read what it does to the experiment.
    Unknown,
    /// Another experiment: results are not comparable without thought.
    ChangesTraining,
}

impl Effect {
    /// Is it not known to keep the mathematics?
    pub fn is_other(self) -> bool {
        matches!(self, Self::Unknown | Self::ChangesTraining)
    }

    /// The effect in the words of a message.
    pub fn describe(self) -> &'static str {
        match self {
            Self::SameMath => "same math",
            Self::Resources => "resources",
            Self::Unknown => "effect on training unknown",
            Self::ChangesTraining => "changes training",
        }
    }
}
