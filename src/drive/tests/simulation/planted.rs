//! Mistakes that are made on purpose, to see that the simulation finds them.

use jiff::Timestamp;

use crate::core::job::{JobRef, Token};
use crate::io::scheduler::{Found, NoAnswer, Poll, Scheduler, Submission, SubmitAnswer};

/// A mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// Nothing is synchronised.
    NoSync,
    /// A submission whose answer was lost is simply repeated.
    SubmitAgain,
    /// Nobody looks whether the run is still theirs.
    NoOwner,
    /// A job that squeue and sacct do not show has ended.
    EmptyIsEnded,
    /// A search without an answer found nothing.
    NoAnswerIsNone,
    /// A restarted supervisor trusts that what it intended was not submitted.
    NoEpoch,
    /// A survived out-of-memory counts as one that hangs.
    NoGrace,
    /// A job is its id.
    IdAlone,
    /// A token that is not found once or twice does not exist.
    NoSettling,
}

impl Bug {
    pub const ALL: [Self; 9] = [
        Self::NoSync,
        Self::SubmitAgain,
        Self::NoOwner,
        Self::EmptyIsEnded,
        Self::NoAnswerIsNone,
        Self::NoEpoch,
        Self::NoGrace,
        Self::IdAlone,
        Self::NoSettling,
    ];
}

/// A scheduler with a mistake in it.
pub struct Planted<S> {
    pub right: S,
    pub bug: Option<Bug>,
}

impl<S: Scheduler> Scheduler for Planted<S> {
    fn name(&self) -> &'static str {
        self.right.name()
    }

    fn submit(&mut self, submission: &Submission, now: Timestamp) -> SubmitAnswer {
        let answer = self.right.submit(submission, now);
        let unclear = matches!(answer, SubmitAnswer::Unclear { .. });
        if unclear && self.bug == Some(Bug::SubmitAgain) {
            return self.right.submit(submission, now);
        }
        answer
    }

    fn find(&mut self, tokens: &[Token], since: Timestamp) -> Result<Vec<Found>, NoAnswer> {
        let found = self.right.find(tokens, since);
        if self.bug == Some(Bug::NoAnswerIsNone) {
            return Ok(found.unwrap_or_default());
        }
        found
    }

    fn poll(&mut self, jobs: &[JobRef], now: Timestamp) -> Result<Poll, NoAnswer> {
        let mut jobs = jobs.to_vec();
        if self.bug == Some(Bug::IdAlone) {
            jobs.iter_mut().for_each(|job| job.token = None);
        }
        let mut poll = self.right.poll(&jobs, now)?;
        if self.bug == Some(Bug::EmptyIsEnded) {
            let known = |job: &&JobRef| !poll.jobs.iter().any(|s| s.id == job.id);
            let missing: Vec<_> = jobs.iter().filter(known).map(|j| j.id.clone()).collect();
            poll.vanished.extend(missing);
        }
        Ok(poll)
    }

    fn cancel(&mut self, job: &JobRef) -> Result<(), NoAnswer> {
        self.right.cancel(job)
    }
}
