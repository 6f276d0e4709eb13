//! What is measured, and on which card: a command, or the program of a job, as it is or after each rung of a plan.

mod cache;
mod card;
mod fitting;
mod job;
mod options;
mod plan;

pub use fitting::{before, measurer};
pub use job::job;
pub use options::MeasureOptions;
pub use plan::plan;
