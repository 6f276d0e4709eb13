//! Small jobs that watch over a run in turns, and when each may start.
//!
//! A dependency `afterany` is met when a job has ended in any way, by `scancel` too, and at once when the controller does
//! not know the id any more (Slurm 22.05 and 26.05, tests/slurm): it says when to look, never what happened.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::Slurm;
use super::refusal::read_answer;
use super::submit::escape;
use crate::io::scheduler::{NoAnswer, SubmitAnswer};
use oomctl_base::job::JobId;

/// Minutes that one turn may take: a look, the last lines of a log that come late, a submission whose answer was lost.
const MINUTES: u32 = 30;

/// A job that watches over a run.
#[derive(Debug, Clone)]
pub struct WatchJob {
    /// Name of the job.
    pub name: String,
    /// The command line, for a POSIX shell.
    pub command: String,
    /// File for what it prints, appended to.
    pub log: PathBuf,
    /// Its working directory.
    pub workdir: PathBuf,
    /// Options of the user's, which win over ours.
    pub options: Vec<String>,
}

/// When a watch job may start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchStart {
    /// After the end of this job.
    pub after: Option<JobId>,
    /// Not before so many seconds from now.
    pub in_s: u32,
}

impl Slurm {
    /// Submits a watch job. It gets the environment of this process, for what it submits needs the secrets in it. One
    /// more than wanted does no harm, so a lost answer needs no search.
    pub fn send_watch(&self, job: &WatchJob, start: &WatchStart) -> SubmitAnswer {
        let minutes = format!("--time={MINUTES}");
        let small = ["--nodes=1", "--ntasks=1", "--cpus-per-task=1", &minutes];
        let mut words: Vec<String> = small.map(str::to_owned).into();
        words.extend(job.options.iter().cloned());
        words.extend([
            "--parsable".to_owned(),
            "--requeue".to_owned(),
            format!("--job-name={}", job.name),
            format!("--chdir={}", job.workdir.display()),
            format!("--output={}", escape(&job.log)),
            "--open-mode=append".to_owned(),
            "--export=ALL".to_owned(),
            format!("--begin=now+{}", start.in_s),
        ]);
        if let Some(after) = &start.after {
            words.push(format!("--dependency=afterany:{after}"));
        }
        words.push(format!("--wrap={}", job.command));
        let environment: BTreeMap<String, String> = self
            .clients
            .inherited
            .iter()
            .filter_map(|(name, value)| Some((name.to_str()?.into(), value.to_str()?.into())))
            .collect();
        read_answer(
            &self
                .clients
                .sbatch(&words, &environment, &job.workdir, false),
        )
    }

    /// Changes when a watch job that waits may start.
    ///
    /// # Errors
    /// `NoAnswer` when Slurm did not take it, or did not say so.
    pub fn aim_watch(&self, job: &JobId, start: &WatchStart) -> Result<(), NoAnswer> {
        let after = start.after.as_ref();
        let after = after.map(|id| format!("afterany:{id}"));
        let words = [
            "update".to_owned(),
            format!("JobId={job}"),
            format!("Dependency={}", after.unwrap_or_default()),
            format!("StartTime=now+{}", start.in_s),
        ];
        self.clients.answer("scontrol", &words).map(drop)
    }

    /// Puts a watch job that runs back into the queue.
    ///
    /// # Errors
    /// `NoAnswer` when Slurm did not take it, or did not say so.
    pub fn requeue_watch(&self, job: &JobId) -> Result<(), NoAnswer> {
        let words = ["requeue".to_owned(), job.to_string()];
        self.clients.answer("scontrol", &words).map(drop)
    }
}
