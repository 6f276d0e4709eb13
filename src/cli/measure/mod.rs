//! What is measured, and on which card: a command, or the program of a job, as it is or after each rung of a plan.

mod before;
mod beside;
mod cache;
mod card;
mod closed_form;
mod fitting;
mod job;
mod options;
mod plan;
mod progress;
mod tuned;

pub use before::measured_before;
pub use beside::closed_form;
pub use cache::keep_of_job;
pub use fitting::{before, measurer, summary_of};
pub use job::job;
pub use options::MeasureOptions;
pub use plan::plan;
pub use progress::progress;
pub use tuned::tuned;
