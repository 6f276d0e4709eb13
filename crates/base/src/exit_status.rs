//! How a process ended.

use std::os::unix::process::ExitStatusExt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a process ended: exit code and signal, as Slurm's `code:signal`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ExitStatus {
    /// Exit code, 0 to 255. sacct up to 25.05 subtracts 128 from codes of 128 and more, so 9 can
    /// mean 137.
    pub code: i32,
    /// Signal number, 0 for none. Slurm writes 125 for a host OOM and 53 for a missing log folder.
    pub signal: i32,
}

impl ExitStatus {
    /// An exit code and a signal; 0 stands for neither.
    pub fn of(code: i32, signal: i32) -> Self {
        Self { code, signal }
    }

    /// Whether it is anything but `0:0`.
    pub fn failed(self) -> bool {
        self.code != 0 || self.signal != 0
    }
}

impl From<std::process::ExitStatus> for ExitStatus {
    fn from(status: std::process::ExitStatus) -> Self {
        Self::of(status.code().unwrap_or(0), status.signal().unwrap_or(0))
    }
}

impl std::fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.code, self.signal)
    }
}
