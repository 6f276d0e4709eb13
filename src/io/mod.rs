//! The room that touches: files, Slurm's commands, local processes, logs, the ledger, NVML.
//!
//! Rule: it decides nothing; it hands what it saw to `core` and does what it is told.

#![allow(
    clippy::disallowed_methods,
    reason = "this is the room that touches files, processes, clock and environment"
)]

pub mod checked_lines;
pub mod checkpoints;
pub mod checkup;
pub mod claims;
pub mod disk;
pub mod environment;
pub mod files;
pub mod finding;
pub mod fits;
pub mod gpu_pool;
pub mod hf_cache;
pub mod hook;
pub mod index;
pub mod installed;
pub mod job_scripts;
pub mod kernel_log;
pub mod ledger;
pub mod library;
pub mod node_log;
pub mod owners;
pub mod phantom;
pub mod program;
pub mod program_logs;
pub mod sampler;
mod sandbox;
pub mod scheduler;
pub mod scratch;
pub mod site;
pub mod snapshots;
pub mod uptime;
pub mod window;
pub mod words;

#[cfg(test)]
#[path = "tests/trial.rs"]
pub(crate) mod trial;
