//! What earlier runs of a project teach: which configurations fitted, which did not, and what follows for
//! others.
//!
//! The only reasoning is monotone: a job that is no larger in anything than one that fitted, fits; one
//! that is no smaller in anything than one that failed, fails. Two jobs that differ in anything else say
//! nothing about each other.

mod entry;
mod job;
mod memory;
mod nodes;
mod site;
#[cfg(test)]
mod tests;

pub use entry::{AttemptEnd, ENTRY_VERSION, LearnedEntry, LearnedRung, Moved};
pub use job::JobFeatures;
pub use memory::{Elsewhere, LearnedEntries};
pub use nodes::{BadNode, NodeEnd, NodeEntry, NodesExcluded, bad_nodes};
