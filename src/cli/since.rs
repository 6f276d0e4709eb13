//! A moment from which on something counts, as people write it.

use jiff::Timestamp;

use oomctl_base::units::parse_duration_s;

/// From when on.
#[derive(Debug, Clone, Copy)]
pub enum Since {
    /// So many seconds ago.
    Ago(u64),
    /// This moment.
    At(Timestamp),
}

impl Since {
    /// The moment, by the time that it is now.
    pub fn before(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Ago(seconds) => {
                let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
                now.checked_sub(jiff::SignedDuration::from_secs(seconds))
                    .unwrap_or(Timestamp::MIN)
            }
        }
    }
}

/// Reads one.
///
/// # Errors
/// A message with examples.
pub fn since(text: &str) -> Result<Since, String> {
    let day = text.parse::<jiff::civil::Date>();
    if let Ok(day) = day {
        let start = day.to_zoned(jiff::tz::TimeZone::system());
        return start
            .map(|z| Since::At(z.timestamp()))
            .map_err(|e| e.to_string());
    }
    let bare = text.chars().all(|c| c.is_ascii_digit());
    let seconds = parse_duration_s(text).ok().filter(|_| !bare);
    seconds
        .map(Since::Ago)
        .ok_or_else(|| format!("`{text}` is not a time (7d, 12h, 90m) or a day (2026-11-01)"))
}
