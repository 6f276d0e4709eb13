//! Where each submission of a project went, for schedulers of which there is more than one within reach.

use std::path::{Path, PathBuf};

use oomctl_base::job::Token;

use crate::io::files::{Access, FileError, make_private_dir, read_text, write_atomic};

/// Longest address, in bytes; that of a socket has at most 108 (unix(7)), a host's name 255.
const ADDRESS_MAX: u64 = 4096;

/// The addresses of the submissions of a project, written down before each is made: when its answer is lost, the job is
/// looked for there and not where whoever looks would submit.
#[derive(Debug, Clone)]
pub(super) struct NotedAddresses {
    folder: PathBuf,
}

impl NotedAddresses {
    /// Those of one backend.
    pub fn of(project: &Path, backend: &str) -> Self {
        Self {
            folder: project.join(".oomctl").join(backend),
        }
    }

    /// Writes down where a token is submitted.
    pub fn note(&self, token: &Token, address: &str) -> Result<(), FileError> {
        make_private_dir(&self.folder)?;
        let path = self.folder.join(&token.0);
        write_atomic(&path, address.as_bytes(), Access::Private)
    }

    /// Where a token was submitted; `None` where no submission of it began here.
    pub fn noted(&self, token: &Token) -> Result<Option<String>, FileError> {
        let path = self.folder.join(&token.0);
        match path.exists() {
            true => read_text(&path, ADDRESS_MAX).map(Some),
            false => Ok(None),
        }
    }
}
