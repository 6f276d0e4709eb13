//! What the ladder answers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::context::Policy;
use crate::core::recipe::Layer;
use oomctl_base::units::Bytes;
use oomctl_base::{Effect, Value};
use oomctl_memory::Phase;

/// One value that a rung changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// Knob name.
    pub knob: String,
    /// Value before.
    pub from: Value,
    /// Value after.
    pub to: Value,
    /// What this does to the experiment, beside what the rung changes with it.
    pub effect: Effect,
    /// The user's own script's word for the knob, such as `--batch-size`, where it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub called: Option<String>,
}

impl Change {
    /// What people call the knob: the script's own word, or else its name.
    pub fn name(&self) -> &str {
        self.called.as_deref().unwrap_or(&self.knob)
    }

    /// `256 -> 128`, with the given arrow; `unset` where there is no value.
    pub fn values(&self, arrow: &str) -> String {
        format!("{} {arrow} {}", self.from.shown(), self.to.shown())
    }

    /// Whether it makes one number another.
    pub fn is_of_numbers(&self) -> bool {
        let is_number = |value: &Value| matches!(value, Value::Int(_) | Value::Float(_));
        is_number(&self.from) && is_number(&self.to)
    }

    /// Changes of one knob after another as one change.
    pub fn joined<'a>(all: impl Iterator<Item = &'a Self>) -> Vec<Self> {
        let mut changes: Vec<Self> = Vec::new();
        for change in all {
            match changes.iter_mut().find(|c| c.knob == change.knob) {
                Some(earlier) => earlier.to = change.to.clone(),
                None => changes.push(change.clone()),
            }
        }
        changes
    }
}

/// A rung that was not taken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Skipped {
    /// Its name.
    pub rung: String,
    /// Why, for people.
    pub reason: String,
    /// It changes only what the user's scripts do not have.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub aside: bool,
    /// What it changes, where oomctl cannot edit the scripts so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_hand: Vec<Change>,
}

impl Skipped {
    /// A rung, and why it was not taken.
    pub fn new(rung: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            rung: rung.into(),
            reason: reason.into(),
            aside: false,
            by_hand: Vec::new(),
        }
    }

    /// The reason of a rung that finds nothing to change.
    pub const NOTHING_LEFT: &str = "nothing left to change";
    /// The reason of a rung whose condition does not hold and gives none.
    pub const NOT_HERE: &str = "does not apply here";
    /// The reason of a rung that answers another class of failure.
    pub(super) const OTHER_CLASS: &str = "for another kind of failure";

    /// Whether the rung could not have been meant for this failure. A preset says that with "only for …"; behind
    /// ", if …" stands what the job may lack.
    pub fn is_for_another_failure(&self) -> bool {
        let narrowed = self.reason.starts_with("only for ") && !self.reason.contains(", if ");
        self.reason == Self::OTHER_CLASS || narrowed
    }
}

/// The first rung that oomctl cannot put into the scripts.
pub fn cannot_edit(skipped: &[Skipped]) -> Option<&Skipped> {
    skipped.iter().find(|s| !s.by_hand.is_empty())
}

/// A rung that is taken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// Its name.
    pub rung: String,
    /// What it does, for people.
    pub title: String,
    /// What it changes.
    pub changes: Vec<Change>,
    /// The strongest effect of the changes.
    pub effect: Effect,
    /// Remarks: legal values that had to be taken instead of the target, what is lost.
    pub notes: Vec<String>,
    /// True when it changes the number of GPUs or the sharding, so that a checkpoint may not load.
    pub reshards: bool,
    /// The layer to put on the stack.
    pub layer: Layer,
}

impl Step {
    /// The rungs before it, and it.
    pub fn on(&self, rungs: &[Layer]) -> Vec<Layer> {
        rungs.iter().chain([&self.layer]).cloned().collect()
    }
}

/// What the memory model expects of a configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Expectation {
    /// Probability that every phase fits the GPU.
    pub fits_probability: f64,
    /// Expected peak on the fullest GPU in bytes.
    pub peak_bytes: Bytes,
    /// The phase of the peak.
    pub phase: String,
    /// What a GPU has in bytes; none in what older versions wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_bytes: Option<Bytes>,
    /// Expected need of each phase, in the order of time; none in what older versions wrote.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseNeed>,
    /// Share of its speed that the job loses by the decision, from 0 to below 1, where presets say what costs how much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slower: Option<f64>,
}

/// What a phase is expected to need.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseNeed {
    /// The phase.
    pub phase: Phase,
    /// On the fullest GPU, in bytes.
    pub bytes: Bytes,
}

/// What is missing where nothing within reach fits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Shortfall {
    /// The least that is expected to be needed on a GPU within reach, in bytes.
    pub least_bytes: Bytes,
    /// The phase that needs it.
    pub phase: String,
    /// Memory that each GPU has, in bytes.
    pub gpu_bytes: Bytes,
    /// GPUs of the whole job that the reach ends with.
    pub gpus: u64,
    /// Probability to fit of what fits best.
    pub fits_probability: f64,
    /// The fewest GPUs of this size that would do, where a number does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enough_gpus: Option<u64>,
    /// The least memory of each of as many GPUs that would do, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enough_gpu_bytes: Option<Bytes>,
    /// What is expected on each of these GPUs where nothing is sharded over them and weights and states were, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharded_bytes: Option<Bytes>,
    /// What host memory would be needed a node, where that is what is short, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enough_host_bytes: Option<Bytes>,
}

/// The ladder's answer to an incident.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Take these rungs, all for the next attempt.
    Climb {
        /// At least one, in the order in which they are put on the stack.
        steps: Vec<Step>,
        /// Rungs before the first that were passed over.
        skipped: Vec<Skipped>,
        /// What the memory model expects of the result, where it could be asked.
        expects: Option<Expectation>,
    },
    /// No rung is left.
    Exhausted {
        /// Every rung with its reason.
        skipped: Vec<Skipped>,
        /// What would fit, where the memory model says that nothing within reach does.
        shortfall: Option<Shortfall>,
    },
}
impl Decision {
    /// The first rung that is taken.
    pub fn first(&self) -> Option<&Step> {
        match self {
            Self::Climb { steps, .. } => steps.first(),
            Self::Exhausted { .. } => None,
        }
    }

    /// Whether it makes another experiment of the job.
    pub fn changes_training(&self) -> bool {
        let trains = |step: &Step| step.effect == Effect::ChangesTraining;
        matches!(self, Self::Climb { steps, .. } if steps.iter().any(trains))
    }

    /// Whether it takes what a policy forbids.
    pub fn is_forbidden(&self, policy: Policy) -> bool {
        let forbidden = |step: &Step| policy.forbids(step.effect);
        matches!(self, Self::Climb { steps, .. } if steps.iter().any(forbidden))
    }

    /// Probability that it fits; `None` where nothing is expected, or nothing is left to try.
    pub fn fits(&self) -> Option<f64> {
        match self {
            Self::Climb { expects, .. } => Some(expects.as_ref()?.fits_probability),
            Self::Exhausted { .. } => None,
        }
    }

    /// Why oomctl cannot edit the scripts, where that alone stands in the way.
    pub fn cannot_edit(&self) -> Option<&str> {
        match self {
            Self::Exhausted { skipped, .. } => cannot_edit(skipped).map(|s| s.reason.as_str()),
            Self::Climb { .. } => None,
        }
    }

    /// The rungs that were passed over.
    pub fn skipped_mut(&mut self) -> &mut Vec<Skipped> {
        match self {
            Self::Climb { skipped, .. } | Self::Exhausted { skipped, .. } => skipped,
        }
    }
}
