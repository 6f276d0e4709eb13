//! A program that `oomctl run` starts: its command with the values of knobs, and what it asks of the GPUs here.
//!
//! Rule: the words of the command are a layer like any other, and only `words` knows how a value stands in a command.

mod copied;
mod gpu;
mod program;
mod spelled;
mod stored;
mod words;

pub use copied::Copied;
pub use gpu::{GpuWish, chosen, hang_grace_s, needed, only_moves_away};
pub use program::{Command, SET, unknown_batch, uses_set};
pub use stored::{Composed, RunProgram};
