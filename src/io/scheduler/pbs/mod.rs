//! PBS (OpenPBS, PBS Professional) through its commands: `qsub`, `qstat`, `qselect`, `qdel`. What was observed of OpenPBS 23.06 (tests/pbs)
//! decides here.
//!
//! Rule: a server must keep the history of its jobs. Without it a job that ended is as unknown as one that never was, and a
//! submission whose answer was lost might be repeated.

mod jobs;
mod options;
mod refusal;
mod server;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use super::command::{CommandEnd, CommandOutput};
use super::directives::SCRIPT_MAX;
use super::tokens::{TokenCommands, TokenJob};
use super::{FoundJob, JobSubmission, NoAnswer, Poll, Scheduler, SubmitAnswer};
use crate::io::files::read_text;
use crate::io::finding::{CheckFinding, CheckHealth};
use jobs::{read_id, read_jobs, unknown_ids};
use oomctl_base::job::{HostUse, JobId, JobRef, Token};
use refusal::{WORDS, reason};
use server::PbsServer;

/// How a server is made to remember its jobs.
const HISTORY: &str = "the administrators can switch it on: `qmgr -c 'set server job_history_enable=True'`; without it a job whose submission got no answer could not be found again";

/// PBS as the environment of this process finds it.
#[derive(Debug, Clone)]
pub struct Pbs {
    commands: TokenCommands,
}

impl Pbs {
    /// Jobs of the runs of a project.
    pub fn new(project: &Path) -> Self {
        Self {
            commands: TokenCommands::of(project, "pbs"),
        }
    }

    /// The same with the commands of a folder, as a process with this environment would have them.
    pub fn with_path(mut self, folder: PathBuf, environment: Vec<(OsString, OsString)>) -> Self {
        self.commands.take(folder, environment);
        self
    }

    /// The same with another deadline for all calls.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.commands.limit(deadline);
        self
    }

    /// What can be said of PBS on this machine; nothing where it is neither there nor `wanted`.
    pub fn checkup(&self, wanted: bool) -> Option<CheckFinding> {
        let found = |health, found: String, advice: &str| {
            Some(CheckFinding::with(health, "PBS", found, advice))
        };
        if self.commands.search.locate("qsub").is_none() {
            let advice = "PBS's commands must be on PATH; `module load pbs` on some sites";
            let absent = "no qsub on PATH".to_owned();
            return wanted
                .then(|| found(CheckHealth::Bad, absent, advice))
                .flatten();
        }
        match self.server(self.commands.inherited.clone()) {
            Ok(PbsServer {
                name,
                version,
                keeps_history: true,
            }) => Some(CheckFinding::good("PBS", format!("{version} at {name}"))),
            Ok(server) => {
                let what = format!(
                    "{} keeps no history of jobs: it is not submitted to",
                    server.name
                );
                found(CheckHealth::Bad, what, HISTORY)
            }
            // Other schedulers have commands of these names.
            Err(_) if !wanted => None,
            Err(error) => {
                let advice = "`qstat -B` must work here; PBS_SERVER and /etc/pbs.conf say where the server is";
                found(CheckHealth::Bad, error.to_string(), advice)
            }
        }
    }

    /// Asks the server.
    fn ask(&self, program: &str, arguments: &[String]) -> CommandOutput {
        self.ask_in(program, arguments, self.commands.inherited.clone())
    }

    /// The same with another environment. Times come back in UTC.
    fn ask_in(
        &self,
        program: &str,
        arguments: &[String],
        mut environment: Vec<(OsString, OsString)>,
    ) -> CommandOutput {
        environment.retain(|(name, _)| name != "TZ");
        environment.push(("TZ".into(), "UTC".into()));
        self.commands.ask(program, arguments, environment)
    }

    /// The server to which a process with this environment submits.
    fn server(&self, environment: Vec<(OsString, OsString)>) -> Result<PbsServer, NoAnswer> {
        let words = ["-B", "-f", "-F", "json"].map(str::to_owned);
        let answer = self.ask_in("qstat", &words, environment);
        if !answer.is_clean() {
            return Err(NoAnswer::of("qstat -B", answer.describe()));
        }
        PbsServer::read(&answer.stdout).map_err(|why| NoAnswer::of("qstat -B", why))
    }

    /// The jobs that PBS knows of these, and the ids that it does not know.
    fn jobs(&self, ids: &[&JobId]) -> Result<(Vec<TokenJob>, Vec<JobId>), NoAnswer> {
        if ids.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let words = ["-x", "-f", "-F", "json"].map(str::to_owned);
        let ids = ids.iter().map(|id| id.0.clone());
        let answer = self.ask("qstat", &Vec::from_iter(words.into_iter().chain(ids)));
        let (unknown, other) = unknown_ids(&answer.stderr);
        let told = matches!(answer.end, CommandEnd::Exited(_)) && !answer.cut;
        // Its exit code is that of the last job asked for.
        if !told || other.is_some() || (unknown.is_empty() && !answer.is_clean()) {
            return Err(NoAnswer::of("qstat", answer.describe()));
        }
        let jobs = read_jobs(&answer.stdout).map_err(|why| NoAnswer::of("qstat", why))?;
        Ok((jobs, unknown))
    }

    /// The ids of the jobs of this name on a server, also of those that have ended.
    fn named(&self, token: &Token, server: Option<&str>) -> Result<Vec<JobId>, NoAnswer> {
        let mut words = ["-x", "-N", &token.0].map(str::to_owned).to_vec();
        words.extend(server.map(|server| format!("-q@{server}")));
        let answer = self.ask("qselect", &words);
        // Its exit code is 0 also where it says that it keeps no history.
        if !answer.is_clean() || !answer.stderr.trim().is_empty() {
            return Err(NoAnswer::of("qselect", answer.describe()));
        }
        let ids = answer.stdout.lines().filter(|line| !line.trim().is_empty());
        let ids: Option<Vec<JobId>> = ids.map(read_id).collect();
        ids.ok_or_else(|| NoAnswer::of("qselect", "its answer has another shape"))
    }
}

impl Scheduler for Pbs {
    fn name(&self) -> &'static str {
        "pbs"
    }

    fn submit(&mut self, submission: &JobSubmission, _now: Timestamp) -> SubmitAnswer {
        let script = match read_text(&submission.script, SCRIPT_MAX) {
            Ok(script) => script,
            Err(error) => return SubmitAnswer::refused(error.to_string(), Some("PBS takes text")),
        };
        let (arguments, variables) = match options::arguments(submission, &script) {
            Ok(arguments) => arguments,
            Err(why) => return SubmitAnswer::refused(why, Some(options::HINT)),
        };
        match self.server(submission.environment_with(&variables)) {
            Ok(server) if !server.keeps_history => {
                let what = format!("the server {} keeps no history of jobs", server.name);
                return SubmitAnswer::refused(what, Some(HISTORY));
            }
            Ok(server) => {
                if let Err(error) = self
                    .commands
                    .addresses
                    .note(&submission.token, &server.name)
                {
                    return SubmitAnswer::refused(error.to_string(), Some("make it writable"));
                }
            }
            // Nothing was sent.
            Err(error) => return WORDS.refused(&format!("cannot connect to server: {error}")),
        }
        let answer = self
            .commands
            .submit("qsub", &arguments, submission, &variables);
        match WORDS.read(&answer, read_id, reason) {
            Ok(id) => SubmitAnswer::Accepted { id, cluster: None },
            Err(answer) => answer,
        }
    }

    fn find(&mut self, tokens: &[Token], _since: Timestamp) -> Result<Vec<FoundJob>, NoAnswer> {
        let mut found = Vec::new();
        for token in tokens {
            let noted = self.commands.addresses.noted(token);
            let noted = noted.map_err(|error| NoAnswer::of("qselect", error.to_string()))?;
            let ids = self.named(token, noted.as_deref())?;
            let (jobs, unknown) = self.jobs(&ids.iter().collect::<Vec<_>>())?;
            if let Some(id) = unknown.first() {
                let gone = format!("{id} is named, and unknown a moment later");
                return Err(NoAnswer::of("qstat", gone));
            }
            let jobs = jobs.into_iter().filter(|job| job.name == token.0);
            found.extend(jobs.map(|job| job.found(token, None)));
        }
        Ok(found)
    }

    fn poll(&mut self, jobs: &[JobRef], _now: Timestamp) -> Result<Poll, NoAnswer> {
        let ids: Vec<&JobId> = jobs.iter().map(|job| &job.id).collect();
        let (told, unknown) = self.jobs(&ids)?;
        let mut poll = Poll::default();
        self.commands.settle(jobs, (&told, &unknown), &mut poll);
        Ok(poll)
    }

    fn cancel(&mut self, job: &JobRef) -> Result<(), NoAnswer> {
        let (jobs, _) = self.jobs(&[&job.id])?;
        if !jobs.iter().any(|found| found.lives(job)) {
            return Ok(());
        }
        let answer = self.ask("qdel", std::slice::from_ref(&job.id.0));
        let over = ["Job has finished", "Unknown Job Id"];
        match answer.is_clean() || over.iter().any(|part| answer.stderr.contains(part)) {
            true => Ok(()),
            false => Err(NoAnswer::of("qdel", answer.describe())),
        }
    }

    fn host_use(&mut self, jobs: &[JobRef]) -> Vec<(JobId, HostUse)> {
        let ids: Vec<&JobId> = jobs.iter().map(|job| &job.id).collect();
        let told = self.jobs(&ids).map(|(told, _)| told).unwrap_or_default();
        let used = told
            .into_iter()
            .filter(|found| jobs.iter().any(|job| found.is(job)));
        let used = used.map(|job| (job.status.id, job.used));
        used.filter(|(_, used)| *used != HostUse::default())
            .collect()
    }
}
