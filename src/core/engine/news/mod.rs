//! What somebody who does not watch wants to hear of a run, and how often.
//!
//! Rule: what was told is a fact, written before it is told. A notice may be lost with the process that was about to
//! give it; none is given twice.

mod notification;
mod pause;

use jiff::Timestamp;

use super::fact::{Fact, Record};
use super::outcome::{Outcome, Verdict};
use crate::core::request::{NewsKind, Notices};
pub use notification::{Notification, NotifiedEvent, mask, notification};
pub use pause::Pause;

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

#[cfg(test)]
mod tests;
