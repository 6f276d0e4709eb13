//! How a sweep lies on disk: its runs, and the job arrays that their first attempts are tasks of.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::DriveError;
use super::prepare::new_token;
use crate::core::engine::SweepGroup;
use crate::io::files::{Access, check_run_name, make_private_dir, read_text, write_atomic};
use oomctl_base::job::Token;

/// The format of a sweep's record that this version writes.
const RECORD_VERSION: u32 = 1;
/// Largest record, in bytes.
const RECORD_MAX: u64 = 16 * 1024 * 1024;

/// A sweep that was submitted: `.oomctl/sweeps/<sweep>/sweep.json`. Written before anything of it is submitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepRecord {
    schema_version: u32,
    /// Its name.
    pub sweep: String,
    /// Its runs.
    pub sweep_group: SweepGroup,
    /// Its job arrays.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arrays: Vec<ArrayRecord>,
}

/// A job array of a sweep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayRecord {
    /// The name under which it can be found again.
    pub token: Token,
    /// Its runs: the first attempt of each is the task with the run's number, from 0, where there are no indices.
    pub runs: Vec<String>,
    /// The indices of the tasks, where it is an array of the user's own script: each attempt of a run keeps its index.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indices: Vec<u32>,
    /// How many tasks may run at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_once: Option<usize>,
}

impl ArrayRecord {
    /// An array of these runs of a sweep.
    ///
    /// # Errors
    /// When the system has no random bytes for its token.
    pub fn new(sweep: &str, runs: Vec<String>, at_once: Option<usize>) -> Result<Self, DriveError> {
        Ok(Self {
            token: new_token(sweep, 1)?,
            runs,
            indices: Vec::new(),
            at_once,
        })
    }

    /// The same array with the indices of its tasks.
    pub fn with_indices(self, indices: Vec<u32>) -> Self {
        Self { indices, ..self }
    }

    /// Its runs by the indices of their tasks.
    pub(super) fn tasks(&self) -> Vec<(u32, String)> {
        let index = |at: usize| match self.indices.as_slice() {
            [] => u32::try_from(at).ok(),
            given => given.get(at).copied(),
        };
        let runs = self.runs.iter().enumerate();
        runs.filter_map(|(at, run)| Some((index(at)?, run.clone())))
            .collect()
    }
}

/// Of which array attempts of a run are tasks.
pub(super) struct TaskPlace {
    pub(super) array: Token,
    pub(super) index: u32,
    /// All of them, not the first alone.
    pub(super) always: bool,
}

impl TaskPlace {
    /// The token of an attempt; `None` where that is a job of its own.
    pub(super) fn token(&self, attempt: u32) -> Option<Token> {
        let ours = self.always || attempt == 1;
        ours.then(|| self.array.at_attempt(attempt).task(self.index))
    }
}

impl SweepRecord {
    /// The record of a new sweep.
    pub fn new(sweep: &str, sweep_group: SweepGroup, arrays: Vec<ArrayRecord>) -> Self {
        Self {
            schema_version: RECORD_VERSION,
            sweep: sweep.to_owned(),
            sweep_group,
            arrays,
        }
    }

    /// The folder of the sweep `name` of a project, whether it exists or not.
    ///
    /// # Errors
    /// When `name` cannot be the name of a sweep.
    pub fn folder(project: &Path, name: &str) -> Result<PathBuf, DriveError> {
        check_run_name(name)?;
        Ok(project.join(".oomctl/sweeps").join(name))
    }

    /// Writes it down.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, project: &Path) -> Result<(), DriveError> {
        let folder = Self::folder(project, &self.sweep)?;
        make_private_dir(&folder)?;
        let path = folder.join("sweep.json");
        let text = serde_json::to_string_pretty(self).map_err(|e| unreadable(&path, &e))?;
        Ok(write_atomic(&path, text.as_bytes(), Access::Private)?)
    }

    /// The sweep of this name; `None` where there is none.
    ///
    /// # Errors
    /// When it cannot be read, or was written by a newer version.
    pub fn read(project: &Path, name: &str) -> Result<Option<Self>, DriveError> {
        let Ok(folder) = Self::folder(project, name) else {
            return Ok(None);
        };
        let path = folder.join("sweep.json");
        if !path.is_file() {
            return Ok(None);
        }
        let text = read_text(&path, RECORD_MAX)?;
        let record: Self = serde_json::from_str(&text).map_err(|e| unreadable(&path, &e))?;
        if record.schema_version > RECORD_VERSION {
            return Err(DriveError::unreadable(path, "written by a newer oomctl"));
        }
        Ok(Some(record))
    }
}

fn unreadable(path: &Path, error: &serde_json::Error) -> DriveError {
    DriveError::unreadable(path.to_owned(), error)
}

/// An array of a sweep that is in the hands of this process.
pub(super) struct Array {
    pub(super) sweep: String,
    /// Where its script is, and a link for each task.
    pub(super) folder: PathBuf,
    pub(super) token: Token,
    /// The runs by the indices of their tasks.
    pub(super) tasks: Vec<(u32, String)>,
    pub(super) at_once: Option<usize>,
}
