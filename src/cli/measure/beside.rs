//! What the memory model says of a job that is measured.

use super::closed_form::{said, with_rungs};
use super::job::{JobMeasure, request_of_command};
use super::options::MeasureOptions;
use crate::cli::args::Configuration;
use crate::cli::session::Session;
use crate::core::config::from_flags;
use crate::core::request::Request;
use crate::io::phantom::PhantomRun;
use crate::view::CommandFailure;
use crate::view::estimate_view::EstimateView;
use oomctl_memory::{Estimate, GPU_MEMORY};

/// The estimate of the same job on the same card.
///
/// # Errors
/// There is none; the sentence says why, and which values are missing.
pub fn closed_form(
    session: &Session,
    flags: &Configuration,
    (job, asked, options): (&JobMeasure, &PhantomRun, &MeasureOptions),
) -> Result<(EstimateView, Estimate), String> {
    let estimate = || {
        let request = match &job.request {
            Some((request, rungs)) => with_rungs(request, rungs.clone()),
            None => request_of_command(session, flags, asked)?,
        };
        let gpus = request.resources(&[])?.gpus;
        if job.request.is_some() && options.moves_ranks(gpus) {
            let what = format!(
                "it reads the job's {gpus} GPUs; --gpus and --world are of the phantom alone"
            );
            return Err(CommandFailure::configuration(what));
        }
        said(session, &on_card(&request, asked.phantom.card.total_bytes)?)
    };
    estimate().map_err(|why: CommandFailure| why.sentence())
}

/// The same on a card of this size, where the preset says what a GPU has.
fn on_card(request: &Request, total_bytes: u64) -> Result<Request, CommandFailure> {
    if request.preset().knob(GPU_MEMORY).is_none() {
        return Ok(request.clone());
    }
    let size = format!("{GPU_MEMORY}={}MiB", total_bytes >> 20);
    let layer = from_flags(request.preset(), &[size], &[])?;
    Ok(with_rungs(request, [layer]))
}
