//! A scheduler as the job itself sees it whose script comes to its end.

use jiff::Timestamp;

use super::{Dependent, FoundJob, JobSubmission, NoAnswer, Poll, Scheduler, SubmitAnswer};
use crate::core::request::StartForecast;
use oomctl_base::job::{ExitStatus, JobId, JobRef, JobState, JobStatus, Stage, Token};

/// A scheduler that is asked by a job at the end of its own script. It still says that this job runs; what becomes of it
/// is known already, and said to be the job's own word.
pub struct EndingJobScheduler<S> {
    inner: S,
    job: JobId,
    code: i32,
}

impl<S: Scheduler> EndingJobScheduler<S> {
    /// Around a scheduler that knows `job`, whose script ends with exit code `code`.
    pub fn new(inner: S, job: JobId, code: i32) -> Self {
        Self { inner, job, code }
    }

    /// What is said of the job, with its end in it.
    fn told(&self, status: JobStatus, now: Timestamp) -> JobStatus {
        if status.id != self.job || status.state.stage() == Stage::Ended {
            return status;
        }
        let state = match self.code {
            0 => JobState::Completed,
            _ => JobState::Failed,
        };
        let exit = ExitStatus::of(self.code, 0);
        JobStatus {
            state,
            exit: Some(exit),
            ended: Some(now),
            self_reported: true,
            ..status
        }
    }
}

impl<S: Scheduler> Scheduler for EndingJobScheduler<S> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn submit(&mut self, submission: &JobSubmission, now: Timestamp) -> SubmitAnswer {
        self.inner.submit(submission, now)
    }

    fn find(&mut self, tokens: &[Token], since: Timestamp) -> Result<Vec<FoundJob>, NoAnswer> {
        self.inner.find(tokens, since)
    }

    fn look_on_clusters(&mut self, clusters: &[String]) {
        self.inner.look_on_clusters(clusters);
    }

    fn poll(&mut self, jobs: &[JobRef], now: Timestamp) -> Result<Poll, NoAnswer> {
        let mut poll = self.inner.poll(jobs, now)?;
        poll.jobs = poll
            .jobs
            .into_iter()
            .map(|status| self.told(status, now))
            .collect();
        Ok(poll)
    }

    fn cancel(&mut self, job: &JobRef) -> Result<(), NoAnswer> {
        self.inner.cancel(job)
    }

    fn array_limit(&mut self) -> Option<usize> {
        self.inner.array_limit()
    }

    fn dependents(&mut self, job: &JobRef) -> Vec<Dependent> {
        self.inner.dependents(job)
    }

    fn redirect(
        &mut self,
        dependent: &Dependent,
        from: &JobId,
        to: &JobRef,
    ) -> Result<(), NoAnswer> {
        self.inner.redirect(dependent, from, to)
    }

    fn forecast(&mut self, submission: &JobSubmission) -> Result<Option<StartForecast>, NoAnswer> {
        self.inner.forecast(submission)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says that every job runs.
    struct Busy;

    impl Scheduler for Busy {
        fn name(&self) -> &'static str {
            "busy"
        }

        fn submit(&mut self, _: &JobSubmission, _now: Timestamp) -> SubmitAnswer {
            SubmitAnswer::Unclear {
                detail: String::new(),
            }
        }

        fn find(&mut self, _: &[Token], _: Timestamp) -> Result<Vec<FoundJob>, NoAnswer> {
            Ok(Vec::new())
        }

        fn poll(&mut self, jobs: &[JobRef], _now: Timestamp) -> Result<Poll, NoAnswer> {
            let running = |job: &JobRef| JobStatus::bare(job.id.clone(), JobState::Running);
            Ok(Poll {
                jobs: jobs.iter().map(running).collect(),
                ..Poll::default()
            })
        }

        fn cancel(&mut self, _job: &JobRef) -> Result<(), NoAnswer> {
            Ok(())
        }
    }

    fn job(id: &str) -> JobRef {
        JobRef::foreign(id, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn only_the_job_that_asks_is_known_to_end() {
        let mut ending = EndingJobScheduler::new(Busy, JobId("7".into()), 1);
        let now = Timestamp::UNIX_EPOCH;
        let poll = ending.poll(&[job("7"), job("77")], now).unwrap();
        assert_eq!(poll.jobs[0].state, JobState::Failed);
        assert_eq!(poll.jobs[0].exit, Some(ExitStatus::of(1, 0)));
        assert_eq!(poll.jobs[0].ended, Some(now));
        assert!(poll.jobs[0].self_reported && !poll.jobs[1].self_reported);
        assert_eq!(poll.jobs[1].state, JobState::Running);
    }

    #[test]
    fn a_script_that_ends_with_0_has_done_its_work() {
        let mut ending = EndingJobScheduler::new(Busy, JobId("7".into()), 0);
        let poll = ending.poll(&[job("7")], Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(poll.jobs[0].state, JobState::Completed);
    }
}
