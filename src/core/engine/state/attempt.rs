//! One attempt of a run, as its facts tell.

use std::path::PathBuf;

use jiff::Timestamp;

use super::refusal::SchedulerRefusal;
use crate::core::adopt::{JOB_NUMBER, ProgramLog, output_path};
use crate::core::engine::fact::{Fact, LogEnd, Record};
use crate::core::engine::foreseen::Foreseen;
use crate::core::engine::outcome::{RetryCause, Verdict, Withdrawn};
use crate::core::ladder::Step;
use crate::core::measure::Measured;
use crate::core::recipe::Layer;
use crate::core::request::QueueStart;
use oomctl_base::job::{JobRef, JobState, JobStatus, Token};
use oomctl_diagnose::{Incident, LINKS_MAX, Link, Progress};

/// What was asked for of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Steered {
    /// Who asked for its end and the next rung.
    pub escalation: Option<String>,
    /// Rungs that what follows it leaves out.
    pub left_out: Vec<String>,
}

impl Steered {
    /// Takes in a fact, if it is one of these.
    fn take(&mut self, fact: &Fact) {
        match fact {
            Fact::EscalationRequested { by, .. } => self.escalation = Some(by.clone()),
            Fact::RungLeftOut { rung, .. } => self.left_out.push(rung.clone()),
            _ => {}
        }
    }
}

/// One submitted job, as its facts tell.
#[derive(Debug, Clone, PartialEq, Default)]
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
    /// The last refusal, also where it was submitted again since.
    pub refused: Option<SchedulerRefusal>,
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
    /// Files of the user's own into which its program prints.
    pub outputs: Vec<ProgramLog>,
    /// True when we ended it because it hung.
    pub stalled: bool,
    /// GPU-seconds that it would have held until its time limit, where we ended it because it hung.
    pub saved_gpu_seconds: Option<u64>,
    /// Seconds for which it has shown no progress, when that is long.
    pub idle_s: Option<u64>,
    /// An end of memory that was seen coming.
    pub foreseen: Option<Foreseen>,
    /// What it waits for in vain, when we ended it for that.
    pub never_starts: Option<String>,
    /// What somebody who looked on asked for.
    pub steered: Steered,
    /// True when the scheduler took our cancellation.
    pub cancel_sent: bool,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// GPU-seconds of the parts that are over.
    pub gpu_seconds: f64,
    /// What it was measured to need.
    pub measured: Measured,
    /// Why it ended.
    pub incident: Option<Incident>,
    /// Last training step.
    pub progress: Option<Progress>,
    /// Pages of trackers that its logs name.
    pub links: Vec<Link>,
    /// When the scheduler was asked what answers its failure would start, and what it said.
    pub queue: Option<(Timestamp, Vec<QueueStart>)>,
    /// What follows.
    pub verdict: Option<Verdict>,
}

impl Attempt {
    /// Did it end without a line in its logs? Then it shows nothing of memory, however it ended.
    pub fn printed_nothing(&self) -> bool {
        self.incident
            .as_ref()
            .is_some_and(Incident::is_of_empty_log)
    }

    /// The logs of a job that was submitted without us; of a task that waited then, the number stands in their names
    /// from when it is known.
    pub fn own_logs(&self) -> Vec<PathBuf> {
        let number = self.status.as_ref().and_then(|s| s.number.as_deref());
        let named = |log: &PathBuf| match (number, log.to_str()) {
            (Some(number), Some(text)) => PathBuf::from(text.replace(JOB_NUMBER, number)),
            _ => log.clone(),
        };
        self.logs.iter().map(named).collect()
    }

    /// The files into which its program prints, as far as they can be named.
    pub fn program_logs(&self) -> Vec<ProgramLog> {
        let Some(job) = &self.job else {
            return Vec::new();
        };
        let id = job.id.0.as_str();
        let number = self.status.as_ref().and_then(|s| s.number.as_deref());
        let named = |log: &ProgramLog| {
            let path = output_path(log.path.to_str()?, id, number)?;
            Some(ProgramLog {
                path: PathBuf::from(path),
                ..log.clone()
            })
        };
        self.outputs.iter().filter_map(named).collect()
    }

    /// Where each log begins that does not begin with the present part of the job.
    pub fn starts(&self) -> Vec<LogEnd> {
        let known = |path: &PathBuf| self.log_starts.iter().any(|start| start.path == *path);
        let before = self.program_logs().into_iter();
        let before = before.filter(|log| log.stale.is_none() && !known(&log.path));
        let before = before.map(|log| LogEnd {
            path: log.path,
            offset: log.offset,
        });
        self.log_starts.iter().cloned().chain(before).collect()
    }

    /// Is there one that cannot be named yet?
    pub fn has_unnamed_logs(&self) -> bool {
        let logs = self.own_logs();
        let unnamed = |log: &PathBuf| log.to_string_lossy().contains(JOB_NUMBER);
        let ended = self.ended_at.is_some();
        let outputs = !ended && self.program_logs().len() < self.outputs.len();
        outputs || logs.iter().any(unnamed)
    }

    pub(super) fn new(number: u32, gpus: u64, at: Timestamp, epoch: u64) -> Self {
        Self {
            number,
            gpus,
            intended_at: at,
            ready_epoch: epoch,
            status_at: at,
            ..Self::default()
        }
    }

    /// Is a page not known yet, and room for it?
    pub(in crate::core::engine) fn is_news(&self, link: &Link) -> bool {
        self.links.len() < LINKS_MAX && !self.links.contains(link)
    }

    /// Layers that what follows from this attempt puts on the stack.
    pub fn layers(&self) -> Vec<Layer> {
        if let Some(Verdict::Again { layer, .. }) = &self.verdict {
            return layer.as_deref().cloned().into_iter().collect();
        }
        self.steps().iter().map(|s| s.layer.clone()).collect()
    }

    /// GPU-seconds that it has used until `now`.
    pub fn gpu_seconds_by(&self, now: Timestamp) -> f64 {
        let running = self.ended_at.map_or_else(|| part(self, now), |_| 0.0);
        self.gpu_seconds + running
    }

    /// When it ended: as the scheduler says of its job, else when it was noticed.
    pub fn over_at(&self) -> Option<Timestamp> {
        let noticed = self.ended_at?;
        let told = self.status.as_ref().and_then(|s| s.ended);
        Some(told.unwrap_or(noticed))
    }

    /// Seconds that its job ran, or has run by `now`. `None` before it starts, and where the scheduler does not say when it
    /// started or ended.
    pub fn ran_s(&self, now: Timestamp) -> Option<i64> {
        let status = self.status.as_ref()?;
        let until = match self.ended_at {
            Some(_) => status.ended?,
            None => status.ended.unwrap_or(now),
        };
        Some(until.duration_since(status.started?).as_secs().max(0))
    }

    /// Was it ended for the next rung? One that came to its own end before that is judged by it.
    pub fn was_ended_for_a_rung(&self) -> bool {
        let state = self.status.as_ref().map(|s| &s.state);
        let cancelled = matches!(state, None | Some(JobState::Cancelled));
        self.steered.escalation.is_some() && cancelled
    }

    /// The refusal that stands.
    pub fn refusal(&self) -> Option<&SchedulerRefusal> {
        self.refused.as_ref().filter(|r| !r.is_over)
    }

    /// The run was over and goes on: with the same configuration, or with what was decided and never submitted. `unusable`
    /// says that it could not be submitted. A refusal is a sure answer, so the same attempt is submitted again.
    pub(super) fn reopen(&mut self, by: &str, unusable: bool, epoch: u64) {
        let is_end = matches!(self.verdict, Some(Verdict::End { .. }));
        if self.verdict.is_some() && (is_end || unusable) {
            self.verdict = Some(Verdict::Again {
                cause: RetryCause::Asked,
                exclude: Vec::new(),
                layer: None,
            });
        } else if self.job.is_none() && self.refusal().is_some() {
            self.submit_again(Some(by), epoch);
        }
    }

    fn submit_again(&mut self, by: Option<&str>, epoch: u64) {
        self.refused = self.refused.as_ref().map(|earlier| earlier.again(by));
        self.ready_epoch = epoch;
    }

    /// Rungs that are taken back after this attempt, because its program did not start with them.
    pub fn withdrawn(&self) -> Option<&Withdrawn> {
        match &self.verdict {
            Some(Verdict::Climb { withdrawn, .. }) => withdrawn.as_ref(),
            _ => None,
        }
    }

    /// The rungs that the run climbs after this attempt.
    pub fn steps(&self) -> &[Step] {
        match &self.verdict {
            Some(Verdict::Climb { steps, .. }) => steps,
            _ => &[],
        }
    }
}

/// GPU-seconds of the earlier parts of a restarted job that were not counted, because nobody saw them, or were counted too
/// high, because nobody saw them end: negative then. `None` where accounting does not tell.
pub(in crate::core::engine) fn uncounted(attempt: &Attempt, status: &JobStatus) -> Option<f64> {
    let ran = |seconds: u64| seconds as f64 * attempt.gpus as f64;
    Some(ran(status.ran_before_s?) - attempt.gpu_seconds)
}

/// GPU-seconds of the part of the job that runs or has just ended.
pub(in crate::core::engine) fn part(attempt: &Attempt, now: Timestamp) -> f64 {
    let Some(status) = &attempt.status else {
        return 0.0;
    };
    let Some(started) = status.started else {
        return 0.0;
    };
    let end = status.ended.unwrap_or(now);
    let gpus = attempt.gpus as f64;
    (end.duration_since(started).as_secs_f64() * gpus).max(0.0)
}

/// The scheduler began the job anew: what was seen of the part before counts no more.
fn restart(attempt: &mut Attempt, restarts: u32, gpu_seconds: f64, logs: &[LogEnd]) {
    attempt.restarts = restarts;
    attempt.gpu_seconds += gpu_seconds;
    attempt.log_starts = logs.to_vec();
    attempt.stalled = false;
    attempt.saved_gpu_seconds = None;
    attempt.idle_s = None;
    attempt.foreseen = None;
    attempt.never_starts = None;
    attempt.cancel_sent = false;
}

/// Takes in a fact about the attempt that counts now.
pub(super) fn take(attempt: &mut Attempt, fact: &Fact, record: &Record) {
    match fact {
        Fact::Submitted { job, adopted, .. } => {
            attempt.job = Some(job.clone());
            attempt.adopted = *adopted;
            attempt.unclear = None;
        }
        Fact::SubmitUnclear { detail, .. } => attempt.unclear = Some(detail.clone()),
        Fact::SubmitRefused { .. } => {
            attempt.refused = SchedulerRefusal::after(attempt.refused.as_ref(), fact, record.at);
        }
        // The refusal was the answer to the last submission, so there is no other one to look for.
        Fact::SubmitAgain { by, .. } => attempt.submit_again(by.as_deref(), record.epoch),
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
        } => restart(attempt, *restarts, *gpu_seconds, logs),
        Fact::Stalled {
            saved_gpu_seconds, ..
        } => {
            attempt.stalled = true;
            attempt.saved_gpu_seconds = *saved_gpu_seconds;
        }
        Fact::Idle { idle_s, .. } => attempt.idle_s = Some(*idle_s),
        Fact::Foreseen { foreseen, .. } => attempt.foreseen = Some(foreseen.clone()),
        Fact::NeverStarts { reason, .. } => attempt.never_starts = Some(reason.clone()),
        Fact::CancelSent { .. } => attempt.cancel_sent = true,
        Fact::Linked { link, .. } => attempt.links.push(link.clone()),
        Fact::Ended {
            status,
            gpu_seconds,
            ..
        } => {
            attempt.status.clone_from(status);
            attempt.gpu_seconds += gpu_seconds;
            attempt.ended_at = Some(record.at);
        }
        Fact::QueueAsked { starts, .. } => attempt.queue = Some((record.at, starts.clone())),
        Fact::Measured { measured, .. } => attempt.measured = (**measured).clone(),
        Fact::Diagnosed {
            incident, progress, ..
        } => {
            attempt.incident = Some((**incident).clone());
            attempt.progress.clone_from(progress);
        }
        Fact::Decided { verdict, .. } => attempt.verdict = Some((**verdict).clone()),
        // Facts about the run as a whole are taken in by `History::apply`.
        fact => attempt.steered.take(fact),
    }
}
