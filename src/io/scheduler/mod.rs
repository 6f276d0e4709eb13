//! Four calls are a scheduler: submit, find, poll, cancel. Nothing above this folder may know which
//! scheduler it talks to.

pub mod command;
mod directives;
pub mod ending;
pub mod flux;
pub mod local;
mod noted;
pub mod pbs;
mod share;
pub mod slurm;
mod tokens;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};

pub use directives::SCRIPT_MAX;

use crate::core::launch::GpuWish;
use crate::core::request::StartForecast;
use oomctl_base::job::{HostUse, JobId, JobRef, JobStatus, Token};

/// What is handed to a scheduler for one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSubmission {
    /// The rendered entry script (`attempt-N/job.sbatch`), absolute.
    pub script: PathBuf,
    /// The attempt's token: becomes job name and comment.
    pub token: Token,
    /// Working directory of the job, absolute.
    pub workdir: PathBuf,
    /// Absolute path of the job's standard output. Its folder exists already.
    pub stdout: PathBuf,
    /// Absolute path of the job's standard error.
    pub stderr: PathBuf,
    /// Complete environment of the job; nothing is inherited from the caller.
    pub environment: BTreeMap<String, String>,
    /// Further options, handed on as they are (`--sbatch OPT`), one argv word each.
    pub options: Vec<String>,
    /// Arguments of the script.
    pub arguments: Vec<String>,
    /// Which of the environment the job gets, where that is not all of it (Slurm's `--export`).
    pub export: Option<String>,
    /// Wall-clock limit of the job in seconds, where the backend itself must enforce it (local).
    pub time_limit_s: Option<u64>,
    /// What a program that is started in the foreground asks of the GPUs here; its command is `arguments`.
    pub gpu: Option<GpuWish>,
    /// The tasks, where it is a job array. Then the logs are those of the first task, and those of the others lie
    /// in the folders beside it.
    pub tasks: Option<ArrayTasks>,
}

impl JobSubmission {
    /// The environment of the job with these variables besides.
    fn environment_with(&self, variables: &BTreeMap<String, String>) -> Vec<(OsString, OsString)> {
        let mut environment: BTreeMap<_, _> = self.environment.iter().collect();
        environment.extend(variables);
        let environment = environment.into_iter();
        environment
            .map(|(name, value)| (name.into(), value.into()))
            .collect()
    }
}

/// The tasks of a job array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrayTasks {
    /// Their indices, as Slurm writes them: `0-3,7`.
    pub indices: String,
    /// How many may run at a time.
    pub at_once: Option<usize>,
    /// A folder in which each task has one of its own, named by its index.
    pub folder: PathBuf,
}

/// What tells the tasks of a job array that people name by its id, or by a list of them as the queue shows it.
/// `None` for anything else.
pub fn tasks_named(wanted: &str) -> Option<impl Fn(&JobId) -> bool + use<>> {
    let wanted = slurm::NamedJob::read(wanted).filter(slurm::NamedJob::is_many)?;
    Some(move |id: &JobId| slurm::NamedJob::read(&id.0).is_some_and(|id| wanted.has_task(&id)))
}

/// The answer to a submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubmitAnswer {
    /// Accepted; the id is known.
    Accepted {
        /// Job id.
        id: JobId,
        /// Cluster, where the answer named one.
        cluster: Option<String>,
    },
    /// Surely refused: nothing was accepted. `reason` is the scheduler's own words, `hint` what the
    /// user can do about it.
    Refused {
        /// The scheduler's own words.
        reason: String,
        /// The next step for the user, where the refusal is one that we know.
        hint: Option<String>,
        /// True where the cause is known to pass by itself: the same submission may be accepted later.
        passing: bool,
    },
    /// It has no place for it yet. The same submission is to be made again after this pause. Slurm never answers so.
    NotYet {
        /// How long to wait.
        pause: std::time::Duration,
    },
    /// The user withdrew it before it was accepted. Slurm never answers so.
    Withdrawn {
        /// Who.
        by: String,
    },
    /// It may or may not have been accepted: look the token up, never repeat.
    Unclear {
        /// What was seen (timeout, connection failure, unreadable answer).
        detail: String,
    },
}

impl SubmitAnswer {
    /// A refusal whose cause does not pass by itself.
    pub fn refused(reason: impl Into<String>, hint: Option<&str>) -> Self {
        Self::Refused {
            reason: reason.into(),
            hint: hint.map(str::to_owned),
            passing: false,
        }
    }

    /// A refusal in the scheduler's words, with the hint for a part of them, and whether one of those that pass is in it.
    fn refused_in_words(reason: &str, hints: &[[&str; 2]], passing: &[&str]) -> Self {
        let text = reason.to_lowercase();
        let hint = hints.iter().find(|[part, _]| text.contains(part));
        Self::Refused {
            reason: reason.chars().take(MAX_REASON).collect(),
            hint: hint.map(|[_, hint]| (*hint).to_owned()),
            passing: passing.iter().any(|part| text.contains(part)),
        }
    }
}

/// A question got no usable answer. This changes nothing that we know; ask again later.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{command}: {detail}")]
pub struct NoAnswer {
    /// The command that was asked, by name (`squeue`).
    pub command: String,
    /// Exit code, deadline or message.
    pub detail: String,
}

impl NoAnswer {
    /// No answer from a command.
    pub fn of(command: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            command: command.into(),
            detail: detail.into(),
        }
    }
}

/// A job that carries a token we asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundJob {
    /// The token it carries.
    pub token: Token,
    /// The job.
    pub status: JobStatus,
    /// The cluster it is on, where needed for later calls.
    pub cluster: Option<String>,
    /// When the scheduler says it was submitted.
    pub submitted: Option<Timestamp>,
    /// True when the record is only the trace of a refused submission (Slurm keeps a FAILED record
    /// with reason `BadConstraints`): it must not be adopted.
    pub refused_trace: bool,
}

/// A job of the user's that waits for another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependent {
    /// Its id.
    pub id: JobId,
    /// What it waits for, as the scheduler prints it (`afterok:4711(failed)`).
    pub waits_for: String,
}

/// The answer to a poll.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Poll {
    /// What is known of the jobs asked for, in no order. A job missing here is one of which the
    /// scheduler said nothing this time; that is no verdict.
    pub jobs: Vec<JobStatus>,
    /// Jobs of which the scheduler surely knows nothing any more (purged from queue and accounting,
    /// asked twice).
    pub vanished: Vec<JobId>,
    /// How long before this question the oldest of these answers was asked for, by another process; zero where all were
    /// asked for now.
    pub age: SignedDuration,
}

/// Longest reason of a refusal that is passed on, in characters.
const MAX_REASON: usize = 1_000;

/// A scheduler.
pub trait Scheduler: Send {
    /// `slurm`, `flux`, `pbs` or `local`.
    fn name(&self) -> &'static str;

    /// Submits one attempt. Returns within a deadline; a missed deadline is `Unclear`.
    fn submit(&mut self, submission: &JobSubmission, now: Timestamp) -> SubmitAnswer;

    /// Looks up the jobs that carry `tokens`, submitted since `since`, in queue and accounting.
    ///
    /// # Errors
    /// `NoAnswer` when either source that should know did not answer; then nothing is known.
    fn find(&mut self, tokens: &[Token], since: Timestamp) -> Result<Vec<FoundJob>, NoAnswer>;

    /// From now on `find` looks on these clusters, too: submissions name them (`--clusters`).
    fn look_on_clusters(&mut self, _clusters: &[String]) {}

    /// Asks for the state of all `jobs` in one batch.
    ///
    /// # Errors
    /// `NoAnswer` when the scheduler did not answer.
    fn poll(&mut self, jobs: &[JobRef], now: Timestamp) -> Result<Poll, NoAnswer>;

    /// Cancels a job. An unknown or ended job is no error.
    ///
    /// # Errors
    /// `NoAnswer` when the scheduler did not answer; the job may still run.
    fn cancel(&mut self, job: &JobRef) -> Result<(), NoAnswer>;

    /// Cancels several jobs, in fewer calls where the scheduler can. One answer for each, in their order.
    fn cancel_all(&mut self, jobs: &[JobRef]) -> Vec<Result<(), NoAnswer>> {
        jobs.iter().map(|job| self.cancel(job)).collect()
    }

    /// How many tasks one job array may have; `None` where there are no arrays, or that cannot be told.
    fn array_limit(&mut self) -> Option<usize> {
        None
    }

    /// What ended jobs used of their nodes; a job of which the scheduler does not know it is left out.
    fn host_use(&mut self, _jobs: &[JobRef]) -> Vec<(JobId, HostUse)> {
        Vec::new()
    }

    /// Jobs of this user that wait for `job` and are none of ours; none where the scheduler cannot tell.
    fn dependents(&mut self, _job: &JobRef) -> Vec<Dependent> {
        Vec::new()
    }

    /// Lets a job wait for `to` where it waits for `from`.
    ///
    /// # Errors
    /// `NoAnswer` when the scheduler did not take it, or did not say so.
    fn redirect(
        &mut self,
        _dependent: &Dependent,
        _from: &JobId,
        _to: &JobRef,
    ) -> Result<(), NoAnswer> {
        Ok(())
    }

    /// When a submission would start, without submitting it (`sbatch --test-only`). `None` where the scheduler cannot
    /// tell.
    ///
    /// # Errors
    /// `NoAnswer` when the scheduler did not answer.
    fn forecast(&mut self, _submission: &JobSubmission) -> Result<Option<StartForecast>, NoAnswer> {
        Ok(None)
    }

    /// Times in which no node takes a job, as far as they are announced.
    fn maintenances(&mut self) -> Vec<Maintenance> {
        Vec::new()
    }
}

/// A time in which no node takes a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Maintenance {
    /// Its first moment.
    pub start: Timestamp,
    /// When it is over.
    pub end: Timestamp,
}
