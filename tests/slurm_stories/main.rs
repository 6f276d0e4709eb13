//! Stories on a real Slurm cluster of several nodes (tests/slurm/cluster), told by the real binary
//! and the example with its simulated trainer.
//!
//! They run when a cluster is up, or is asked for by `OOMCTL_TEST_SLURM=1` or `CI=true`: then it is
//! started, and a machine that cannot have one fails. Otherwise each says that it was skipped.
//! Most of their time is waiting, so more threads than cores are welcome: `--test-threads=8`.

#![allow(
    clippy::disallowed_methods,
    reason = "tests touch files, processes and the clock"
)]

mod arrays;
mod backend;
mod cluster;
mod crashes;
mod doctor;
mod endings;
mod foreign;
mod gpus;
mod ladder;
#[path = "../nvml/mod.rs"]
mod nvml;
mod outages;
mod pipeline;
mod place;
mod queue;
mod refusals;
mod relay;
mod rest;
mod sampler;
mod sweeps;
