//! What is measured, and on which card: a command, or the program of a job.

mod card;
mod job;

pub use card::card;
pub use job::{JobMeasure, job};
