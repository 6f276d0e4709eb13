//! A clock that nobody can set: waiting is counted in it, and a wait that somebody else's hand on the
//! clock makes shorter is how a job gets submitted twice.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::io::uptime::uptime;

/// Where the time comes from. Tests bring their own.
pub type TimeSource = Box<dyn Fn() -> Timestamp>;

/// The time at the start of something, and what has passed since by a clock that only goes forward.
#[derive(Debug, Clone, Copy)]
pub(super) struct Anchor {
    wall: Timestamp,
    uptime: Duration,
}

impl Anchor {
    /// What the wall clock shows now, and how long the machine has been up.
    pub(super) fn new(wall: Timestamp, uptime: Duration) -> Self {
        Self { wall, uptime }
    }

    /// The time when the machine has been up for so long.
    pub(super) fn at(&self, uptime: Duration) -> Timestamp {
        let passed = SignedDuration::try_from(uptime.saturating_sub(self.uptime));
        self.wall
            .checked_add(passed.unwrap_or(SignedDuration::MAX))
            .unwrap_or(self.wall)
    }
}

/// The wall clock as it was when this was called, going on at the pace of the machine, sleep included.
pub fn monotonic_clock() -> TimeSource {
    let anchor = Anchor::new(Timestamp::now(), uptime());
    Box::new(move || anchor.at(uptime()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_changes_no_wait() {
        let wall = Timestamp::from_second(1_800_000_000).unwrap();
        let anchor = Anchor::new(wall, Duration::from_secs(50));
        let later = anchor.at(Duration::from_millis(62_500));
        assert_eq!(later.duration_since(wall).as_millis(), 12_500);
        assert_eq!(anchor.at(Duration::from_secs(50)), wall);
        assert_eq!(anchor.at(Duration::ZERO), wall);
    }

    #[test]
    fn it_goes_forward() {
        let clock = monotonic_clock();
        assert!(clock() <= clock());
    }
}
