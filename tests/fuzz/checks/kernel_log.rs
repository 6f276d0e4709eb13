//! Lines of a kernel's log: what is read stands there, and nothing is kept without bound.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use oomctl_gpu::{LogClock, Xid};

use super::allocations::within;

/// Bytes that reading may take, beside a multiple of the input.
const MOST_MEMORY: usize = 1 << 20;
/// Copies of a line that reading makes.
const MOST_TIMES: usize = 16;

pub fn check(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    within(MOST_MEMORY + MOST_TIMES * text.len(), || read(&text));
}

fn read(text: &str) {
    let clock = LogClock {
        boot: Some(Timestamp::UNIX_EPOCH),
        now: Timestamp::UNIX_EPOCH,
        zone: TimeZone::UTC,
    };
    let mut last = Vec::new();
    for line in text.lines() {
        if let Some(xid) = Xid::read(line, &clock) {
            assert!(line.contains(&xid.code.to_string()), "{xid:?}");
            assert!(!xid.text.chars().any(char::is_control), "{xid:?}");
            assert!(xid.text.chars().count() <= 200, "{xid:?}");
            xid.note(&mut last);
        }
    }
    assert!(last.len() <= 64, "{}", last.len());
}
