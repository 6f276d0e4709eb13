//! Which runs are wanted.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::super::print::row::Row;
use crate::core::units::parse_duration_s;

/// What a run must be to be listed.
#[derive(Debug, clap::Args)]
pub struct Wanted {
    /// Runs that ended since then or have not ended: a duration before now (3d, 12h), or a date (2026-11-01)
    #[arg(long, value_name = "WHEN", value_parser = since)]
    since: Option<Since>,
    /// Runs that stand or ended like this, as the column STATE has it; several with commas
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    state: Vec<String>,
    /// Runs with such a failure, as the column CAUSE has it (cuda_oom, time_limit, …); several with commas
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    cause: Vec<String>,
    /// Runs with this in their name
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
}

/// A moment, or one so many seconds before now.
#[derive(Debug, Clone, Copy)]
enum Since {
    At(Timestamp),
    Ago(i64),
}

fn since(text: &str) -> Result<Since, String> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(Since::At(at));
    }
    if let Ok(date) = text.parse::<Date>() {
        let at = date
            .to_zoned(TimeZone::system())
            .map_err(|e| e.to_string())?;
        return Ok(Since::At(at.timestamp()));
    }
    let seconds = parse_duration_s(text)
        .ok()
        .and_then(|s| i64::try_from(s).ok());
    let why = "is neither a duration (3d, 12h, 90m) nor a date (2026-11-01) nor a time (2026-11-01T08:00:00Z)";
    seconds.map(Since::Ago).ok_or_else(|| why.to_owned())
}

impl Since {
    fn before(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Ago(seconds) => {
                let ago = SignedDuration::from_secs(seconds);
                now.checked_sub(ago).unwrap_or(Timestamp::MIN)
            }
        }
    }
}

impl Wanted {
    /// Is this one of them?
    pub fn has(&self, row: &Row, now: Timestamp) -> bool {
        let ended = row.exit_code.and(row.ended.or(row.created));
        let late = |since: Since| ended.is_none_or(|at| at >= since.before(now));
        let one_of = |wanted: &[String], has: Option<&str>| {
            wanted.is_empty() || wanted.iter().any(|w| Some(w.as_str()) == has)
        };
        self.since.is_none_or(late)
            && one_of(&self.state, Some(&row.state))
            && one_of(&self.cause, row.cause.as_deref())
            && self
                .name
                .as_ref()
                .is_none_or(|name| row.run.contains(name.as_str()))
    }
}
