//! Scripts that people already have: what they start, with which values, and how another value is put in.
//!
//! Rule: a value is changed where its bytes stand and nowhere else; what is computed is said to be, and never
//! guessed.

pub mod hydra;
mod launchers;
mod sbatch;
pub mod settings;
pub mod shell;
mod traced;
mod walk;

pub use launchers::{Launcher, Launchers, Starts};
pub use sbatch::{Directive, directives, wins};
pub use traced::{From, Part, Quote, Span, Traced, Use, Why};
pub use walk::{
    Arg, COMMAND_LINE, Call, ENVIRONMENT, End, Reading, SCRIPT, Source, Submission, Target, follow,
};
