//! What every part of oomctl names: a scheduler's job, bytes and durations.

pub mod job;
pub mod units;
