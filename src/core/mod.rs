//! The room that decides.
//!
//! Rule: no files, processes, clock, environment, randomness or threads. Data in, data out; `now` is
//! an argument.

pub mod adopt;
pub mod config;
pub mod device;
pub mod diagnose;
pub mod exit;
pub mod job;
pub mod ladder;
pub mod launch;
pub mod learn;
pub mod measure;
pub mod memory;
pub mod patch;
pub mod recipe;
pub mod render;
pub mod report;
pub mod supervise;
pub mod sweep;
pub mod units;
