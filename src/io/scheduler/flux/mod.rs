//! Flux through its commands: `flux batch`, `flux jobs`, `flux cancel`. What was observed of flux-core 0.88 (tests/flux) decides here.
//!
//! Rule: a run's jobs are asked for in the Flux instance that they were submitted to, whatever instance surrounds this process:
//! instances lie inside each other, and one knows nothing of the jobs of another.

mod instances;
mod jobs;
mod options;
mod refusal;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use super::command::{CommandEnd, CommandOutput};
use super::directives::SCRIPT_MAX;
use super::tokens::{TokenCommands, TokenJob};
use super::{FoundJob, JobSubmission, NoAnswer, Poll, Scheduler, SubmitAnswer};
use crate::io::files::read_text;
use instances::{FluxInstance, URI};
use jobs::{read_id, read_jobs, unknown_ids};
use oomctl_base::job::{JobId, JobRef, Token};
use refusal::{WORDS, reason};

/// Flux as the environment of this process finds it.
#[derive(Debug, Clone)]
pub struct Flux {
    commands: TokenCommands,
}

impl Flux {
    /// Jobs of the runs of a project.
    pub fn new(project: &Path) -> Self {
        Self {
            commands: TokenCommands::of(project, "flux"),
        }
    }

    /// The same with the `flux` of a folder, as a process with this environment would have it.
    pub fn with_path(mut self, folder: PathBuf, environment: Vec<(OsString, OsString)>) -> Self {
        self.commands.take(folder, environment);
        self
    }

    /// The same with another deadline for all calls.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.commands.limit(deadline);
        self
    }

    /// The instance that surrounds this process.
    fn surrounding(&self) -> FluxInstance {
        let uri = self.commands.inherited.iter().find(|(name, _)| name == URI);
        FluxInstance::at(uri.map(|(_, uri)| uri.to_string_lossy().into_owned()))
    }

    /// Asks an instance.
    fn ask(&self, instance: &FluxInstance, arguments: &[String]) -> CommandOutput {
        let mut environment = self.commands.inherited.clone();
        environment.retain(|(name, _)| name != URI);
        environment.extend(instance.variable());
        self.commands.ask("flux", arguments, environment)
    }

    /// The jobs that an answer of `flux jobs --json` tells of, and the ids that it does not know.
    fn jobs(
        &self,
        instance: &FluxInstance,
        arguments: Vec<String>,
    ) -> Result<(Vec<TokenJob>, Vec<JobId>), NoAnswer> {
        let words = ["jobs", "--json"].map(str::to_owned);
        let answer = self.ask(instance, &[words.to_vec(), arguments].concat());
        let unknown = unknown_ids(&answer.stderr);
        // Where none of the jobs asked for is known, that is an error.
        let none = answer.end == CommandEnd::Exited(1) && !unknown.is_empty();
        if none && answer.stdout.trim().is_empty() {
            return Ok((Vec::new(), unknown));
        }
        if !answer.is_clean() {
            return Err(NoAnswer::of("flux jobs", answer.describe()));
        }
        let jobs = read_jobs(&answer.stdout).map_err(|why| NoAnswer::of("flux jobs", why))?;
        Ok((jobs, unknown))
    }

    /// Asks one instance for its jobs of a poll.
    fn poll_in(
        &mut self,
        instance: &FluxInstance,
        wanted: &[&JobRef],
        poll: &mut Poll,
    ) -> Result<(), NoAnswer> {
        let ids = wanted.iter().map(|job| job.id.0.clone()).collect();
        let (told, unknown) = self.jobs(instance, ids)?;
        let wanted = wanted.iter().copied();
        self.commands.settle(wanted, (&told, &unknown), poll);
        Ok(())
    }

    /// What became of a job at once: a request that no node can satisfy is accepted, and fails before it starts.
    fn refused_at_once(&self, instance: &FluxInstance, id: &JobId) -> Option<String> {
        let (jobs, _) = self.jobs(instance, vec![id.0.clone()]).ok()?;
        jobs.into_iter().find_map(|job| job.refusal)
    }
}

impl Scheduler for Flux {
    fn name(&self) -> &'static str {
        "flux"
    }

    fn submit(&mut self, submission: &JobSubmission, _now: Timestamp) -> SubmitAnswer {
        let script = match read_text(&submission.script, SCRIPT_MAX) {
            Ok(script) => script,
            Err(error) => return SubmitAnswer::refused(error.to_string(), Some("Flux takes text")),
        };
        let (arguments, variables) = match options::arguments(submission, &script) {
            Ok(arguments) => arguments,
            Err(why) => return SubmitAnswer::refused(why, Some(options::HINT)),
        };
        // A later attempt goes where the first one went.
        let instance = FluxInstance::at(submission.environment.get(URI).cloned());
        let uri = instance.uri.as_deref().unwrap_or_default();
        if let Err(error) = self.commands.addresses.note(&submission.token, uri) {
            return SubmitAnswer::refused(error.to_string(), Some("make it writable"));
        }
        let answer = self
            .commands
            .submit("flux", &arguments, submission, &variables);
        let id = match WORDS.read(&answer, read_id, reason) {
            Ok(id) => id,
            Err(answer) => return answer,
        };
        match self.refused_at_once(&instance, &id) {
            Some(reason) => WORDS.refused(&reason),
            None => SubmitAnswer::Accepted {
                id,
                cluster: instance.uri,
            },
        }
    }

    fn find(&mut self, tokens: &[Token], _since: Timestamp) -> Result<Vec<FoundJob>, NoAnswer> {
        let mut found = Vec::new();
        for token in tokens {
            let noted = self.commands.addresses.noted(token);
            let noted = noted.map_err(|error| NoAnswer::of("flux jobs", error.to_string()))?;
            let noted = noted.map(|uri| FluxInstance::at(Some(uri)));
            let instance = noted.unwrap_or_else(|| self.surrounding());
            let all = ["-a", "--count=0"].map(str::to_owned);
            let named = std::iter::once(format!("--name={token}"));
            let (jobs, _) = self.jobs(&instance, all.into_iter().chain(named).collect())?;
            let jobs = jobs.into_iter().filter(|job| job.name == token.0);
            found.extend(jobs.map(|job| job.found(token, instance.uri.clone())));
        }
        Ok(found)
    }

    fn poll(&mut self, jobs: &[JobRef], _now: Timestamp) -> Result<Poll, NoAnswer> {
        let mut of_instance: BTreeMap<Option<&str>, Vec<&JobRef>> = BTreeMap::new();
        for job in jobs {
            let jobs = of_instance.entry(job.cluster.as_deref()).or_default();
            jobs.push(job);
        }
        let (mut poll, mut failed) = (Poll::default(), None);
        for wanted in of_instance.into_values() {
            let Some(first) = wanted.first() else {
                continue;
            };
            let asked = self.poll_in(&FluxInstance::of_job(first), &wanted, &mut poll);
            failed = asked.err().or(failed);
        }
        match failed {
            // One instance that is gone must not silence the others.
            Some(error) if poll == Poll::default() => Err(error),
            _ => Ok(poll),
        }
    }

    fn cancel(&mut self, job: &JobRef) -> Result<(), NoAnswer> {
        let instance = FluxInstance::of_job(job);
        let (jobs, _) = self.jobs(&instance, vec![job.id.0.clone()])?;
        if !jobs.iter().any(|found| found.lives(job)) {
            return Ok(());
        }
        let words = ["cancel", &job.id.0].map(str::to_owned);
        let answer = self.ask(&instance, &words);
        let over = answer.stderr.contains("inactive") || answer.stderr.contains("unknown job");
        match answer.is_clean() || over {
            true => Ok(()),
            false => Err(NoAnswer::of("flux cancel", answer.describe())),
        }
    }
}
