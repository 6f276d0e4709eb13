//! What a report shows, gathered from the folders of runs.

use std::path::Path;

use jiff::Timestamp;

use super::super::print::Failure;
use super::super::print::report::{Format, Report, Told, render, report};
use super::super::runs::{self, Stored};
use crate::core::report::{Track, Tracks};
use crate::core::supervise::Request;
use crate::io::sampler::samples;

/// All that a report shows.
pub fn gathered(title: &str, stored: &[Stored]) -> Report {
    let readers: Vec<_> = stored
        .iter()
        .map(|run| (request(run), tracks(run)))
        .collect();
    let told = stored.iter().zip(&readers);
    let told: Vec<Told<'_>> = told
        .map(|(run, (request, tracks))| Told {
            history: &run.history,
            request,
            tracks,
        })
        .collect();
    report(title, &told, Timestamp::now())
}

/// The report of runs as Markdown.
pub fn markdown(project: &Path, title: &str, names: &[&str]) -> Result<String, Failure> {
    let stored: Result<Vec<Stored>, Failure> =
        names.iter().map(|name| runs::open(project, name)).collect();
    render(&gathered(title, &stored?), Format::Markdown)
}

/// What a run was asked to do.
fn request(run: &Stored) -> impl Fn() -> Option<Request> + use<> {
    let folder = run.folder.clone();
    move || runs::request(&folder).ok()
}

/// What the samplers of an attempt saw.
fn tracks(run: &Stored) -> impl Fn(u32) -> Vec<Track> + use<> {
    let folder = run.folder.clone();
    move |attempt| {
        let mut tracks = Tracks::default();
        samples(&folder.attempt(attempt), |node, sample| {
            tracks.take(node, sample)
        });
        tracks.sorted()
    }
}
