//! What a submission is read with.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::launchers::Launchers;
use super::stack::Stack;
use super::walk::Submission;

/// A submission, the files that its scripts name, and what is known of launchers and stacks.
#[derive(Debug, Clone, Copy)]
pub struct SubmissionContext<'a> {
    /// How it is submitted.
    pub submission: &'a Submission,
    /// Texts by the path that scripts name them with, relative to the folder in which the job runs.
    pub files: &'a BTreeMap<String, String>,
    /// Programs that start others.
    pub launchers: &'a Launchers,
    /// Stacks that may be recognised.
    pub stacks: &'a Arc<Vec<Stack>>,
}
