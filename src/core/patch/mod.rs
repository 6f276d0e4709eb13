//! A user's own script: what it says of GPUs, and what could be changed in it.
//!
//! Rule: only what stands there literally is known. A change is a proposal, a unified diff for the user; nothing here
//! or elsewhere writes to the script.

mod devices;
mod proposal;
mod python;

pub use devices::{DataParallel, Literal, Script};
pub use proposal::{Proposal, propose};
