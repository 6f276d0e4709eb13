//! A knob: one named parameter of a training stack, as its preset declares it.

use schemars::JsonSchema;
use semver::{Version, VersionReq};
use serde::Deserialize;

use super::spelling::{Reader, Spelling};
use super::value::{Kind, Value};

/// What a knob means to the ladder, the rules and the memory model: the one closed list beside data.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Deserialize,
    serde::Serialize,
    JsonSchema,
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
    /// Activations kept in host memory.
    ActivationOffload,
    /// Activations recomputed in the backward pass.
    GradientCheckpointing,
    /// The loss, log-probabilities or entropy without all logits at once.
    FusedLoss,
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
    #[must_use]
    pub fn counts_gpus(self) -> bool {
        matches!(self, Self::GpusPerNode | Self::Nodes)
    }

    /// Roles that count things of which there is at least one: their knobs are never below 1.
    #[must_use]
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
                | Self::LoraRank
        )
    }
}

/// What moving a knob does to the experiment.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Deserialize,
    serde::Serialize,
    Default,
    JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// Same mathematics; costs speed only.
    #[default]
    SameMath,
    /// Takes other or more resources.
    Resources,
    /// Another experiment: results are not comparable without thought.
    ChangesTraining,
}

impl Effect {
    /// The effect in the words of a message.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::SameMath => "same math, slower",
            Self::Resources => "resources",
            Self::ChangesTraining => "changes training",
        }
    }
}

/// A scalar as written in a preset: parsed later as the knob's kind.
#[derive(Debug, Clone, PartialEq, Deserialize, serde::Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Scalar {
    /// `true`, `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// Text.
    Text(String),
    /// A list of texts.
    List(Vec<String>),
    /// Names to texts.
    Map(std::collections::BTreeMap<String, String>),
}

/// What differs for some versions of the framework. The first entry whose range holds wins; a field
/// left out keeps the knob's own.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VersionedKnob {
    /// Range of versions, in semver's notation (`>=0.4.0, <0.6.0`).
    #[schemars(with = "String")]
    pub versions: VersionReq,
    /// Spelling in these versions.
    #[serde(default)]
    pub spelling: Option<Spelling>,
    /// Default in these versions.
    #[serde(default)]
    pub default: Option<Scalar>,
    /// True when the parameter does not exist in these versions: it is not rendered, and setting it is an error.
    #[serde(default)]
    pub absent: bool,
    /// Remark shown by `explain`.
    #[serde(default)]
    pub note: Option<String>,
}

/// A knob, as declared in a preset or knob set.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Knob {
    /// The framework's own name, shortened where it stays unique. Dots make groups in templates and expressions.
    pub name: String,
    /// What it means to ladder, rules and memory model.
    #[serde(default)]
    pub role: Option<Role>,
    /// How it is handed over.
    #[serde(default)]
    pub spelling: Option<Spelling>,
    /// Who reads it, where others have an option or a key of the same name.
    #[serde(default)]
    pub reader: Reader,
    /// Kind of value.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// `sequences`, `tokens`, `GPUs`, …
    #[serde(default)]
    pub unit: Option<String>,
    /// Least value.
    #[serde(default)]
    pub min: Option<f64>,
    /// Greatest value.
    #[serde(default)]
    pub max: Option<f64>,
    /// The only values allowed.
    #[serde(default)]
    pub choices: Vec<String>,
    /// For text that goes where no quoting exists (an `#SBATCH` line): a regular expression that
    /// the whole text must match.
    #[serde(default)]
    pub pattern: Option<String>,
    /// Value when no layer sets one; absent means null: nothing is rendered.
    #[serde(default)]
    pub default: Option<Scalar>,
    /// Expression for the value when no layer sets one; wins over `default`.
    #[serde(default)]
    pub default_expr: Option<String>,
    /// What moving it does to the experiment.
    #[serde(default)]
    pub effect: Effect,
    /// True for a value that users must give.
    #[serde(default)]
    pub required: bool,
    /// Phases of an incident in which it changes how much GPU memory is needed (`backward`, `wake_up`); an empty list
    /// for a knob that frees none by itself. Absent where nobody has looked: then it may act in each.
    #[serde(default)]
    pub acts_on: Option<Vec<String>>,
    /// Expression; when it is false the knob is not handed over (`not use_dynamic_bsz`).
    #[serde(default)]
    pub render_when: Option<String>,
    /// One sentence for `explain` and the starter file.
    pub doc: String,
    /// Where the default and the meaning were read.
    #[serde(default)]
    pub source: Option<String>,
    /// Differences by version.
    #[serde(default)]
    pub by_version: Vec<VersionedKnob>,
}

impl Knob {
    /// What it takes, for somebody who gave it something else.
    #[must_use]
    pub fn takes(&self) -> String {
        let range = match (self.min, self.max) {
            (Some(min), Some(max)) => format!(" from {min} to {max}"),
            (Some(min), None) => format!(" from {min} up"),
            (None, Some(max)) => format!(" up to {max}"),
            (None, None) => String::new(),
        };
        let what = match (&self.pattern, &self.choices[..]) {
            (_, choices @ [_, ..]) => format!("one of {}", choices.join(", ")),
            (Some(pattern), []) => format!("{} of the form {pattern}", self.kind.noun()),
            (None, []) => format!("{}{range}", self.kind.noun()),
        };
        format!("{} takes {what}: {}", self.name, self.doc)
    }
}

/// A default as written in YAML, as a value of the knob's kind.
///
/// # Errors
/// What was expected.
pub fn default_value(kind: Kind, scalar: &Scalar) -> Result<Value, String> {
    match (kind, scalar) {
        (Kind::List, Scalar::List(items)) => Ok(Value::List(items.clone())),
        (Kind::List, Scalar::Map(map)) if map.is_empty() => Ok(Value::List(Vec::new())),
        (Kind::Map, Scalar::Map(map)) => Ok(Value::Map(map.clone())),
        (Kind::List | Kind::Map, _) | (_, Scalar::List(_) | Scalar::Map(_)) => {
            Err(format!("expected {}", kind.noun()))
        }
        (_, Scalar::Bool(b)) => kind.parse(if *b { "true" } else { "false" }),
        (_, Scalar::Int(i)) => kind.parse(&i.to_string()),
        (_, Scalar::Float(x)) => kind.parse(&x.to_string()),
        (_, Scalar::Text(t)) => kind.parse(t),
    }
}

/// The knob as it is in `version`, or its name and remark when it does not exist there.
pub(super) fn at_version(
    mut knob: Knob,
    version: Option<&Version>,
) -> Result<Knob, (String, Option<String>)> {
    let Some(version) = version else {
        return Ok(knob);
    };
    let Some(entry) = knob
        .by_version
        .iter()
        .find(|v| v.versions.matches(version))
        .cloned()
    else {
        return Ok(knob);
    };
    if entry.absent {
        return Err((knob.name, entry.note));
    }
    knob.spelling = entry.spelling.or(knob.spelling);
    if entry.default.is_some() {
        knob.default = entry.default;
        knob.default_expr = None;
    }
    Ok(knob)
}
