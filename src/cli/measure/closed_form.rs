//! What the memory model says of a job.

use crate::cli::script::{estimate_of, left_open};
use crate::cli::session::Session;
use crate::core::recipe::Layer;
use crate::core::request::Request;
use crate::view::CommandFailure;
use crate::view::estimate_view::EstimateView;
use oomctl_memory::Estimate;

/// What it says of a request.
///
/// # Errors
/// Nothing, and which values it lacks.
pub fn said(
    session: &Session,
    request: &Request,
) -> Result<(EstimateView, Estimate), CommandFailure> {
    match left_open(session, request) {
        Some(open) => Err(CommandFailure::configuration(open)),
        None => estimate_of(session, request),
    }
}

/// The same as a sentence, of a job that cannot be measured at all.
pub fn in_a_sentence(session: &Session, request: &Request, rungs: &[Layer]) -> String {
    match said(session, &with_rungs(request, rungs.to_vec())) {
        Ok((view, _)) => format!("closed form: {}", view.expected()),
        Err(why) => format!("The closed form says nothing: {}", why.sentence()),
    }
}

/// A request whose values are those that the rungs give it.
pub fn with_rungs(request: &Request, rungs: impl IntoIterator<Item = Layer>) -> Request {
    let run = request.run().to_owned();
    let layers = rungs.into_iter();
    layers.fold(request.clone(), |request, layer| request.cell(&run, layer))
}
