//! Where tuning starts, its short jobs, and what is written in the end.

pub mod from;
pub mod probes;
pub mod write;
