//! Scripts that people already have: what they start, with which values, and how another value is put in.
//!
//! Rule: a value is changed where its bytes stand and nowhere else; what is computed is said to be, and never
//! guessed.

pub mod shell;
mod traced;

pub use traced::{From, Part, Quote, Span, Traced, Use, Why};
