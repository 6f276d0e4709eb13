//! Who is told of a run without watching it, and of what.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NewsKind {
    /// An attempt ran out of memory, and the next one has further rungs.
    Escalated,
    /// A job hangs after a failure, and is cancelled.
    Hung,
    /// A running job has shown no progress for long.
    Stalled,
    /// The run ended in success.
    Succeeded,
    /// The run ended otherwise, and nobody had asked for that.
    GaveUp,
}

impl NewsKind {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Escalated,
        Self::Hung,
        Self::Stalled,
        Self::Succeeded,
        Self::GaveUp,
    ];

    /// Is the run over with it?
    pub fn is_end(self) -> bool {
        matches!(self, Self::Succeeded | Self::GaveUp)
    }
}

/// Whom to tell of what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct Notices {
    /// What is told of.
    pub on: Vec<NewsKind>,
    /// A program and its arguments; it is given JSON on standard input.
    pub command: Vec<String>,
    /// Seconds that the program may take.
    pub time_limit_s: u64,
    /// Seconds between two notices of a process, at first.
    pub pause_s: u64,
    /// Notices of one run, its end apart.
    pub at_most: u32,
}

impl Default for Notices {
    fn default() -> Self {
        Self {
            on: NewsKind::ALL.to_vec(),
            command: Vec::new(),
            time_limit_s: 20,
            pause_s: 60,
            at_most: 20,
        }
    }
}
