//! GPUs of a job, of this machine beside a project, and one that is free.

pub mod free;
pub mod here;
pub mod job;
