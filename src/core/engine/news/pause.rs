//! How often something is told: at once, and then ever less often while much happens.

use jiff::{SignedDuration, Timestamp};

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
    #[must_use]
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
