//! The room that decides.
//!
//! Rule: no files, processes, clock, environment, randomness or threads. Data in, data out; `now` is
//! an argument.

pub mod adopt;
pub mod config;
pub mod engine;
pub mod exit;
pub mod ladder;
pub mod launch;
pub mod learn;
pub mod measure;
pub mod memory;
pub mod recipe;
pub mod render;
pub mod report;
pub mod request;
pub mod sweep;
