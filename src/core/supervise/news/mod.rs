//! What somebody who does not watch wants to hear of a run, whom to tell, and how often.
//!
//! Rule: what was told is a fact, written before it is told. A notice may be lost with the process that was about to
//! give it; none is given twice.

mod notification;
mod pause;

use std::path::PathBuf;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fact::{Fact, Record};
use super::outcome::{Outcome, Verdict};
pub use notification::{Notification, Told, mask, notification};
pub use pause::Pause;

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
    #[must_use]
    pub fn is_end(self) -> bool {
        matches!(self, Self::Succeeded | Self::GaveUp)
    }
}

/// Something that happened to a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    /// Number of the fact that says so.
    pub seq: u64,
    /// When that was written.
    pub at: Timestamp,
    /// What happened.
    pub kind: NewsKind,
    /// The attempt, where it is about one.
    pub attempt: Option<u32>,
    /// Seconds without progress, where that is what happened.
    pub quiet_s: Option<u64>,
}

/// The news of a run: what was not told yet, and how often something was.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewsLog {
    waiting: Vec<News>,
    told: u32,
}

impl NewsLog {
    /// Takes one record in.
    pub fn take(&mut self, record: &Record) {
        if let Fact::Noticed { until } = &record.fact {
            self.waiting.retain(|news| news.seq > *until);
            self.told = self.told.saturating_add(1);
        }
        let (kind, attempt, quiet_s) = match &record.fact {
            Fact::Decided { attempt, verdict } => match **verdict {
                Verdict::Climb { .. } => (NewsKind::Escalated, Some(*attempt), None),
                _ => return,
            },
            Fact::Stalled {
                attempt, quiet_s, ..
            } => (NewsKind::Hung, Some(*attempt), Some(*quiet_s)),
            Fact::Idle { attempt, idle_s } => (NewsKind::Stalled, Some(*attempt), Some(*idle_s)),
            Fact::Finished { outcome } => match outcome {
                Outcome::Succeeded => (NewsKind::Succeeded, None, None),
                Outcome::Cancelled { .. } | Outcome::Pruned { .. } => return,
                _ => (NewsKind::GaveUp, None, None),
            },
            _ => return,
        };
        self.waiting.push(News {
            seq: record.seq,
            at: record.at,
            kind,
            attempt,
            quiet_s,
        });
    }

    /// What is to be told now. Once as much was told of the run as may be, its end alone is.
    #[must_use]
    pub fn due(&self, notices: &Notices) -> Vec<&News> {
        let enough = self.told >= notices.at_most;
        let due = |news: &&News| notices.on.contains(&news.kind) && (news.kind.is_end() || !enough);
        self.waiting.iter().filter(due).collect()
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
    #[must_use]
    pub fn reach_nobody(&self) -> bool {
        self.command.is_empty()
            && self.slack.is_none()
            && self.ntfy.is_none()
            && self.mail.is_none()
    }
}

#[cfg(test)]
mod tests;
