//! PBS (OpenPBS, PBS Professional) through its commands: `qsub`, `qstat`, `qselect`, `qdel`. What was observed of OpenPBS 23.06 (tests/pbs)
//! decides here.
//!
//! Rule: a server must keep the history of its jobs. Without it a job that ended is as unknown as one that never was, and a
//! submission whose answer was lost might be repeated.

mod jobs;
mod options;
mod refusal;
mod server;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use super::command::{CommandEnd, CommandOutput, SearchPath};
use super::directives::SCRIPT_MAX;
use super::noted::NotedAddresses;
use super::{FoundJob, JobSubmission, NoAnswer, Poll, Scheduler, SubmitAnswer};
use crate::io::files::read_text;
use crate::io::finding::{CheckFinding, CheckHealth};
use jobs::{PbsJob, read_id, read_jobs, unknown_ids};
use oomctl_base::job::{HostUse, JobId, JobRef, Stage, Token};
use server::PbsServer;

/// How long `qsub` may take; when it passes the outcome of a submission is unclear.
const SUBMIT: Duration = Duration::from_secs(60);
/// How long a question may take.
const QUESTION: Duration = Duration::from_secs(45);
/// How a server is made to remember its jobs.
const HISTORY: &str = "the administrators can switch it on: `qmgr -c 'set server job_history_enable=True'`; without it a job whose submission got no answer could not be found again";

/// PBS as the environment of this process finds it.
#[derive(Debug, Clone)]
pub struct Pbs {
    search: SearchPath,
    inherited: Vec<(OsString, OsString)>,
    servers: NotedAddresses,
    deadlines: (Duration, Duration),
    /// Jobs that PBS did not know when they were last asked for.
    missed: BTreeSet<JobId>,
}

impl Pbs {
    /// Jobs of the runs of a project.
    pub fn new(project: &Path) -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Self {
            search: SearchPath::Path(path),
            inherited: std::env::vars_os().collect(),
            servers: NotedAddresses::of(project, "pbs"),
            deadlines: (SUBMIT, QUESTION),
            missed: BTreeSet::new(),
        }
    }

    /// The same with the commands of a folder, as a process with this environment would have them.
    pub fn with_path(mut self, folder: PathBuf, environment: Vec<(OsString, OsString)>) -> Self {
        self.search = SearchPath::Folder(folder);
        self.inherited = environment;
        self
    }

    /// The same with another deadline for all calls.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadlines = (deadline, deadline);
        self
    }

    /// What can be said of PBS on this machine; nothing where it is neither there nor `wanted`.
    pub fn checkup(&self, wanted: bool) -> Option<CheckFinding> {
        let found = |health, found: String, advice: &str| {
            Some(CheckFinding::with(health, "PBS", found, advice))
        };
        if self.search.locate("qsub").is_none() {
            let advice = "PBS's commands must be on PATH; `module load pbs` on some sites";
            let absent = "no qsub on PATH".to_owned();
            return wanted
                .then(|| found(CheckHealth::Bad, absent, advice))
                .flatten();
        }
        match self.server(self.inherited.clone()) {
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

    /// Asks the server. Messages come back in English, times in UTC.
    fn ask(&self, program: &str, arguments: Vec<String>) -> CommandOutput {
        self.ask_in(program, arguments, self.inherited.clone())
    }

    fn ask_in(
        &self,
        program: &str,
        arguments: Vec<String>,
        mut environment: Vec<(OsString, OsString)>,
    ) -> CommandOutput {
        environment.retain(|(name, _)| name != "TZ" && name != "LC_ALL");
        environment.push(("LC_ALL".into(), "C.UTF-8".into()));
        environment.push(("TZ".into(), "UTC".into()));
        self.search
            .run(program, arguments, environment, self.deadlines.1, None)
    }

    /// The server to which a process with this environment submits.
    fn server(&self, environment: Vec<(OsString, OsString)>) -> Result<PbsServer, NoAnswer> {
        let words = ["-B", "-f", "-F", "json"].map(str::to_owned);
        let answer = self.ask_in("qstat", words.into(), environment);
        if !answer.is_clean() {
            return Err(NoAnswer::of("qstat -B", answer.describe()));
        }
        PbsServer::read(&answer.stdout).map_err(|why| NoAnswer::of("qstat -B", why))
    }

    /// The jobs that PBS knows of these, and the ids that it does not know.
    fn jobs(&self, ids: &[&JobId]) -> Result<(Vec<PbsJob>, Vec<JobId>), NoAnswer> {
        if ids.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let words = ["-x", "-f", "-F", "json"].map(str::to_owned);
        let ids = ids.iter().map(|id| id.0.clone());
        let answer = self.ask("qstat", words.into_iter().chain(ids).collect());
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
        let answer = self.ask("qselect", words);
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
        let environment = submission.environment_with(&variables);
        match self.server(environment.clone()) {
            Ok(server) if !server.keeps_history => {
                let what = format!("the server {} keeps no history of jobs", server.name);
                return SubmitAnswer::refused(what, Some(HISTORY));
            }
            Ok(server) => {
                if let Err(error) = self.servers.note(&submission.token, &server.name) {
                    return SubmitAnswer::refused(error.to_string(), Some("make it writable"));
                }
            }
            // Nothing was sent.
            Err(error) => return refusal::refused(&format!("cannot connect to server: {error}")),
        }
        let folder = Some(submission.workdir.as_path());
        let deadline = self.deadlines.0;
        let answer = self
            .search
            .run("qsub", arguments, environment, deadline, folder);
        match refusal::read_answer(&answer) {
            Ok(id) => SubmitAnswer::Accepted { id, cluster: None },
            Err(answer) => answer,
        }
    }

    fn find(&mut self, tokens: &[Token], _since: Timestamp) -> Result<Vec<FoundJob>, NoAnswer> {
        let mut found = Vec::new();
        for token in tokens {
            let noted = self.servers.noted(token);
            let noted = noted.map_err(|error| NoAnswer::of("qselect", error.to_string()))?;
            let ids = self.named(token, noted.as_deref())?;
            let (jobs, unknown) = self.jobs(&ids.iter().collect::<Vec<_>>())?;
            if let Some(id) = unknown.first() {
                let gone = format!("{id} is named, and unknown a moment later");
                return Err(NoAnswer::of("qstat", gone));
            }
            let jobs = jobs.into_iter().filter(|job| job.name == token.0);
            found.extend(jobs.map(|job| FoundJob {
                token: token.clone(),
                refused_trace: false,
                submitted: job.submitted,
                cluster: None,
                status: job.status,
            }));
        }
        Ok(found)
    }

    fn poll(&mut self, jobs: &[JobRef], _now: Timestamp) -> Result<Poll, NoAnswer> {
        let ids: Vec<&JobId> = jobs.iter().map(|job| &job.id).collect();
        let (told, unknown) = self.jobs(&ids)?;
        let mut poll = Poll::default();
        for job in jobs {
            if let Some(found) = told.iter().find(|found| found.is(job)) {
                self.missed.remove(&job.id);
                poll.jobs.push(found.status.clone());
                continue;
            }
            // Unknown, or another job's: the server was set up anew.
            let gone = unknown.contains(&job.id) || told.iter().any(|j| j.status.id == job.id);
            if gone && !self.missed.insert(job.id.clone()) {
                poll.vanished.push(job.id.clone());
            }
        }
        Ok(poll)
    }

    fn cancel(&mut self, job: &JobRef) -> Result<(), NoAnswer> {
        let (jobs, _) = self.jobs(&[&job.id])?;
        let lives = |found: &PbsJob| found.status.state.stage() != Stage::Ended;
        if !jobs.iter().any(|found| found.is(job) && lives(found)) {
            return Ok(());
        }
        let answer = self.ask("qdel", vec![job.id.0.clone()]);
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
