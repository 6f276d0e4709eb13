//! Files of a run that changed after it was submitted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A file that is not what it was when its run was submitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedFile {
    /// Its path, as the script names it.
    pub path: String,
    /// Does the attempt run a copy of the text of then? Else it runs the file as it is now.
    pub copied: bool,
}

impl std::fmt::Display for ChangedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = match self.copied {
            true => "This attempt runs a copy from then",
            false => "This attempt runs it as it is now, so its training may be another one",
        };
        write!(
            f,
            "{} changed since the run was submitted. {what}",
            self.path
        )
    }
}
