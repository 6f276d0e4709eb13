//! Looking jobs up: live ones in squeue, in one call for all; ended ones with their exit codes in
//! scontrol while the controller still has them, then in sacct.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::super::{NoAnswer, Poll};
use super::accounts::Accounts;
use super::parse::{JobRecord, is_job_id};
use super::view::RecordIndex;
use super::{Accounting, Slurm};
use oomctl_base::job::{HostUse, JobId, JobRef, JobState, JobStatus, Stage};

/// scontrol calls in one poll; the jobs beyond are told of by the next poll.
const LOOKUPS_PER_POLL: usize = 32;
/// A job of which queue and accounting were silent is vanished when they still are this much later.
/// sacct of 22.05 shows a job up to 5 s late, 6 s after an outage of slurmdbd.
const SILENCE: SignedDuration = SignedDuration::from_secs(15);
/// So long after its end a job has no processes any more, whatever its epilogue does.
const FORGOTTEN: SignedDuration = SignedDuration::from_secs(3_600);
/// How long sacct is not asked for mere detail after it did not answer.
const ACCOUNTING_REST: SignedDuration = SignedDuration::from_secs(120);

/// What is remembered of a job between polls.
#[derive(Debug, Clone, Default)]
pub(super) struct PollState {
    /// Since when queue and accounting know nothing.
    silent_since: Option<Timestamp>,
    /// Its id was seen on another job.
    reused: bool,
    /// What was last known.
    last: Option<JobStatus>,
    /// How often it had been restarted when accounting was asked how long its earlier parts ran, and the answer.
    ran_before: Option<(u32, Option<u64>)>,
}

/// Where a job stands after the queue was asked.
#[derive(Default)]
struct QueueLookup<'a> {
    live: Vec<(&'a JobRef, JobStatus)>,
    ended: Vec<(&'a JobRef, JobRecord)>,
    left: Vec<&'a JobRef>,
}

fn key(job: &JobRef) -> String {
    let token = job.token.as_ref().map_or("", |token| &token.0);
    format!(
        "{} {} {token}",
        job.cluster.as_deref().unwrap_or(""),
        job.id
    )
}

/// Those of the jobs that may be jobs of Slurm, cluster by cluster.
fn by_cluster(jobs: &[JobRef]) -> BTreeMap<Option<&str>, Vec<&JobRef>> {
    let mut clusters: BTreeMap<_, Vec<&JobRef>> = BTreeMap::new();
    for job in jobs.iter().filter(|job| is_job_id(&job.id.0)) {
        clusters
            .entry(job.cluster.as_deref())
            .or_default()
            .push(job);
    }
    clusters
}

impl Slurm {
    pub(super) fn poll_jobs(&mut self, jobs: &[JobRef], now: Timestamp) -> Result<Poll, NoAnswer> {
        let (mut poll, mut failures) = (Poll::default(), Vec::new());
        let clusters = by_cluster(jobs);
        for (cluster, jobs) in &clusters {
            failures.extend(self.poll_cluster(*cluster, jobs, now, &mut poll).err());
        }
        match failures.pop() {
            Some(error) if failures.len() + 1 == clusters.len() => Err(error),
            _ => Ok(poll),
        }
    }

    fn poll_cluster(
        &mut self,
        cluster: Option<&str>,
        jobs: &[&JobRef],
        now: Timestamp,
        poll: &mut Poll,
    ) -> Result<(), NoAnswer> {
        let (queue, age) = self.view(cluster, jobs)?;
        let age = SignedDuration::try_from(age).unwrap_or(SignedDuration::MAX);
        poll.age = poll.age.max(age);
        let mut seen = QueueLookup::default();
        for job in jobs {
            match queue.of(job) {
                Some(record) if record.status.state.stage() == Stage::Ended => {
                    seen.ended.push((job, record.clone()));
                }
                Some(record) => seen.live.push((job, record.status.clone())),
                None => {
                    self.note_reuse(job, queue.has_id(job));
                    seen.left.push(job);
                }
            }
        }
        self.settle_live(cluster, std::mem::take(&mut seen.live), now, poll);
        let mut lookups = LOOKUPS_PER_POLL;
        self.settle_ended(cluster, &mut seen, now, &mut lookups, poll);
        self.settle_left(cluster, &seen.left, now, &mut lookups, poll);
        Ok(())
    }

    /// Jobs that live. How long the earlier parts of a restarted one ran only accounting knows; it is asked once.
    fn settle_live(
        &mut self,
        cluster: Option<&str>,
        live: Vec<(&JobRef, JobStatus)>,
        now: Timestamp,
        poll: &mut Poll,
    ) {
        let asked = |job: &JobRef| self.memory.get(&key(job)).and_then(|m| m.ran_before);
        let news = live.iter().filter(|(job, status)| {
            status.restarts > 0 && asked(job).is_none_or(|(then, _)| then != status.restarts)
        });
        let news: Vec<(&JobRef, u32)> = news.map(|(job, s)| (*job, s.restarts)).collect();
        let jobs: Vec<&JobRef> = news.iter().map(|(job, _)| *job).collect();
        if let Some(details) = self.details(cluster, &jobs, now) {
            for (job, restarts) in news {
                let record = details.of(job).filter(|r| r.status.restarts == restarts);
                let ran = record.and_then(|r| r.status.ran_before_s);
                self.memory.entry(key(job)).or_default().ran_before = Some((restarts, ran));
            }
        }
        for (job, mut status) in live {
            let asked = self.memory.get(&key(job)).and_then(|m| m.ran_before);
            let ours = asked.filter(|(then, _)| *then == status.restarts);
            status.ran_before_s = ours.and_then(|(_, ran)| ran);
            self.known(job, status, poll);
        }
    }

    /// Ended jobs that are still in the queue, which shows their exit codes at once and without sacct's subtraction of 128.
    /// Where it does not, scontrol may.
    fn settle_ended(
        &mut self,
        cluster: Option<&str>,
        seen: &mut QueueLookup<'_>,
        now: Timestamp,
        lookups: &mut usize,
        poll: &mut Poll,
    ) {
        let mut told = Vec::new();
        for (job, record) in std::mem::take(&mut seen.ended) {
            if record.status.exit.is_some() {
                told.push((job, record.status));
                continue;
            }
            if *lookups == 0 {
                continue;
            }
            *lookups -= 1;
            match self.control(job) {
                Ok(Some(control)) if control.record.is_of(job) => {
                    told.push((job, merge(record.status, control.record.status)));
                }
                Ok(_) => seen.left.push(job),
                Err(_) => {}
            }
        }
        // Who cancelled, which steps ran out of memory, how long earlier parts ran, what was used of the nodes.
        let jobs: Vec<&JobRef> = told.iter().map(|(job, _)| *job).collect();
        let details = self.details(cluster, &jobs, now);
        for (job, mut status) in told {
            let record = details.as_ref().and_then(|details| details.of(job));
            if let Some(JobRecord { status: more, .. }) =
                record.filter(|record| record.status.state == status.state)
            {
                status.cancelled_by.clone_from(&more.cancelled_by);
                status.step_out_of_memory |= more.step_out_of_memory;
                status.host.clone_from(&more.host);
                let all = more.restarts == status.restarts;
                status.ran_before_s = more.ran_before_s.filter(|_| all);
            }
            self.known(job, status, poll);
        }
    }

    /// What only sacct knows of jobs. Welcome, not needed: `None` when it was not asked or did not answer.
    fn details(
        &mut self,
        cluster: Option<&str>,
        jobs: &[&JobRef],
        now: Timestamp,
    ) -> Option<RecordIndex> {
        let rests = self.accounting_rests_until.is_some_and(|until| now < until);
        if rests || jobs.is_empty() {
            return None;
        }
        match self.accounts(cluster, jobs) {
            Accounts::Answer(records) => Some(RecordIndex::new(records)),
            Accounts::Off => None,
            Accounts::NoAnswer(_) => {
                self.accounting_rests_until = Some(now + ACCOUNTING_REST);
                None
            }
        }
    }

    /// What ended jobs used of their nodes, as accounting says it now. It hears of the last step seconds after a job's end.
    pub(super) fn host_use_of(&mut self, jobs: &[JobRef]) -> Vec<(JobId, HostUse)> {
        let mut found = Vec::new();
        for (cluster, jobs) in by_cluster(jobs) {
            if let Accounts::Answer(records) = self.accounts(cluster, &jobs) {
                let records = RecordIndex::new(records);
                let host =
                    |job: &JobRef| Some((job.id.clone(), *records.of(job)?.status.host.clone()?));
                found.extend(jobs.into_iter().filter_map(host));
            }
        }
        found
    }

    /// Jobs that the queue does not know: ended long ago, lost, or another job has their id now.
    fn settle_left(
        &mut self,
        cluster: Option<&str>,
        left: &[&JobRef],
        now: Timestamp,
        lookups: &mut usize,
        poll: &mut Poll,
    ) {
        if left.is_empty() {
            return;
        }
        let (records, clean) = match self.accounts(cluster, left) {
            Accounts::Answer(records) => (RecordIndex::new(records), true),
            Accounts::Off => (RecordIndex::new(Vec::new()), true),
            Accounts::NoAnswer(_) => (RecordIndex::new(Vec::new()), false),
        };
        let controller_alone = self.accounting == Accounting::Off || !clean;
        for job in left {
            let record = records.of(job);
            if let Some(record) = record.filter(|r| r.status.state.stage() == Stage::Ended) {
                self.settle_told(job, &record.status, now, lookups, poll);
                continue;
            }
            let untraced = !controller_alone && records.of(job).is_none();
            if !controller_alone && !self.is_long_silent(job, now) {
                // A live state in sacct of a job that the queue does not show is a leftover, or the queue
                // left it out: before it is given up the controller is asked for it alone.
                self.silent(job, now, untraced, poll);
                continue;
            }
            if *lookups == 0 {
                continue;
            }
            *lookups -= 1;
            match self.control(job) {
                Ok(Some(control)) if control.record.is_of(job) => {
                    self.known(job, control.record.status, poll);
                }
                Ok(other) if clean => {
                    self.note_reuse(job, other.is_some_and(|o| o.record.has_id(&job.id)));
                    self.silent(job, now, untraced, poll);
                }
                Ok(_) | Err(_) => {}
            }
        }
    }

    /// sacct says how a job ended, at times before its last processes have. Soon after that end the
    /// controller, which still knows the job, has the last word.
    fn settle_told(
        &mut self,
        job: &JobRef,
        told: &JobStatus,
        now: Timestamp,
        lookups: &mut usize,
        poll: &mut Poll,
    ) {
        let long_ago = |end: Timestamp| now.duration_since(end) > FORGOTTEN;
        if told.ended.is_some_and(long_ago) {
            return self.known(job, told.clone(), poll);
        }
        if *lookups == 0 {
            return;
        }
        *lookups -= 1;
        match self.control(job) {
            Ok(Some(control)) if control.record.is_of(job) => {
                let host = told.host.clone();
                self.known(
                    job,
                    JobStatus {
                        host,
                        ..control.record.status
                    },
                    poll,
                );
            }
            Ok(_) => self.known(job, told.clone(), poll),
            Err(_) => {}
        }
    }

    fn known(&mut self, job: &JobRef, mut status: JobStatus, poll: &mut Poll) {
        status.id = job.id.clone();
        if status.state.stage() == Stage::Ended {
            self.memory.remove(&key(job));
        } else {
            let memory = self.memory.entry(key(job)).or_default();
            *memory = PollState {
                last: Some(status.clone()),
                ran_before: memory.ran_before,
                ..PollState::default()
            };
        }
        poll.jobs.push(status);
    }

    fn note_reuse(&mut self, job: &JobRef, another_has_it: bool) {
        if another_has_it {
            self.memory.entry(key(job)).or_default().reused = true;
        }
    }

    /// Did everybody answer, and nobody knew it, for so long that it may be called vanished?
    fn is_long_silent(&self, job: &JobRef, now: Timestamp) -> bool {
        let since = self.memory.get(&key(job)).and_then(|m| m.silent_since);
        since.is_some_and(|since| now.duration_since(since) >= SILENCE)
    }

    /// Everybody answered and nobody knows the job. Only when that lasts is it vanished. A task of an array that is
    /// cancelled while it waits leaves no trace in queue or accounting (22.05), and one that ran does; `untraced` says
    /// that the accounting has none.
    fn silent(&mut self, job: &JobRef, now: Timestamp, untraced: bool, poll: &mut Poll) {
        let memory = self.memory.entry(key(job)).or_default();
        let since = *memory.silent_since.get_or_insert(now);
        if now.duration_since(since) < SILENCE {
            return;
        }
        let mut status = memory
            .last
            .take()
            .unwrap_or_else(|| JobStatus::bare(job.id.clone(), JobState::Unknown(String::new())));
        let waited = status.state.stage() == Stage::Waiting && status.restarts == 0;
        if untraced && waited && job.id.0.contains('_') && !memory.reused {
            status.state = JobState::Cancelled;
            self.memory.remove(&key(job));
            poll.jobs.push(status);
            return;
        }
        status.state = JobState::Unknown("PURGED".to_owned());
        if memory.reused {
            status.reason = Some("the id now belongs to another job".to_owned());
        }
        self.memory.remove(&key(job));
        poll.jobs.push(status);
        poll.vanished.push(job.id.clone());
    }
}

/// The queue's view of an ended job, completed by scontrol's, which is the later one.
fn merge(queue: JobStatus, control: JobStatus) -> JobStatus {
    let reason = control.reason.clone().or(queue.reason);
    JobStatus { reason, ..control }
}
