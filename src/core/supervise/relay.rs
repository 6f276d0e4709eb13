//! Watching in turns: small jobs, each of which takes one look at a run and hands over to the next.
//!
//! No process stays on a login node. The next turn is in the queue before the present one does anything, so a turn
//! that is killed ends nothing.

use serde::{Deserialize, Serialize};

use super::history::History;
use super::phase::Phase;
use crate::core::job::{JobId, JobRef};

/// One turn of the watch over a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// Its number, from 1; each sends the next.
    pub number: u32,
    /// The job that takes it.
    pub job: JobId,
}

impl Turn {
    /// Whether this turn comes after the last one that was begun. A job that was requeued takes its own turn again;
    /// another job with the same number is a duplicate, left by a turn that was killed and sent its successor twice.
    #[must_use]
    pub fn follows(&self, begun: Option<&Self>) -> bool {
        begun.is_none_or(|begun| self.number > begun.number || self == begun)
    }
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
#[must_use]
pub fn next_look(history: &History) -> NextLook {
    let job = history.attempt().and_then(|attempt| attempt.job.clone());
    match (history.phase(), job) {
        (Phase::Finished, _) => NextLook::Never,
        (Phase::Live, Some(job)) if job.cluster.is_none() => NextLook::After(job),
        _ => NextLook::Later,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(number: u32, job: &str) -> Turn {
        Turn {
            number,
            job: JobId(job.to_owned()),
        }
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
    fn a_run_that_has_not_begun_is_looked_at_later() {
        assert_eq!(next_look(&History::default()), NextLook::Later);
    }
}
