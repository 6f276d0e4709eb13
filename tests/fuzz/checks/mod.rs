//! What must hold for any input, one file a target: bytes in, a panic where a promise is broken.
//!
//! Rule: a check knows nothing of where its input comes from, so that the time-boxed campaign of the
//! test suite and the wrappers for libFuzzer in `fuzz/` run the same code.

pub mod allocations;
pub mod kernel_log;
pub mod ledger;
pub mod log;
pub mod message;
pub mod project;
pub mod python;
pub mod random;
pub mod script;
pub mod slurm;
pub mod snapshot;
pub mod template;
