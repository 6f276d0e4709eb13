//! What a project knows of the failures of its own program.

use super::bugs::Bugs;
use super::signatures::UserSignature;

/// A project's own signatures and tables of bugs.
#[derive(Debug, Clone, Default)]
pub struct ProjectFailures {
    /// Messages that only its program prints.
    pub signatures: Vec<UserSignature>,
    /// Bugs of the versions that it runs with.
    pub bugs: Bugs,
}
