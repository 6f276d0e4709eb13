//! `tune --measure`: the proposal on phantom GPUs, until one fits there.

use super::fitting::{LONGEST, measurement};
use crate::cli::launch::launching::signals;
use crate::cli::session::Session;
use crate::core::engine::PhantomMeasurement;
use crate::core::exit::Exit;
use crate::core::ladder::Tuned;
use crate::core::recipe::Layer;
use crate::core::request::Request;
use crate::view::CommandFailure;
use crate::view::measured_plan_view::{MeasuredAttempt, summary_line};

/// Proposals that are measured at most.
const PROPOSALS_MAX: usize = 8;

/// The proposal whose last steps are taken back while a phantom GPU is too small for it, and what was measured. What cannot be measured is
/// proposed as it is.
///
/// # Errors
/// A signal came.
pub fn tuned(
    session: &Session,
    request: &Request,
    rungs: &[Layer],
    mut tuned: Tuned,
) -> Result<(Tuned, Vec<MeasuredAttempt>), CommandFailure> {
    let ears = signals()?;
    let mut attempts: Vec<MeasuredAttempt> = Vec::new();
    while !tuned.steps.is_empty() {
        let number = attempts.len() + 1;
        if number > PROPOSALS_MAX {
            let why = format!("{PROPOSALS_MAX} proposals were too large for a phantom GPU");
            tuned.step_back(&why);
            continue;
        }
        let steps: Vec<_> = tuned.steps.iter().map(|s| s.step.clone()).collect();
        let with = rungs.iter().cloned();
        let with: Vec<Layer> = with.chain(steps.iter().map(|s| s.layer.clone())).collect();
        let measured = measurement(session, request, &with, &ears, Some(LONGEST), Some(number));
        let (measured, before) =
            measured.unwrap_or_else(|why| (PhantomMeasurement::impossible(&why.sentence()), false));
        if let Some(signal) = ears.ending() {
            return Err(CommandFailure::quiet(Exit::Signal(signal)));
        }
        let fits = measured.summary.fits;
        attempts.push(MeasuredAttempt::new(number, steps, &measured, before));
        if fits != Some(false) {
            break;
        }
        let said = summary_line(&measured.summary, measured.gpu_bytes);
        tuned.step_back(&format!("phantom: {said}"));
    }
    Ok((tuned, attempts))
}
