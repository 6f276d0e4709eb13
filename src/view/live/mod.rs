//! The live view of `watch`: runs, attempts, memory and logs on one screen, and keys that steer.
//!
//! `Board` is what is known, a fold over the notices of the drive. `ScreenState` is what a person chose, changed by keys alone.
//! `draw` makes a screen of both and touches nothing. `shell` is the rest: a thread that owns the terminal, one that reads
//! files, and the observer that hands on what the drive tells.
//!
//! Rule: the drive never waits for the screen. It changes the board and goes on; the screen looks at the board when
//! there is time to draw.

mod attempts;
mod help;
mod keys;
mod log;
mod memory;
mod model;
mod painter;
mod reader;
mod runs;
mod scene;
mod screen;
mod shell;
mod state;
mod steer;
mod terminal;
#[cfg(test)]
mod tests;
mod text;

pub use shell::{Live, is_possible};
