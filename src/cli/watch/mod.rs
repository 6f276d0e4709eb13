//! Staying with runs: what is shown meanwhile, what a pipeline is left, and what ends it.

pub mod once;
pub mod pipeline;
pub mod showing;

use super::runs::ended;
use crate::core::exit::Exit;
use crate::drive::{Supervisor, Until};
use crate::view::{CommandFailure, print};
use pipeline::Pipeline;

/// Drives all runs, telling the story as it goes, and what has become of them.
pub fn follow(
    mut supervisor: Supervisor,
    until: Until,
    json: bool,
    pipeline: &Pipeline<'_>,
) -> Result<Exit, CommandFailure> {
    let end = pipeline.attend(&mut supervisor, until)?;
    let is_sweep = supervisor.is_sweep();
    let code = ended::result(&supervisor, end, json, &|view| match is_sweep {
        true => Ok(()),
        false => print::prose(&view.text()),
    });
    if is_sweep && !json {
        print::data(&ended::run_list(&supervisor))?;
    }
    code
}
