//! Watching in turns: small jobs, each of which takes one look at a run and hands over to the next.
//!
//! No process stays on a login node. The next turn is in the queue before the present one does anything, so a turn
//! that is killed ends nothing.

use serde::{Deserialize, Serialize};

use jiff::Timestamp;

use super::state::{History, RunPhase};
use crate::core::request::Limits;
use oomctl_base::job::{JobId, JobRef};

/// Seconds after which a run is looked at again whose last turn came to nothing; doubled with each further one.
const AGAIN_S: u32 = 300;
/// Longest time between two such turns, in seconds.
const AGAIN_MAX_S: u32 = 4 * 3_600;
/// Turns in a row that may come to nothing: the pauses between them add up to two days, longer than an outage lasts that
/// nobody looks at.
const IN_VAIN_MAX: u32 = 17;

/// One turn of the watch over a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchTurn {
    /// Its number, from 1; each sends the next.
    pub number: u32,
    /// The job that takes it.
    pub job: JobId,
    /// True when it did its work.
    #[serde(default)]
    pub done: bool,
    /// The watch job that stands ready meanwhile, and takes the next turn where this one comes to nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<JobId>,
}

impl WatchTurn {
    /// Whether this turn comes after the last one that was begun. A job that was requeued takes its own turn again;
    /// another job with the same number is a duplicate, left by a turn that was killed and sent its successor twice.
    pub fn follows(&self, begun: Option<&Self>) -> bool {
        let same = |begun: &Self| self.number == begun.number && self.job == begun.job;
        begun.is_none_or(|begun| self.number > begun.number || same(begun))
    }

    /// How many turns in a row came to nothing before this one. `sent` is that number as the turn knew it that sent this
    /// one before it began its work, itself counted; it stands unless that turn wrote down that it was done.
    pub fn in_vain(&self, begun: Option<&Self>, sent: u32) -> u32 {
        let done = |begun: &Self| begun.done && begun.number.checked_add(1) == Some(self.number);
        if begun.is_some_and(done) { 0 } else { sent }
    }
}

/// Why no further turn is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GiveUp {
    /// So many in a row came to nothing.
    InVain {
        /// How many.
        turns: u32,
    },
    /// What the run was given is over.
    WallTime {
        /// The bound in seconds.
        limit_s: u64,
    },
}

impl std::fmt::Display for GiveUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::InVain { turns } => write!(f, "{turns} watch jobs in a row did nothing"),
            Self::WallTime { limit_s } => {
                write!(
                    f,
                    "the run's {limit_s} s of wall time are over, and this watch job did nothing"
                )
            }
        }
    }
}

/// How long to wait after a turn that came to nothing, in seconds, when `before` turns in a row had done so before it.
///
/// # Errors
/// Why there is to be none.
pub fn after_nothing(
    before: u32,
    limits: &Limits,
    created: Option<Timestamp>,
    now: Timestamp,
) -> Result<u32, GiveUp> {
    let turns = before.saturating_add(1);
    if turns >= IN_VAIN_MAX {
        return Err(GiveUp::InVain { turns });
    }
    if let (Some(limit_s), Some(created)) = (limits.wall_time_s, created)
        && now.duration_since(created).as_secs() > i64::try_from(limit_s).unwrap_or(i64::MAX)
    {
        return Err(GiveUp::WallTime { limit_s });
    }
    Ok(AGAIN_S.saturating_mul(1 << before.min(16)).min(AGAIN_MAX_S))
}

/// When a run has to be looked at again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextLook {
    /// Never: it is over.
    Never,
    /// When this job has ended.
    After(JobRef),
    /// Some time later: it waits for something that is no job of its own.
    Later,
}

/// When a run has to be looked at again. A job on another cluster is waited for by asking, since a dependency on it is
/// taken as met at once where its cluster is no federation's (sbatch(1), `--dependency`).
pub fn next_look(history: &History) -> NextLook {
    let job = history.attempt().and_then(|attempt| attempt.job.clone());
    match (history.phase(), job) {
        (RunPhase::Finished, _) => NextLook::Never,
        (RunPhase::Live, Some(job)) if job.cluster.is_none() => NextLook::After(job),
        _ => NextLook::Later,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(number: u32, job: &str) -> WatchTurn {
        WatchTurn {
            number,
            job: JobId(job.to_owned()),
            done: false,
            ready: None,
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    #[test]
    fn each_number_is_taken_by_one_job_only() {
        assert!(turn(1, "10").follows(None));
        assert!(turn(2, "11").follows(Some(&turn(1, "10"))));
        assert!(turn(2, "11").follows(Some(&turn(2, "11"))), "requeued");
        assert!(!turn(2, "12").follows(Some(&turn(2, "11"))), "a duplicate");
        assert!(!turn(1, "10").follows(Some(&turn(2, "11"))), "late");
    }

    #[test]
    fn the_first_turn_follows_the_note_that_its_job_stands_ready() {
        let noted = WatchTurn {
            ready: Some(JobId("9".to_owned())),
            ..turn(0, "")
        };
        assert!(turn(1, "9").follows(Some(&noted)));
        let text = serde_json::to_string(&noted).unwrap();
        assert_eq!(serde_json::from_str::<WatchTurn>(&text).unwrap(), noted);
    }

    #[test]
    fn turns_that_come_to_nothing_come_less_and_less_often_and_then_no_more() {
        let limits = Limits::default();
        let wait = |before| after_nothing(before, &limits, Some(at(0)), at(9_999_999));
        assert_eq!((wait(0), wait(1), wait(2)), (Ok(300), Ok(600), Ok(1_200)));
        assert_eq!((wait(6), wait(15)), (Ok(14_400), Ok(14_400)));
        assert_eq!(wait(16), Err(GiveUp::InVain { turns: 17 }));
        assert_eq!(wait(u32::MAX), Err(GiveUp::InVain { turns: u32::MAX }));
        let all: u32 = (0..16).filter_map(|before| wait(before).ok()).sum();
        assert!((40..=60).contains(&(all / 3_600)), "{} hours", all / 3_600);
        let limits = Limits {
            wall_time_s: Some(7_200),
            ..limits
        };
        assert_eq!(after_nothing(0, &limits, Some(at(0)), at(7_200)), Ok(300));
        let over = after_nothing(0, &limits, Some(at(0)), at(7_201));
        assert_eq!(over, Err(GiveUp::WallTime { limit_s: 7_200 }));
    }

    #[test]
    fn a_turn_that_was_done_ends_the_row() {
        let (second, mut first) = (turn(2, "11"), turn(1, "10"));
        assert_eq!(second.in_vain(None, 3), 3, "nothing could be recorded");
        assert_eq!(second.in_vain(Some(&first), 3), 3);
        first.done = true;
        assert_eq!(second.in_vain(Some(&first), 3), 0);
        assert_eq!(
            turn(3, "12").in_vain(Some(&first), 4),
            4,
            "the one between was not done"
        );
        assert!(first.follows(Some(&turn(1, "10"))), "requeued");
        let before: WatchTurn = serde_json::from_str(r#"{"number":1,"job":"10"}"#).unwrap();
        assert_eq!(before, turn(1, "10"));
    }

    #[test]
    fn a_run_that_has_not_begun_is_looked_at_later() {
        assert_eq!(next_look(&History::default()), NextLook::Later);
    }
}
