//! Slurm through its commands: sbatch, squeue, sacct, scontrol, scancel, as argv and in batches. Where slurmrestd is named, it takes
//! their place in what a run needs (`rest`).
//!
//! Rule: an answer that failed, came late or is empty is never a verdict about a job. Exit codes,
//! texts and latencies behind the decisions here were observed on Slurm 22.05 and 26.05
//! (tests/slurm starts the cluster they came from).

mod accounts;
mod cancel;
mod checkup;
mod clients;
mod cluster;
mod dependents;
mod find;
mod foreign;
mod ids;
pub mod log_paths;
pub mod parse;
mod queue;
mod record;
pub mod refusal;
mod reservations;
mod rest;
mod shared;
pub mod states;
mod step;
mod submit;
mod view;
mod watch_chain;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::command::SearchPath;
use super::{
    Dependent, FoundJob, JobSubmission, Maintenance, NoAnswer, Poll, Scheduler, SubmitAnswer,
};
use crate::core::request::StartForecast;
use crate::io::files::runtime_dir;
use oomctl_base::job::{HostUse, JobId, JobRef, Token};

pub use clients::Deadlines;
use clients::{Clients, no_answer, on_cluster, says_unknown_id};
pub use cluster::{ClusterPartition, SlurmCluster};
pub use foreign::Foreign;
pub(super) use ids::NamedJob;
use parse::Control;
use queue::PollState;
pub use rest::{RestAddress, RestClient, RestPlace, reading as rest_reading};
use shared::SharedAnswers;
pub use step::OnNodes;
pub use submit::bad_option;
pub use watch_chain::{WatchJob, WatchStart};

/// True when Slurm's commands are on this machine.
pub fn available() -> bool {
    search_path(&inherited()).locate("sbatch").is_some()
}

fn inherited() -> Vec<(OsString, OsString)> {
    std::env::vars_os().collect()
}

fn search_path(environment: &[(OsString, OsString)]) -> SearchPath {
    let path = environment.iter().find(|(name, _)| name == "PATH");
    SearchPath::Path(path.map(|(_, value)| value.clone()).unwrap_or_default())
}

/// Whether this site keeps accounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Accounting {
    /// sacct may know something.
    Asked,
    /// sacct said that accounting is off, or there is no sacct.
    Off,
}

/// The Slurm of this machine.
#[derive(Debug, Clone)]
pub struct Slurm {
    clients: Clients,
    /// Asked in place of the commands.
    rest: Option<RestClient>,
    /// Where `find` looks; none is the cluster of this machine.
    clusters: Vec<Option<String>>,
    accounting: Accounting,
    /// Extra detail from sacct is not asked for before this moment, after it did not answer.
    accounting_rests_until: Option<Timestamp>,
    memory: BTreeMap<String, PollState>,
    shared: Option<SharedAnswers>,
    /// Are the jobs another user's, whatever their tokens say?
    of_others: bool,
}

/// Set to `off`, it keeps this process from sharing answers with others of its user.
const SHARING: &str = "OOMCTL_SHARED_ANSWERS";

impl Slurm {
    /// Slurm's commands as `PATH` and the environment of this process find them.
    pub fn new() -> Self {
        let inherited = inherited();
        let search = search_path(&inherited);
        Self::build(search, inherited)
    }

    /// Slurm's commands in one folder.
    pub fn with_path(folder: impl Into<PathBuf>) -> Self {
        Self::build(SearchPath::Folder(folder.into()), inherited())
    }

    fn build(search: SearchPath, inherited: Vec<(OsString, OsString)>) -> Self {
        Self {
            clients: Clients {
                search,
                inherited,
                deadlines: Deadlines::default(),
            },
            rest: None,
            clusters: vec![None],
            accounting: Accounting::Asked,
            accounting_rests_until: None,
            memory: BTreeMap::new(),
            shared: None,
            of_others: false,
        }
    }

    /// The same, sharing what squeue says with the other processes of this user on this host, unless the user does not
    /// want that or there is no safe place for it.
    pub fn sharing_answers(self) -> Self {
        let switch = self
            .clients
            .inherited
            .iter()
            .find(|(name, _)| name == SHARING);
        match switch.is_some_and(|(_, value)| value == "off") {
            true => self,
            false => self.sharing_answers_in(&runtime_dir()),
        }
    }

    /// The same, through slurmrestd where there is one.
    pub fn through(mut self, rest: Option<RestPlace>) -> Self {
        self.rest = rest.map(RestClient::at);
        self
    }

    /// The same for who looks at the jobs of other users.
    pub fn of_others(mut self) -> Self {
        self.of_others = true;
        self
    }

    /// The same, in a folder that is made if it is missing.
    pub fn sharing_answers_in(mut self, folder: &Path) -> Self {
        self.shared = SharedAnswers::open_in(folder).ok();
        self
    }

    /// The same with other deadlines.
    pub fn deadlines(mut self, deadlines: Deadlines) -> Self {
        self.clients.deadlines = deadlines;
        self
    }

    /// The same as a process with this environment would have it.
    pub fn inheriting(mut self, environment: Vec<(OsString, OsString)>) -> Self {
        self.clients.inherited = environment;
        self
    }

    /// Where the logs of a job are, as Slurm reports it: standard output and standard error, with
    /// sbatch's patterns filled in. `None` when Slurm does not say (any more).
    pub fn log_paths(&self, job: &JobRef) -> Option<(PathBuf, PathBuf)> {
        let control = self.control(job).ok()??;
        log_paths::log_paths(&control)
    }
}

impl Default for Slurm {
    fn default() -> Self {
        Self::new()
    }
}

impl Scheduler for Slurm {
    fn name(&self) -> &'static str {
        "slurm"
    }

    fn submit(&mut self, submission: &JobSubmission, _now: Timestamp) -> SubmitAnswer {
        submit::submit(&self.clients, self.rest.as_ref(), submission)
    }

    fn look_on_clusters(&mut self, clusters: &[String]) {
        let new = clusters.iter().cloned().map(Some);
        let new: Vec<_> = new.filter(|c| !self.clusters.contains(c)).collect();
        // First: the cluster of this machine knows its jobs by both names.
        self.clusters.splice(0..0, new);
    }

    fn find(&mut self, tokens: &[Token], since: Timestamp) -> Result<Vec<FoundJob>, NoAnswer> {
        self.find_tokens(tokens, since)
    }

    fn poll(&mut self, jobs: &[JobRef], now: Timestamp) -> Result<Poll, NoAnswer> {
        self.poll_jobs(jobs, now)
    }

    fn cancel(&mut self, job: &JobRef) -> Result<(), NoAnswer> {
        self.cancel_one(job)
    }

    fn cancel_all(&mut self, jobs: &[JobRef]) -> Vec<Result<(), NoAnswer>> {
        self.cancel_several(jobs)
    }

    /// `MaxArraySize` of slurm.conf: the largest index is one less. 0 switches arrays off.
    fn array_limit(&mut self) -> Option<usize> {
        if self.rest.is_some() {
            return None;
        }
        let arguments = ["show", "config"].map(str::to_owned);
        let text = self.clients.answer("scontrol", &arguments).ok()?;
        parse::read_array_limit(&text).filter(|most| *most > 1)
    }

    fn host_use(&mut self, jobs: &[JobRef]) -> Vec<(JobId, HostUse)> {
        self.host_use_of(jobs)
    }

    fn dependents(&mut self, job: &JobRef) -> Vec<Dependent> {
        match &self.rest {
            Some(_) => Vec::new(),
            None => dependents::waiting(&self.clients, job),
        }
    }

    fn redirect(
        &mut self,
        dependent: &Dependent,
        from: &JobId,
        to: &JobRef,
    ) -> Result<(), NoAnswer> {
        dependents::redirect(&self.clients, dependent, from, to)
    }

    fn forecast(&mut self, submission: &JobSubmission) -> Result<Option<StartForecast>, NoAnswer> {
        match &self.rest {
            Some(rest) => Err(rest.cannot("say when a job would start (sbatch --test-only)")),
            None => submit::forecast(&self.clients, submission),
        }
    }

    fn maintenances(&mut self) -> Vec<Maintenance> {
        match &self.rest {
            Some(_) => Vec::new(),
            None => reservations::maintenances(&self.clients),
        }
    }
}

impl Slurm {
    /// What `scontrol show job` says; `None` when the controller does not know the job.
    fn control(&self, job: &JobRef) -> Result<Option<Control>, NoAnswer> {
        if !parse::is_job_id(&job.id.0) {
            return Ok(None);
        }
        if let Some(rest) = &self.rest {
            let control = rest.control(job, self.clients.deadlines)?;
            return Ok(control.map(Control::numbered));
        }
        let Some(text) = self.shown(job)? else {
            return Ok(None);
        };
        let control = parse::read_scontrol(&text).map(Control::numbered);
        // Nothing, with exit code 0: no answer, whatever else it may be.
        let none = || NoAnswer::of("scontrol", "it does not say which job");
        control.map(Some).ok_or_else(none)
    }

    /// The text of `scontrol show job`; `None` where the controller does not know the job.
    fn shown(&self, job: &JobRef) -> Result<Option<String>, NoAnswer> {
        if !parse::is_job_id(&job.id.0) {
            return Ok(None);
        }
        let mut arguments = on_cluster(job.cluster.as_deref());
        arguments.extend(["-d", "show", "job", &job.id.0].map(str::to_owned));
        let answer = self.clients.query("scontrol", &arguments);
        match answer.is_clean() {
            _ if says_unknown_id(&answer) => Ok(None),
            true => Ok(Some(answer.stdout)),
            false => Err(no_answer("scontrol", &answer)),
        }
    }
}
