//! A program on this machine: its command with the values of knobs, and what follows when it dies of memory.
//!
//! Rule: the words of the command are a layer like any other, a rung changes values, and only `words` knows
//! how a value stands in a command.

mod copied;
mod given;
mod lines;
mod outcome;
mod program;
mod spelled;
#[cfg(test)]
mod tests;
mod words;

pub use copied::{Copied, Copy};
pub use given::{Composed, RunArguments};
pub use lines::commands;
pub use outcome::{Ended, NextLaunch, only_moves_away};
pub use program::{Launch, ProgramAttempt};
