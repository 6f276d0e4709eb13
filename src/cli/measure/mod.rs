//! What is measured, and on which card: a command, or the program of a job, as it is or after each rung of a plan.

mod beside;
mod cache;
mod card;
mod closed_form;
mod fitting;
mod job;
mod options;
mod plan;

pub use beside::closed_form;
pub use fitting::{before, measurer};
pub use job::job;
pub use options::MeasureOptions;
pub use plan::plan;
