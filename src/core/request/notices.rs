//! Who is told of a run without watching it, and of what.

use std::path::PathBuf;

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

/// Where the address of a service comes from: it is as good as a password, and never written down by us.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Address {
    /// A variable of the environment.
    UrlEnv(String),
    /// A file that only its owner can read; `~/` is the home folder.
    UrlFile(PathBuf),
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
    /// An incoming webhook of Slack's, or of a service that takes the same.
    pub slack: Option<Address>,
    /// A topic of ntfy's.
    pub ntfy: Option<Address>,
    /// An address for mail.
    pub mail: Option<String>,
    /// Seconds that telling one of them may take.
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
            slack: None,
            ntfy: None,
            mail: None,
            time_limit_s: 20,
            pause_s: 60,
            at_most: 20,
        }
    }
}

impl Notices {
    /// The variables that hold addresses.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        let addresses = [&self.slack, &self.ntfy].into_iter().flatten();
        addresses.filter_map(|address| match address {
            Address::UrlEnv(name) => Some(name.as_str()),
            Address::UrlFile(_) => None,
        })
    }

    /// Is there nobody to tell?
    pub fn reach_nobody(&self) -> bool {
        self.command.is_empty()
            && self.slack.is_none()
            && self.ntfy.is_none()
            && self.mail.is_none()
    }
}
