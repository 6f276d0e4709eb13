//! What is on disk about a local job: a folder of small files, each written once and whole.
//!
//! | file | by | when |
//! |---|---|---|
//! | `job.json` | submit | before the keeper is started |
//! | `started` | keeper | it owns the job; the script starts now |
//! | `cancel` | cancel | somebody wants the job to end |
//! | `ending` | keeper | the end is decided, processes may still run |
//! | `exit` | keeper, or who finds it gone | final |
//!
//! The job's environment is in none of them: it may hold secrets, and goes from process to process.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::process::Identity;
use oomctl_base::job::{ExitStatus, JobId, JobRef, JobState, JobStatus, Token};

/// Largest record that is read.
const MAX_RECORD_BYTES: u64 = 1 << 20;

/// What is to be run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalJob {
    /// The job's id, also the name of its folder.
    pub id: JobId,
    /// The token it is found by.
    pub token: Token,
    /// When it was submitted.
    pub submitted: Timestamp,
    /// Script for bash, absolute.
    pub script: PathBuf,
    /// What the script is handed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// Working directory, absolute.
    pub workdir: PathBuf,
    /// Standard output, appended to.
    pub stdout: PathBuf,
    /// Standard error, appended to.
    pub stderr: PathBuf,
    /// Wall-clock limit in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit_s: Option<u64>,
    /// Seconds from the polite signal to the deadly one.
    pub grace_s: u64,
    /// The machine.
    pub host: String,
}

impl LocalJob {
    /// Is it the job that is meant? A number may have been given out again.
    pub fn is(&self, wanted: &JobRef) -> bool {
        let token = wanted.token.as_ref();
        token.is_none_or(|token| *token == self.token)
    }
}

/// Who keeps the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// The keeper; its pid is also the session of all of the job's processes.
    pub keeper: Identity,
    /// When the script started.
    pub at: Timestamp,
}

/// How the job ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalJobEnd {
    /// Final state.
    pub state: JobState,
    /// Exit of the script.
    pub exit: ExitStatus,
    /// When.
    pub at: Timestamp,
    /// Why, in one word, where the state does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// User id of who cancelled it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled_by: Option<String>,
}

/// Somebody's wish that the job ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancel {
    /// User id of who asked.
    pub by: String,
}

/// The folder of one job.
#[derive(Debug, Clone)]
pub struct JobFolder(pub PathBuf);

impl JobFolder {
    /// Makes the folder with the next free number below `root`. `mkdir` is atomic, also between
    /// machines, so no two jobs get one number.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn create(root: &Path) -> io::Result<(JobId, Self)> {
        let mut private = fs::DirBuilder::new();
        private.mode(0o700);
        fs::create_dir_all(root)?;
        let mut number = numbers(root)?.into_iter().max().unwrap_or(0);
        loop {
            number += 1;
            let folder = root.join(number.to_string());
            match private.create(&folder) {
                Ok(()) => return Ok((JobId(number.to_string()), Self(folder))),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The folder of a job, for an id that can be one.
    pub fn of(root: &Path, id: &JobId) -> Option<Self> {
        id.0.parse::<u64>()
            .ok()
            .map(|number| Self(root.join(number.to_string())))
    }

    /// Writes a record that nobody may have written before: whole or not at all, and never twice.
    ///
    /// # Errors
    /// `AlreadyExists` when there is one already; others when the disk refuses.
    pub fn write(&self, name: &str, record: &impl Serialize) -> io::Result<()> {
        let draft = self.0.join(format!(".{name}.{}", std::process::id()));
        let text = serde_json::to_vec(record)?;
        let mut file = fs::OpenOptions::new();
        let mut file = file
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&draft)?;
        file.write_all(&text)?;
        file.sync_all()?;
        let placed = place(&draft, &self.0.join(name));
        let _ = fs::remove_file(&draft);
        placed?;
        fs::File::open(&self.0)?.sync_all()
    }

    /// Writes a record unless there is one; true when this one was the first.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn write_first(&self, name: &str, record: &impl Serialize) -> io::Result<bool> {
        match self.write(name, record) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Reads a record; `None` when there is none.
    ///
    /// # Errors
    /// When it cannot be read or is none of ours.
    pub fn read<T: DeserializeOwned>(&self, name: &str) -> io::Result<Option<T>> {
        let path = self.0.join(name);
        match fs::metadata(&path) {
            Ok(found) if found.len() > MAX_RECORD_BYTES => Err(io::Error::other("too large")),
            Ok(_) => Ok(Some(serde_json::from_slice(&fs::read(&path)?)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// True when the record is there.
    pub fn has(&self, name: &str) -> bool {
        self.0.join(name).exists()
    }
}

/// Gives a finished draft its name, which must be free. Some file systems know no hard links; there
/// a look before the rename must do.
fn place(draft: &Path, path: &Path) -> io::Result<()> {
    match fs::hard_link(draft, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        Err(_) if path.exists() => Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => fs::rename(draft, path),
        Ok(()) => Ok(()),
    }
}

/// Numbers of the jobs below `root`; none when there is no such folder yet.
///
/// # Errors
/// When the folder cannot be read.
pub fn numbers(root: &Path) -> io::Result<Vec<u64>> {
    let entries = match fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    Ok(names.filter_map(|name| name.parse().ok()).collect())
}

/// A job's status from its records.
pub fn status(
    job: &LocalJob,
    started: Option<&Started>,
    exit: Option<&LocalJobEnd>,
    state: JobState,
) -> JobStatus {
    let mut status = JobStatus::bare(job.id.clone(), state);
    status.started = started.map(|started| started.at);
    status.nodes = vec![job.host.clone()];
    if let Some(exit) = exit {
        status.exit = Some(exit.exit);
        status.derived_exit = Some(exit.exit);
        status.reason = exit.reason.clone();
        status.ended = Some(exit.at);
        status.cancelled_by = exit.cancelled_by.clone();
    }
    status
}
