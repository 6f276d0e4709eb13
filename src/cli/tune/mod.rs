//! Where tuning starts, its short jobs, and what is written in the end.

pub mod command;
pub mod from;
pub mod probes;
pub mod write;
