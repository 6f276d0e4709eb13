//! Stories on a real PBS server with one node, told by the real binary and the example with its simulated trainer.
//!
//! They run inside `tests/pbs/cluster`, which tests/pbs/run starts; elsewhere each says that it was skipped.

#![allow(
    clippy::disallowed_methods,
    reason = "tests touch files, processes and the clock"
)]

mod endings;
mod lost_answers;
mod own_scripts;
#[path = "../beside/place.rs"]
mod place;
mod server;
