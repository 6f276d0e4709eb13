//! Spans of whole seconds between moments.

use jiff::Timestamp;

/// Seconds from `a` to `b`, negative when the clock went back.
pub(super) fn seconds(a: Timestamp, b: Timestamp) -> i64 {
    b.duration_since(a).as_secs()
}

/// A moment some seconds later; `None` when there is no such moment.
pub(super) fn after(at: Timestamp, seconds: u64) -> Option<Timestamp> {
    at.checked_add(jiff::SignedDuration::from_secs(signed(seconds)))
        .ok()
}

pub(super) fn signed(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

/// Seconds from `a` to `b`, 0 when the clock went back.
pub(super) fn passed(a: Timestamp, b: Timestamp) -> u64 {
    u64::try_from(seconds(a, b)).unwrap_or(0)
}
