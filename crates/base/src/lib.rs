//! What every part of oomctl names: a scheduler's job, bytes and durations, the value of a setting with where it was
//! given, and what is wrong with one.

mod exit_status;
pub mod job;
mod only;
mod origin;
mod problem;
mod role;
pub mod units;
mod value;
mod words;

pub use only::only;
pub use origin::{Origin, line_and_column};
pub use problem::{Problem, ProblemPlace, Refusal, meant, nearest};
pub use role::{Effect, Role};
pub use value::{Value, ValueKey, ValueKind, key};
pub use words::{has_word, table, word_list};
