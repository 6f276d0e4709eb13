//! What a report shows, gathered from the folders of runs.

use jiff::Timestamp;

use super::{Runs, Stored};
use crate::core::report::GpuTrack;
use crate::io::sampler;
use crate::view::report::{
    Report, ReportFormat, ReportedRequest, ReportedRun, in_full, render, report,
};
use crate::view::row::RunRow;
use crate::view::{CommandFailure, print};

/// A line for each run. Those that cannot be read are left out, and named.
pub fn rows(runs: &Runs, names: &[String], now: Timestamp) -> Vec<RunRow> {
    let found = runs.overview(names, now);
    for (name, _) in &found.damaged {
        print::talk(&format!(
            "{name} cannot be read and is omitted; `oomctl status {name}` says why"
        ));
    }
    found.rows(names, now)
}

/// All that a report shows of these runs.
pub fn gathered(
    runs: &Runs,
    title: &str,
    rows: &[RunRow],
    now: Timestamp,
) -> Result<Report, CommandFailure> {
    let full = in_full(rows).into_iter();
    let stored: Vec<Stored> = full
        .map(|row| runs.open(&row.run))
        .collect::<Result<_, _>>()?;
    let readers: Vec<_> = stored.iter().map(|run| (asked(run), tracks(run))).collect();
    let told = stored.iter().zip(&readers);
    let told: Vec<ReportedRun<'_>> = told
        .map(|(run, (asked, tracks))| ReportedRun {
            history: &run.history,
            asked,
            tracks,
        })
        .collect();
    Ok(report(title, rows, &told, now))
}

/// The report of runs as Markdown.
pub fn markdown(runs: &Runs, title: &str, names: &[String]) -> Result<String, CommandFailure> {
    let now = Timestamp::now();
    let report = gathered(runs, title, &rows(runs, names, now), now)?;
    render(&report, ReportFormat::Markdown)
}

/// What a run was asked to do.
fn asked(run: &Stored) -> impl Fn() -> Option<ReportedRequest> + use<> {
    let run = run.clone();
    move || {
        let request = run.request().ok()?;
        Some(ReportedRequest {
            command: request.inputs().command.clone(),
            memory: Box::new(move |rungs| request.memory(rungs)),
        })
    }
}

/// What the samplers of an attempt saw.
fn tracks(run: &Stored) -> impl Fn(u32) -> Vec<GpuTrack> + use<> {
    let folder = run.folder.clone();
    move |attempt| sampler::tracks(&folder.attempt(attempt))
}
