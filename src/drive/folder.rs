//! The folder of a run: `.oomctl/runs/<run>/`, and what lies in it.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::DriveError;
use crate::io::files::{
    Access, check_ours, check_run_name, io_error, make_private_dir, read_text, write_atomic,
};
use crate::io::{disk, fits, node_log};
use oomctl_base::job::JobId;

/// Largest `inputs.json` or `environment.json`, in bytes.
const INPUTS_MAX: u64 = 16 * 1024 * 1024;

/// Largest claim, in bytes.
const CLAIM_MAX: u64 = 64;

/// The environment of a run's jobs: values, and the names of secrets whose values are never written.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Environment {
    /// Variables by name.
    pub variables: BTreeMap<String, String>,
    /// Names of variables that are taken from the environment of whoever submits.
    #[serde(default)]
    pub secrets: Vec<String>,
}

/// The folder of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFolder {
    dir: PathBuf,
}

impl RunFolder {
    /// The folder of the run `name` under `runs` (`<project>/.oomctl/runs`), whether it exists or not.
    ///
    /// # Errors
    /// When `name` cannot be the name of a run.
    pub fn of(runs: &Path, name: &str) -> Result<Self, DriveError> {
        check_run_name(name)?;
        Ok(Self {
            dir: runs.join(name),
        })
    }

    /// Makes the folder of a new run, with nothing in it.
    ///
    /// # Errors
    /// When it cannot be made, or belongs to somebody else.
    pub fn make(&self) -> Result<(), DriveError> {
        Ok(make_private_dir(&self.dir)?)
    }

    /// Writes down the environment and then the request, which makes it a run: whatever else a run needs must be there
    /// before.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn fill(&self, inputs: &str, environment: &Environment) -> Result<(), DriveError> {
        let text = serde_json::to_string_pretty(environment)
            .map_err(|e| DriveError::unreadable(self.environment_file(), e))?;
        write_atomic(&self.environment_file(), text.as_bytes(), Access::Private)?;
        Ok(write_atomic(
            &self.inputs(),
            inputs.as_bytes(),
            Access::Private,
        )?)
    }

    /// Refuses a folder that is not ours.
    ///
    /// # Errors
    /// When it does not exist, belongs to somebody else, or is writable by everybody.
    pub fn check(&self) -> Result<(), DriveError> {
        Ok(check_ours(&self.dir)?)
    }

    /// The same for who only reads: root may, whosever it is, and lab mates may who are let in. It must be the folder of
    /// whoever owns the project's runs, and nobody else may write it.
    ///
    /// # Errors
    /// When it is not safe to read.
    pub fn check_read(&self) -> Result<(), DriveError> {
        let folder = |path: &Path| path.symlink_metadata().ok().filter(Metadata::is_dir);
        let runs = self.dir.parent().and_then(folder);
        let by_its_owner = |of: &Metadata| {
            let owner = runs.is_some_and(|runs| runs.uid() == of.uid());
            owner && of.mode() & 0o022 == 0
        };
        match folder(&self.dir) {
            Some(_) if rustix::process::geteuid().is_root() => Ok(()),
            Some(of) if by_its_owner(&of) => Ok(()),
            _ => self.check(),
        }
    }

    /// Is this the folder of a run?
    pub fn is_one(path: &Path) -> bool {
        let runs = path.parent();
        runs.is_some_and(|runs| runs.ends_with(".oomctl/runs"))
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The request of the run.
    pub fn inputs(&self) -> PathBuf {
        self.dir.join("inputs.json")
    }

    /// The text of the request.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read_inputs(&self) -> Result<String, DriveError> {
        Ok(read_text(&self.inputs(), INPUTS_MAX)?)
    }

    fn environment_file(&self) -> PathBuf {
        self.dir.join("environment.json")
    }

    /// The environment of the run's jobs, as it was written down.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn environment(&self) -> Result<Environment, DriveError> {
        let path = self.environment_file();
        let text = read_text(&path, INPUTS_MAX)?;
        serde_json::from_str(&text).map_err(|e| DriveError::unreadable(path, e))
    }

    /// The folder of an attempt.
    pub fn attempt(&self, number: u32) -> PathBuf {
        self.dir.join(format!("attempt-{number}"))
    }

    /// Standard output of an attempt's job.
    pub fn stdout(&self, number: u32) -> PathBuf {
        self.attempt(number).join("slurm.out")
    }

    /// Standard error of an attempt's job.
    pub fn stderr(&self, number: u32) -> PathBuf {
        self.attempt(number).join("slurm.err")
    }

    /// The job that began as this attempt: its script writes its id down first of all.
    pub fn claimed_by(&self, number: u32) -> Option<JobId> {
        let text = read_text(&self.attempt(number).join("claim"), CLAIM_MAX).ok()?;
        let id = text.trim();
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"_+-.".contains(&b);
        (!id.is_empty() && id.bytes().all(plain)).then(|| JobId(id.to_owned()))
    }

    /// Where the watch stands in the logs of an attempt.
    pub fn bookmark(&self, number: u32) -> PathBuf {
        self.attempt(number).join("follow.jsonl")
    }

    /// Where people look for logs: `<project>/logs`.
    pub fn log_links(&self) -> Option<PathBuf> {
        Some(self.project()?.join("logs"))
    }

    /// What the project learned from its runs.
    pub fn fits(&self) -> Option<PathBuf> {
        self.project().map(fits::file_of)
    }

    /// What the project's jobs met on their nodes.
    pub fn nodes(&self) -> Option<PathBuf> {
        self.project().map(node_log::file_of)
    }

    /// The folder of its project.
    pub fn project(&self) -> Option<&Path> {
        self.dir.parent()?.parent()?.parent()
    }

    /// The last turn of the watch that was begun, where small jobs take turns.
    pub fn turn(&self) -> PathBuf {
        self.dir.join("watch-turn.json")
    }

    /// What the watch jobs print.
    pub fn watch_log(&self) -> PathBuf {
        self.dir.join("watch.log")
    }

    /// The request to end the run, left by `cancel` for whoever supervises it.
    pub fn cancel_request(&self) -> PathBuf {
        self.dir.join("cancel-requested")
    }

    /// Asks whoever supervises the run, now or later, to end it.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn request_cancel(&self, by: &str) -> Result<(), DriveError> {
        Ok(write_atomic(
            &self.cancel_request(),
            by.as_bytes(),
            Access::Private,
        )?)
    }

    /// Takes the request to end the run back: it is over, and goes on. A host that goes down must not bring it back.
    ///
    /// # Errors
    /// When the file is there and cannot be removed.
    pub fn withdraw_cancel(&self) -> Result<(), DriveError> {
        let path = self.cancel_request();
        match disk::remove_file(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
            removed => {
                removed.map_err(io_error("remove", &path))?;
                Ok(disk::sync_dir(&self.dir).map_err(io_error("sync", &self.dir))?)
            }
        }
    }

    /// Who asked for the end of the run, if anybody did.
    pub fn cancel_requested(&self) -> Option<String> {
        read_text(&self.cancel_request(), 1_024).ok()
    }
}
