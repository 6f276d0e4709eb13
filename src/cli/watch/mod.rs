//! Staying with runs: what is shown meanwhile, what a pipeline is left, and what ends it.

pub mod interrupt;
pub mod once;
pub mod pipeline;
pub mod showing;
