//! `plan --measure`: the job as it is and after each rung, on phantom GPUs, until it fits.

use super::fitting::{measurement, until_it_fits};
use super::job::job_of;
use crate::cli::args::Configuration;
use crate::cli::launch::launching::signals;
use crate::cli::session::Session;
use crate::core::exit::Exit;
use crate::view::CommandFailure;
use crate::view::measured_plan_view::MeasuredPlanView;

/// Measures the attempts of a job, or of the project's where there are no words, until one fits.
pub fn plan(
    session: &Session,
    flags: &Configuration,
    words: &[String],
) -> Result<Exit, CommandFailure> {
    let (request, set) = job_of(session, flags, words)?;
    let ears = signals()?;
    let (_, view) = until_it_fits(&request, |rungs, attempt| {
        let rungs = [&set, rungs].concat();
        measurement(session, &request, &rungs, &ears, None, Some(attempt))
    })?;
    session.show(&view, MeasuredPlanView::text)?;
    Ok(match (ears.ending(), view.fits()) {
        (Some(signal), _) => Exit::Signal(signal),
        (None, Some(true)) => Exit::Success,
        (None, Some(false)) => Exit::StillOutOfMemory,
        (None, None) => Exit::Failed,
    })
}
