//! Programs that `oomctl run` starts here: from its options to a program, and many of them one after the other.

pub mod begin;
pub mod launching;
pub mod run_queue;
