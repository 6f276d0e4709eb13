//! Which Flux instance a job was submitted to.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use oomctl_base::job::{JobRef, Token};

use crate::io::files::{Access, FileError, make_private_dir, read_text, write_atomic};

/// The variable that says which instance Flux's commands talk to.
pub(super) const URI: &str = "FLUX_URI";
/// Longest address, in bytes; that of a socket has at most 108 (unix(7)).
const URI_MAX: u64 = 4096;

/// A Flux instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FluxInstance {
    /// Its address; `None` for the one of the system.
    pub uri: Option<String>,
}

impl FluxInstance {
    /// The one at an address.
    pub fn at(uri: Option<String>) -> Self {
        Self {
            uri: uri.filter(|uri| !uri.is_empty()),
        }
    }

    /// The one that a job was submitted to.
    pub fn of_job(job: &JobRef) -> Self {
        Self::at(job.cluster.clone())
    }

    /// What makes Flux's commands talk to it.
    pub fn variable(&self) -> Option<(OsString, OsString)> {
        let uri = self.uri.as_ref()?;
        Some((URI.into(), uri.into()))
    }
}

/// The instances of the submissions of a project, written down before each is made: when its answer is lost, the job is
/// looked for there and not in the instance that surrounds whoever looks.
#[derive(Debug, Clone)]
pub(super) struct FluxInstances {
    folder: PathBuf,
}

impl FluxInstances {
    pub fn of(project: &Path) -> Self {
        Self {
            folder: project.join(".oomctl/flux"),
        }
    }

    /// Writes down where a token is submitted.
    pub fn note(&self, token: &Token, instance: &FluxInstance) -> Result<(), FileError> {
        make_private_dir(&self.folder)?;
        let uri = instance.uri.as_deref().unwrap_or_default();
        let path = self.folder.join(&token.0);
        write_atomic(&path, uri.as_bytes(), Access::Private)
    }

    /// Where a token was submitted; `None` where no submission of it began here.
    pub fn noted(&self, token: &Token) -> Result<Option<FluxInstance>, FileError> {
        let path = self.folder.join(&token.0);
        if !path.exists() {
            return Ok(None);
        }
        Ok(Some(FluxInstance::at(Some(read_text(&path, URI_MAX)?))))
    }
}
