//! What `tests/fuzz` promises, for libFuzzer.

#![allow(
    clippy::disallowed_methods,
    reason = "the seeds are files of the project"
)]

#[path = "../../tests/fuzz/checks/mod.rs"]
pub mod checks;
#[path = "../../tests/fuzz/seeds.rs"]
pub mod seeds;
