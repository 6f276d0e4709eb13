//! Slurm's commands as calls: where they are, what they see of our environment, how long each may
//! take.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use super::super::NoAnswer;
use super::super::command::{
    CommandEnd, CommandOutput, SearchPath, changes_answers, without_slurm_variables,
};
use super::super::local::process::boot_id;

/// How long each command may take. Seen on 22.05 with the default `MessageTimeout=10`: squeue
/// blocks 18 to 20 s without a controller, sbatch 10 s (120 s while the job queue is full), sacct
/// for ever without an answering slurmdbd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// For sbatch; when it passes the outcome of a submission is unclear.
    pub submit: Duration,
    /// For `sbatch --test-only`, which nothing waits for that could be lost.
    pub test: Duration,
    /// For squeue, scontrol and scancel.
    pub controller: Duration,
    /// For sacct.
    pub accounting: Duration,
}

impl Deadlines {
    /// The same for all.
    pub fn all(deadline: Duration) -> Self {
        Self {
            submit: deadline,
            test: deadline,
            controller: deadline,
            accounting: deadline,
        }
    }
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            submit: Duration::from_secs(60),
            test: Duration::from_secs(15),
            controller: Duration::from_secs(45),
            accounting: Duration::from_secs(30),
        }
    }
}

/// Slurm's commands on this machine.
#[derive(Debug, Clone)]
pub(super) struct Clients {
    pub search: SearchPath,
    pub inherited: Vec<(OsString, OsString)>,
    pub deadlines: Deadlines,
}

impl Clients {
    /// Runs a command that asks or cancels. Times come back as seconds since 1970, messages in
    /// English.
    pub fn query(&self, program: &str, arguments: &[String]) -> CommandOutput {
        let mut environment = without_slurm_variables(self.inherited.iter().cloned());
        environment.retain(|(name, _)| name != "LC_ALL");
        environment.push(("LC_ALL".into(), "C".into()));
        environment.push(("SLURM_TIME_FORMAT".into(), "%s".into()));
        let deadline = match program {
            "sacct" => self.deadlines.accounting,
            _ => self.deadlines.controller,
        };
        self.search
            .run(program, arguments, environment, deadline, None)
    }

    /// What such a command prints where it does its work.
    ///
    /// # Errors
    /// `NoAnswer` where it does not, or does not say so.
    pub fn answer(&self, program: &str, arguments: &[String]) -> Result<String, NoAnswer> {
        let answer = self.query(program, arguments);
        match answer.is_clean() {
            true => Ok(answer.stdout),
            false => Err(no_answer(program, &answer)),
        }
    }

    /// All that the answer to a question depends on, for this user; the time of answers is that since the boot.
    pub fn identity(&self, program: &str, arguments: &[String]) -> Vec<String> {
        let text = |value: &OsString| value.to_string_lossy().into_owned();
        let conf = self.inherited.iter().find(|(name, _)| name == "SLURM_CONF");
        let path = self.search.locate(program);
        let path = path.map(|path| path.display().to_string());
        let mut words = vec![
            conf.map(|(_, value)| text(value)).unwrap_or_default(),
            path.unwrap_or_default(),
            boot_id(),
        ];
        words.extend_from_slice(arguments);
        words
    }

    /// Runs sbatch. With `--export=ALL` a job gets exactly the environment that sbatch had, so
    /// sbatch gets the job's. Slurm's own variables are kept out of it: they would change the
    /// submission (`SBATCH_PARTITION` beats the script) or, from an outer job, contradict it.
    /// A `test` submits nothing, and its times come back as seconds since 1970.
    pub fn sbatch(
        &self,
        arguments: &[String],
        job_environment: &BTreeMap<String, String>,
        folder: &std::path::Path,
        test: bool,
    ) -> CommandOutput {
        let mut environment: Vec<(OsString, OsString)> = job_environment
            .iter()
            .filter(|(name, _)| !changes_answers(name.as_ref()))
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        if !job_environment.contains_key("SLURM_CONF") {
            let conf = self.inherited.iter().find(|(name, _)| name == "SLURM_CONF");
            environment.extend(conf.cloned());
        }
        let deadline = match test {
            true => self.deadlines.test,
            false => self.deadlines.submit,
        };
        if test {
            environment.push(("SLURM_TIME_FORMAT".into(), "%s".into()));
        }
        self.search
            .run("sbatch", arguments, environment, deadline, Some(folder))
    }
}

/// The refusal to conclude anything from an answer.
pub(super) fn no_answer(command: &str, answer: &CommandOutput) -> NoAnswer {
    NoAnswer::of(command, answer.describe())
}

/// Slurm's message for an id that it does not know (any more). The controller did answer.
pub(super) fn says_unknown_id(answer: &CommandOutput) -> bool {
    let unknown = answer.stderr.contains("Invalid job id specified");
    // Of a task of an array that others of are still known: 22.05 on standard output, 26.05 on standard error.
    let no_task = |text: &str| text.starts_with("Job ") && text.trim_end().ends_with(" not found");
    let no_task = no_task(&answer.stdout) || no_task(&answer.stderr);
    matches!(answer.end, CommandEnd::Exited(_)) && (unknown || no_task)
}

/// `-M cluster`, where a job is on a named one.
pub(super) fn on_cluster(cluster: Option<&str>) -> Vec<String> {
    cluster
        .map(|name| vec!["-M".to_owned(), name.to_owned()])
        .unwrap_or_default()
}
