//! What was measured of a job before, and kept.

use std::fs;
use std::path::Path;

use jiff::Timestamp;

use super::cache::{self, kept_in};
use super::job::measured;
use super::options::MeasureOptions;
use crate::cli::session::Session;
use crate::core::engine::PhantomMeasurement;
use crate::core::request::{KeptMeasurement, Request};

/// A request, with what was measured of exactly its program, configuration and versions on its card. What is not known stays unknown.
pub fn measured_before(session: &Session, request: Request) -> Request {
    match kept(session, &request) {
        Some(kept) => request.measured_before(kept),
        None => request,
    }
}

fn kept(session: &Session, request: &Request) -> Option<KeptMeasurement> {
    if !kept_in(session).is_dir() {
        return None;
    }
    let job = measured(session, request, &[]).ok()?;
    let asked = MeasureOptions::default().asked(session, &job).ok()?;
    let place = cache::place(session, &asked);
    let summary = cache::kept(&place)?;
    let measurement = PhantomMeasurement {
        gpu_type: None,
        gpu_bytes: asked.phantom.card.total_bytes,
        summary,
        seconds: 0,
    };
    Some(KeptMeasurement {
        measured_on: day(&place)?,
        incident: measurement.incident(),
        gpu_bytes: measurement.gpu_bytes,
        summary: measurement.summary,
    })
}

/// The day on which a file was written.
fn day(path: &Path) -> Option<String> {
    let written = fs::metadata(path).ok()?.modified().ok()?;
    let written = Timestamp::try_from(written).ok()?;
    Some(written.strftime("%Y-%m-%d").to_string())
}
