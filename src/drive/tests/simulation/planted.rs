//! Mistakes that are made on purpose, to see that the simulation finds them.

use jiff::Timestamp;

use crate::io::scheduler::{FoundJob, JobSubmission, NoAnswer, Poll, Scheduler, SubmitAnswer};
use oomctl_base::job::{JobRef, Token};

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
    /// What was heard of the jobs lately is how they are now.
    OldAnswer,
    /// What a search found lately is what there is now.
    OldSearch,
}

/// Seconds for which an old answer is trusted, about as long as caches of file systems are.
const TRUSTED_S: i64 = 60;

impl Bug {
    pub const ALL: [Self; 11] = [
        Self::NoSync,
        Self::SubmitAgain,
        Self::NoOwner,
        Self::EmptyIsEnded,
        Self::NoAnswerIsNone,
        Self::NoEpoch,
        Self::NoGrace,
        Self::IdAlone,
        Self::NoSettling,
        Self::OldAnswer,
        Self::OldSearch,
    ];

    /// Where the search for it begins: no seed before was seen to show it.
    pub fn first_seed(self) -> u64 {
        match self {
            Self::OldAnswer => 1_180,
            _ => 0,
        }
    }
}

/// A scheduler with a mistake in it.
pub struct Planted<S> {
    right: S,
    bug: Option<Bug>,
    /// What was heard, and when.
    heard: Option<(Timestamp, Poll)>,
    /// What was found, and how often that was told since.
    found: Option<(usize, Vec<FoundJob>)>,
}

impl<S> Planted<S> {
    pub fn new(right: S, bug: Option<Bug>) -> Self {
        Self {
            right,
            bug,
            heard: None,
            found: None,
        }
    }
}

impl<S: Scheduler> Scheduler for Planted<S> {
    fn name(&self) -> &'static str {
        self.right.name()
    }

    fn submit(&mut self, submission: &JobSubmission, now: Timestamp) -> SubmitAnswer {
        let answer = self.right.submit(submission, now);
        let unclear = matches!(answer, SubmitAnswer::Unclear { .. });
        if unclear && self.bug == Some(Bug::SubmitAgain) {
            return self.right.submit(submission, now);
        }
        answer
    }

    fn find(&mut self, tokens: &[Token], since: Timestamp) -> Result<Vec<FoundJob>, NoAnswer> {
        if self.bug == Some(Bug::OldSearch)
            && let Some((told, found)) = self.found.as_mut().filter(|(told, _)| *told < 4)
        {
            *told += 1;
            return Ok(found.clone());
        }
        let found = self.right.find(tokens, since);
        self.found = found.clone().ok().map(|found| (0, found));
        if self.bug == Some(Bug::NoAnswerIsNone) {
            return Ok(found.unwrap_or_default());
        }
        found
    }

    fn poll(&mut self, jobs: &[JobRef], now: Timestamp) -> Result<Poll, NoAnswer> {
        let trusted = |at: Timestamp| now.duration_since(at).as_secs() < TRUSTED_S;
        if self.bug == Some(Bug::OldAnswer)
            && let Some((_, poll)) = self.heard.as_ref().filter(|(at, _)| trusted(*at))
        {
            return Ok(poll.clone());
        }
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
        self.heard = Some((now, poll.clone()));
        Ok(poll)
    }

    fn cancel(&mut self, job: &JobRef) -> Result<(), NoAnswer> {
        self.right.cancel(job)
    }
}
