//! The parts of a job that have a peak of memory each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A part of a job with its own peak of memory, in the words of a diagnosis where there is one.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Weights are read and placed.
    Load,
    /// The engine generates.
    Rollout,
    /// Old log-probabilities.
    OldLogprob,
    /// Log-probabilities of the reference policy.
    RefLogprob,
    /// The critic is updated.
    Critic,
    /// The end of the forward pass of training.
    Forward,
    /// The backward pass.
    Backward,
    /// The step of the optimizer.
    OptimizerStep,
    /// New weights go to the engine.
    WakeUp,
    /// A checkpoint is written.
    Checkpoint,
}

impl Phase {
    /// Its word in JSON.
    pub fn word(self) -> String {
        let value = serde_json::to_value(self).unwrap_or_default();
        value.as_str().unwrap_or_default().to_owned()
    }

    /// The same in tables and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Rollout => "rollout",
            Self::OldLogprob => "old log-prob",
            Self::RefLogprob => "ref log-prob",
            Self::Critic => "critic update",
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::OptimizerStep => "optimizer step",
            Self::WakeUp => "wake up",
            Self::Checkpoint => "checkpoint",
        }
    }
}
