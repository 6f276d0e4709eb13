//! Which Flux instance a job was submitted to.

use std::ffi::OsString;

use oomctl_base::job::JobRef;

/// The variable that says which instance Flux's commands talk to.
pub(super) const URI: &str = "FLUX_URI";

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
