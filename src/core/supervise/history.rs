//! What the facts of a run add up to: a fold over the ledger and nothing else, so that a crash is a
//! replay.

use std::path::PathBuf;

use jiff::Timestamp;

use super::fact::{Fact, LogEnd, Record};
use super::news::NewsLog;
use super::outcome::{Budget, Cause, Outcome, Verdict};
use super::phase::Phase;
use crate::core::diagnose::{Incident, Progress};
use crate::core::job::{JobRef, JobStatus, Token};
use crate::core::ladder::{Peak, Step, Tried};
use crate::core::measure::Measured;
use crate::core::recipe::Layer;

/// One submitted job, as its facts tell.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// Number, from 1.
    pub number: u32,
    /// Its token; `None` for a job that oomctl did not submit.
    pub token: Option<Token>,
    /// Name of the entry script; empty for a job that oomctl did not submit.
    pub script: String,
    /// SHA-256 of the entry script; empty for a job that oomctl did not submit.
    pub script_sha256: String,
    /// GPUs of the whole job.
    pub gpus: u64,
    /// When it was intended.
    pub intended_at: Timestamp,
    /// The epoch that may submit it without looking for it first.
    pub ready_epoch: u64,
    /// What was unclear about the submission, while it is.
    pub unclear: Option<String>,
    /// The refusal: the scheduler's words and the next step.
    pub refused: Option<(String, Option<String>)>,
    /// The job.
    pub job: Option<JobRef>,
    /// True when it was found by its token.
    pub adopted: bool,
    /// Second jobs with the same token that must still go.
    pub duplicates: Vec<JobRef>,
    /// Second jobs that were cancelled.
    pub removed: Vec<JobRef>,
    /// The scheduler's last word.
    pub status: Option<JobStatus>,
    /// When that word was first heard.
    pub status_at: Timestamp,
    /// Restarts under the same id that we know of.
    pub restarts: u32,
    /// Where the logs of the present part begin; empty for their start.
    pub log_starts: Vec<LogEnd>,
    /// Logs of a job that oomctl did not submit.
    pub logs: Vec<PathBuf>,
    /// True when we ended it because it hung.
    pub stalled: bool,
    /// GPU-seconds that it would have held until its time limit, where we ended it because it hung.
    pub saved_gpu_seconds: Option<u64>,
    /// Seconds for which it has shown no progress, when that is long.
    pub idle_s: Option<u64>,
    /// True when the scheduler took our cancellation.
    pub cancel_sent: bool,
    /// When it was over.
    pub ended_at: Option<Timestamp>,
    /// GPU-seconds of the parts that are over.
    pub gpu_seconds: f64,
    /// What it was measured to need.
    pub measured: Measured,
    /// Why it ended.
    pub incident: Option<Incident>,
    /// How far training had come.
    pub progress: Option<Progress>,
    /// What follows.
    pub verdict: Option<Verdict>,
}

impl Attempt {
    fn new(number: u32, gpus: u64, at: Timestamp, epoch: u64) -> Self {
        Self {
            number,
            token: None,
            script: String::new(),
            script_sha256: String::new(),
            gpus,
            intended_at: at,
            ready_epoch: epoch,
            unclear: None,
            refused: None,
            job: None,
            adopted: false,
            duplicates: Vec::new(),
            removed: Vec::new(),
            status: None,
            status_at: at,
            restarts: 0,
            log_starts: Vec::new(),
            logs: Vec::new(),
            stalled: false,
            saved_gpu_seconds: None,
            idle_s: None,
            cancel_sent: false,
            ended_at: None,
            gpu_seconds: 0.0,
            measured: Measured::default(),
            incident: None,
            progress: None,
            verdict: None,
        }
    }

    /// Layers that what follows from this attempt puts on the stack.
    #[must_use]
    pub fn layers(&self) -> Vec<Layer> {
        if let Some(Verdict::Again { layer, .. }) = &self.verdict {
            return layer.as_deref().cloned().into_iter().collect();
        }
        self.steps().iter().map(|s| s.layer.clone()).collect()
    }

    /// The rungs that the run climbs after this attempt.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        match &self.verdict {
            Some(Verdict::Climb { steps, .. }) => steps,
            _ => &[],
        }
    }
}

/// What the facts of a run add up to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct History {
    /// Name of the run.
    pub run: String,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Number of the present owner.
    pub epoch: u64,
    /// Number of the last fact.
    pub seq: u64,
    /// Attempts, in order.
    pub attempts: Vec<Attempt>,
    /// Who asked for the end of the run.
    pub cancel: Option<String>,
    /// The run which shows that this one would fail, and why.
    pub pruned: Option<(String, String)>,
    /// The bound that was reached while a job was alive.
    pub budget: Option<Budget>,
    /// How the run ended.
    pub outcome: Option<Outcome>,
    /// What is to be told to those who do not watch.
    pub news: NewsLog,
}

impl History {
    /// Folds records into what they add up to.
    #[must_use]
    pub fn replay(records: &[Record]) -> Self {
        let mut history = Self::default();
        for record in records {
            history.apply(record);
        }
        history
    }

    /// The attempt that counts now.
    #[must_use]
    pub fn attempt(&self) -> Option<&Attempt> {
        self.attempts.last()
    }

    /// Layers that the attempts so far have put on the stack, in order.
    #[must_use]
    pub fn rungs(&self) -> Vec<Layer> {
        self.attempts.iter().flat_map(Attempt::layers).collect()
    }

    /// Attempts before the present one that died of a cause that is known, with the rungs that they had.
    #[must_use]
    pub fn tried(&self) -> Vec<Tried> {
        let (mut rungs, mut tried) = (Vec::new(), Vec::new());
        for attempt in self.attempts.iter().rev().skip(1).rev() {
            let incident = attempt.incident.clone().filter(|i| i.fatal);
            let peaks = || Peak::of(&attempt.measured);
            tried.extend(incident.map(|i| Tried::new(rungs.clone(), i, peaks())));
            rungs.extend(attempt.layers());
        }
        tried
    }

    /// The rungs taken so far, in order.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.attempts.iter().flat_map(Attempt::steps)
    }

    /// How often the same configuration was submitted again for this cause.
    #[must_use]
    pub fn retries(&self, of: Cause) -> u32 {
        let again =
            |a: &&Attempt| matches!(&a.verdict, Some(Verdict::Again { cause, .. }) if *cause == of);
        u32::try_from(self.attempts.iter().filter(again).count()).unwrap_or(u32::MAX)
    }

    /// Nodes that attempts must stay away from.
    #[must_use]
    pub fn excluded_nodes(&self) -> Vec<String> {
        let mut nodes: Vec<String> = Vec::new();
        for attempt in &self.attempts {
            if let Some(Verdict::Again { exclude, .. }) = &attempt.verdict {
                nodes.extend(exclude.iter().cloned());
            }
        }
        nodes.sort();
        nodes.dedup();
        nodes
    }

    /// When its first attempt was written down. Until then it costs nothing: it waits for others of its sweep.
    #[must_use]
    pub fn begun(&self) -> Option<Timestamp> {
        self.attempts.first().map(|first| first.intended_at)
    }

    /// GPU-seconds that the attempts have used until `now`.
    #[must_use]
    pub fn gpu_seconds(&self, now: Timestamp) -> f64 {
        let unended = |a: &Attempt| a.ended_at.map_or_else(|| part(a, now), |_| 0.0);
        let used = self.attempts.iter().map(|a| a.gpu_seconds + unended(a));
        used.sum()
    }

    /// Where the run stands.
    #[must_use]
    pub fn phase(&self) -> Phase {
        if self.outcome.is_some() {
            return Phase::Finished;
        }
        let Some(attempt) = self.attempt() else {
            return Phase::Preparing(1);
        };
        match &attempt.verdict {
            Some(Verdict::End { .. }) => return Phase::Closing,
            Some(_) => return Phase::Preparing(attempt.number + 1),
            None => {}
        }
        if attempt.incident.is_some() {
            Phase::Judging
        } else if attempt.ended_at.is_some() {
            Phase::Draining
        } else if attempt.job.is_some() {
            Phase::Live
        } else if attempt.refused.is_some() {
            Phase::Refused
        } else if attempt.unclear.is_some() || attempt.ready_epoch != self.epoch {
            Phase::Searching
        } else {
            Phase::Submitting
        }
    }

    /// Takes one record in.
    pub fn apply(&mut self, record: &Record) {
        self.seq = record.seq;
        self.epoch = record.epoch;
        self.news.take(record);
        match &record.fact {
            Fact::Created { run, .. } => {
                self.run.clone_from(run);
                self.created = Some(record.at);
            }
            Fact::OwnerChanged { .. } | Fact::TornTail { .. } => {}
            Fact::Intended { .. } | Fact::Attached { .. } => self.begin(record),
            Fact::BudgetSpent { budget } => self.budget = Some(budget.clone()),
            Fact::CancelRequested { by } => self.cancel = Some(by.clone()),
            Fact::Pruned { by, reason } => self.pruned = Some((by.clone(), reason.clone())),
            Fact::Finished { outcome } => self.outcome = Some(outcome.clone()),
            fact => {
                if let Some(attempt) = self.attempts.last_mut() {
                    apply_to_attempt(attempt, fact, record);
                }
            }
        }
    }

    fn begin(&mut self, record: &Record) {
        let (at, epoch) = (record.at, record.epoch);
        match &record.fact {
            Fact::Intended {
                attempt,
                token,
                script,
                script_sha256,
                gpus,
                ..
            } => self.attempts.push(Attempt {
                token: Some(token.clone()),
                script: script.clone(),
                script_sha256: script_sha256.clone(),
                ..Attempt::new(*attempt, *gpus, at, epoch)
            }),
            Fact::Attached {
                attempt,
                job,
                gpus,
                logs,
            } => self.attempts.push(Attempt {
                job: Some(job.clone()),
                adopted: true,
                logs: logs.clone(),
                ..Attempt::new(*attempt, *gpus, at, epoch)
            }),
            _ => {}
        }
    }
}

/// GPU-seconds of the part of the job that runs or has just ended.
pub(super) fn part(attempt: &Attempt, now: Timestamp) -> f64 {
    let Some(status) = &attempt.status else {
        return 0.0;
    };
    let Some(started) = status.started else {
        return 0.0;
    };
    let end = status.ended.unwrap_or(now);
    #[expect(clippy::cast_precision_loss, reason = "counts of GPUs are small")]
    let gpus = attempt.gpus as f64;
    (end.duration_since(started).as_secs_f64() * gpus).max(0.0)
}

/// Takes in a fact about the attempt that counts now.
fn apply_to_attempt(attempt: &mut Attempt, fact: &Fact, record: &Record) {
    match fact {
        Fact::Submitted { job, adopted, .. } => {
            attempt.job = Some(job.clone());
            attempt.adopted = *adopted;
            attempt.unclear = None;
        }
        Fact::SubmitUnclear { detail, .. } => attempt.unclear = Some(detail.clone()),
        Fact::SubmitRefused { reason, hint, .. } => {
            attempt.refused = Some((reason.clone(), hint.clone()));
        }
        Fact::SubmitAbsent { .. } => {
            attempt.unclear = None;
            attempt.ready_epoch = record.epoch;
        }
        Fact::DuplicateFound { job, .. } => attempt.duplicates.push(job.clone()),
        Fact::DuplicateCancelled { job, .. } => {
            attempt.duplicates.retain(|d| d.id != job.id);
            attempt.removed.push(job.clone());
        }
        Fact::StateSeen { status, .. } => {
            attempt.status = Some(status.clone());
            attempt.status_at = record.at;
        }
        Fact::Restarted {
            restarts,
            gpu_seconds,
            logs,
            ..
        } => {
            attempt.restarts = *restarts;
            attempt.gpu_seconds += gpu_seconds;
            attempt.log_starts.clone_from(logs);
            attempt.stalled = false;
            attempt.saved_gpu_seconds = None;
            attempt.idle_s = None;
            attempt.cancel_sent = false;
        }
        Fact::Stalled {
            saved_gpu_seconds, ..
        } => {
            attempt.stalled = true;
            attempt.saved_gpu_seconds = *saved_gpu_seconds;
        }
        Fact::Idle { idle_s, .. } => attempt.idle_s = Some(*idle_s),
        Fact::CancelSent { .. } => attempt.cancel_sent = true,
        Fact::Ended {
            status,
            gpu_seconds,
            ..
        } => {
            attempt.status.clone_from(status);
            attempt.gpu_seconds += gpu_seconds;
            attempt.ended_at = Some(record.at);
        }
        Fact::Measured { measured, .. } => attempt.measured = (**measured).clone(),
        Fact::Diagnosed {
            incident, progress, ..
        } => {
            attempt.incident = Some((**incident).clone());
            attempt.progress.clone_from(progress);
        }
        Fact::Decided { verdict, .. } => attempt.verdict = Some((**verdict).clone()),
        // Facts about the run as a whole are taken in by `History::apply`.
        _ => {}
    }
}
