//! Sweeps: reading one, and its cells as runs.

mod adopted;
pub mod array;
pub mod cells;
pub mod choice;
mod plain;
pub mod sweep_source;

use crate::cli::runs::{ended, sweeps};
use crate::cli::watch::once;
use crate::cli::watch::pipeline::Pipeline;
use crate::core::exit::Exit;
use crate::drive::{DriveEnd, Supervisor, Until};
use crate::view::{CommandFailure, print};
pub use adopted::take_array;
use cells::SweepPlan;

/// Makes the runs, submits what can be submitted now, and goes or stays. `tell` prints what has become of them.
pub fn go(
    plan: SweepPlan,
    pipeline: &Pipeline<'_>,
    stays: bool,
    tell: &dyn Fn(&Supervisor, Exit) -> Result<(), CommandFailure>,
) -> Result<Exit, CommandFailure> {
    let (mut supervisor, record) = plan.create(pipeline.runs)?;
    let end = match stays {
        true => pipeline.attend(&mut supervisor, Until::Finished)?,
        false => once::submitted(&mut supervisor, pipeline)?,
    };
    tell(&supervisor, ended::exit_code(&supervisor, end))?;
    if !stays && !matches!(end, DriveEnd::Detached { .. }) {
        print::talk(&sweeps::next_step(&supervisor, &record));
    }
    ended::code(&supervisor, end)
}
