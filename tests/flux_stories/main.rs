//! Stories on a real Flux instance of two brokers, told by the real binary and the example with its simulated trainer.
//!
//! They run where `flux` is on PATH; `OOMCTL_TEST_FLUX=1` (tests/flux/run) makes a missing one a failure. Otherwise each says
//! that it was skipped.

#![allow(
    clippy::disallowed_methods,
    reason = "tests touch files, processes and the clock"
)]

mod endings;
mod instance;
mod lost_answers;
mod own_scripts;
#[path = "../beside/place.rs"]
mod place;
