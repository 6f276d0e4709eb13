//! What schedulers have in common whose jobs are known by their name, which is our token: how their commands are called, and which
//! of the jobs asked for is ours.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use oomctl_base::job::{HostUse, JobId, JobRef, JobStatus, Stage, Token};

use super::command::{CommandEnd, CommandOutput, SearchPath};
use super::noted::NotedAddresses;
use super::{FoundJob, JobSubmission, Poll, SubmitAnswer};

/// How long a submission may take; when it passes its outcome is unclear.
const SUBMIT: Duration = Duration::from_secs(60);
/// How long a question may take.
const QUESTION: Duration = Duration::from_secs(45);

/// A job as such a scheduler tells of it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TokenJob {
    pub status: JobStatus,
    /// Its name, which is our token.
    pub name: String,
    pub submitted: Option<Timestamp>,
    /// Why it could never start, where it is no more than the trace of a refused submission.
    pub refusal: Option<String>,
    pub used: HostUse,
}

impl TokenJob {
    /// Is it the job that is meant? Another instance, or a server that was set up anew, gives the same ids.
    pub fn is(&self, job: &JobRef) -> bool {
        let ours = |token: &Token| token.0 == self.name;
        self.status.id == job.id && job.token.as_ref().is_none_or(ours)
    }

    /// Is it the job that is meant, and not over?
    pub fn lives(&self, job: &JobRef) -> bool {
        self.is(job) && self.status.state.stage() != Stage::Ended
    }

    /// The job that carries a token, on a cluster.
    pub fn found(self, token: &Token, cluster: Option<String>) -> FoundJob {
        FoundJob {
            token: token.clone(),
            refused_trace: self.refusal.is_some(),
            submitted: self.submitted,
            cluster,
            status: self.status,
        }
    }
}

/// The commands of such a scheduler, as the environment of this process finds them.
#[derive(Debug, Clone)]
pub(super) struct TokenCommands {
    pub search: SearchPath,
    pub inherited: Vec<(OsString, OsString)>,
    /// Where each submission of the project went.
    pub addresses: NotedAddresses,
    deadlines: (Duration, Duration),
    /// Jobs that were not known when they were last asked for.
    missed: BTreeSet<JobId>,
}

impl TokenCommands {
    /// Those for the runs of a project.
    pub fn of(project: &Path, backend: &str) -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Self {
            search: SearchPath::Path(path),
            inherited: std::env::vars_os().collect(),
            addresses: NotedAddresses::of(project, backend),
            deadlines: (SUBMIT, QUESTION),
            missed: BTreeSet::new(),
        }
    }

    /// Takes the commands of a folder, as a process with this environment would have them.
    pub fn take(&mut self, folder: PathBuf, environment: Vec<(OsString, OsString)>) {
        self.search = SearchPath::Folder(folder);
        self.inherited = environment;
    }

    /// Sets the deadline of all calls.
    pub fn limit(&mut self, deadline: Duration) {
        self.deadlines = (deadline, deadline);
    }

    /// Asks. Messages come back in English.
    pub fn ask(
        &self,
        program: &str,
        arguments: &[String],
        mut environment: Vec<(OsString, OsString)>,
    ) -> CommandOutput {
        environment.retain(|(name, _)| name != "LC_ALL");
        environment.push(("LC_ALL".into(), "C.UTF-8".into()));
        self.search
            .run(program, arguments, environment, self.deadlines.1, None)
    }

    /// Submits, with these variables beside those of the job.
    pub fn submit(
        &self,
        program: &str,
        arguments: &[String],
        submission: &JobSubmission,
        variables: &BTreeMap<String, String>,
    ) -> CommandOutput {
        let environment = submission.environment_with(variables);
        let folder = Some(submission.workdir.as_path());
        self.search
            .run(program, arguments, environment, self.deadlines.0, folder)
    }

    /// What an answer says of the jobs of a poll. A job that is unknown, or whose id is another job's, has vanished when that is
    /// so twice.
    pub fn settle<'a>(
        &mut self,
        wanted: impl IntoIterator<Item = &'a JobRef>,
        (told, unknown): (&[TokenJob], &[JobId]),
        poll: &mut Poll,
    ) {
        for job in wanted {
            if let Some(found) = told.iter().find(|found| found.is(job)) {
                self.missed.remove(&job.id);
                poll.jobs.push(found.status.clone());
                continue;
            }
            let gone = unknown.contains(&job.id) || told.iter().any(|j| j.status.id == job.id);
            if gone && !self.missed.insert(job.id.clone()) {
                poll.vanished.push(job.id.clone());
            }
        }
    }
}

/// How the command that submits says that it did not.
pub(super) struct RefusalWords {
    /// The command, as it is told.
    pub command: &'static str,
    /// What to do where it is not there.
    pub absent: &'static str,
    /// Exit code for options that could not be read; nothing was sent.
    pub usage: Option<i32>,
    /// With what it names an error, in lower case.
    pub named: &'static str,
    /// Signs that the request may have arrived although no answer came back.
    pub lost: &'static [&'static str],
    /// A part of a reason, and the next step.
    pub hints: &'static [[&'static str; 2]],
    /// Parts of a reason that pass by themselves.
    pub passing: &'static [&'static str],
}

impl RefusalWords {
    /// What a call means: the job's id, or the answer that it is.
    pub fn read(
        &self,
        answer: &CommandOutput,
        read_id: fn(&str) -> Option<JobId>,
        reason: fn(&str) -> String,
    ) -> Result<JobId, SubmitAnswer> {
        let id = answer.stdout.lines().last().and_then(read_id);
        match (&answer.end, id) {
            (CommandEnd::Exited(0), Some(id)) => Ok(id),
            (CommandEnd::NotStarted(error), _) => {
                Err(SubmitAnswer::refused(error, Some(self.absent)))
            }
            (CommandEnd::Exited(code @ 1..), None) if self.is_sure(*code, &answer.stderr) => {
                Err(self.refused(&reason(&answer.stderr)))
            }
            _ => Err(SubmitAnswer::Unclear {
                detail: format!("{}: {}", self.command, answer.describe()),
            }),
        }
    }

    /// The scheduler itself names an error, and it is none of the ways to lose an answer.
    fn is_sure(&self, code: i32, stderr: &str) -> bool {
        let text = stderr.to_lowercase();
        let named = text.contains(self.named) && !self.lost.iter().any(|sign| text.contains(sign));
        self.usage == Some(code) || named
    }

    /// A refusal in the scheduler's words.
    pub fn refused(&self, reason: &str) -> SubmitAnswer {
        SubmitAnswer::refused_in_words(reason, self.hints, self.passing)
    }
}
