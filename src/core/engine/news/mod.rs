//! What somebody who does not watch wants to hear of a run, and how often.
//!
//! Rule: what was told is a fact, written before it is told. A notice may be lost with the process that was about to
//! give it; none is given twice.

mod notification;

use jiff::{SignedDuration, Timestamp};

use super::fact::{Fact, Record};
use super::outcome::{Outcome, Verdict};
use crate::core::request::{NewsKind, Notices};

pub use notification::{Notification, NotifiedEvent, mask, notification};

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
    pub fn due(&self, notices: &Notices) -> Vec<&News> {
        let enough = self.told >= notices.at_most;
        let due = |news: &&News| notices.on.contains(&news.kind) && (news.kind.is_end() || !enough);
        self.waiting.iter().filter(due).collect()
    }
}

#[cfg(test)]
mod tests;

/// Longest pause between two notices, in seconds: what happens meanwhile is told in one.
const LONGEST_S: u64 = 3_600;

/// The pause between two notices of a process. It doubles with each, up to an hour, and is short again after a quiet
/// while: a day in which something fails every minute is some thirty notices, and one failure is told at once.
#[derive(Debug, Clone, Default)]
pub struct Pause {
    last: Option<Timestamp>,
    length_s: u64,
}

impl Pause {
    /// May something be told now?
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.last
            .is_none_or(|last| now >= after(last, self.length_s))
    }

    /// Something is told now; the first pause has so many seconds.
    pub fn told(&mut self, now: Timestamp, first_s: u64) {
        let quiet = |last| now >= after(last, self.length_s.saturating_mul(2));
        self.length_s = match self.last {
            Some(last) if !quiet(last) => self.length_s.saturating_mul(2),
            _ => first_s,
        };
        self.length_s = self.length_s.min(LONGEST_S.max(first_s));
        self.last = Some(now);
    }
}

fn after(at: Timestamp, seconds: u64) -> Timestamp {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    at.saturating_add(SignedDuration::from_secs(seconds))
        .unwrap_or(Timestamp::MAX)
}
