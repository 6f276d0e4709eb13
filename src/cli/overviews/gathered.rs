//! What a report shows, gathered from the folders of runs.

use jiff::Timestamp;

use crate::cli::logs::unwatched;
use crate::cli::runs::present::ask_host_use;
use crate::cli::runs::{Runs, Stored};
use crate::core::report::GpuTrack;
use crate::drive::attempt_logs;
use crate::io::files::read_end;
use crate::io::sampler;
use crate::view::report::{
    Report, ReportFormat, ReportedRequest, ReportedRun, in_full, render, report,
};
use crate::view::row::RunRow;
use crate::view::settings_view::SettingsView;
use crate::view::{CommandFailure, print};
use oomctl_diagnose::sanitize;

/// How much of a log a report shows.
const TAIL_LINES: usize = 20;
const TAIL_BYTES: u64 = 8 << 10;

/// A line for each run, and in full those that are not over. Those that cannot be read are left out, and named.
pub fn rows(
    runs: &Runs,
    names: &[String],
    now: Timestamp,
) -> Result<(Vec<RunRow>, Vec<Stored>), CommandFailure> {
    let mut found = runs.overview(names, now);
    unwatched::read(runs, &mut found.open, now)?;
    for (name, _) in &found.damaged {
        print::talk(&format!(
            "{name} cannot be read and is omitted; `oomctl status {name}` says why"
        ));
    }
    Ok((found.rows(names, now), found.open))
}

/// All that a report shows of these runs.
pub fn gathered(
    runs: &Runs,
    title: &str,
    (rows, mut open): (&[RunRow], Vec<Stored>),
    now: Timestamp,
) -> Result<Report, CommandFailure> {
    let full = in_full(rows).into_iter().map(|row| {
        let read = open.iter().position(|run| run.history.run == row.run);
        read.map_or_else(|| runs.open(&row.run), |at| Ok(open.swap_remove(at)))
    });
    let mut stored: Vec<Stored> = full.collect::<Result<_, _>>()?;
    ask_host_use(runs, &mut stored);
    let readers = stored
        .iter()
        .map(|run| (asked(run), tracks(run), tail(run)));
    let readers: Vec<_> = readers.collect();
    let told = stored.iter().zip(&readers);
    let told: Vec<ReportedRun<'_>> = told
        .map(|(run, (asked, tracks, tail))| ReportedRun {
            history: &run.history,
            asked,
            tracks,
            tail,
        })
        .collect();
    Ok(report(title, rows, &told, now))
}

/// The report of runs as Markdown.
pub fn markdown(runs: &Runs, title: &str, names: &[String]) -> Result<String, CommandFailure> {
    let now = Timestamp::now();
    let (rows, open) = rows(runs, names, now)?;
    let report = gathered(runs, title, (&rows, open), now)?;
    render(&report, ReportFormat::Markdown)
}

/// What a run was asked to do.
fn asked(run: &Stored) -> impl Fn() -> Option<ReportedRequest> + use<> {
    let run = run.clone();
    move || {
        let request = run.request().ok()?;
        let other = request.clone();
        Some(ReportedRequest {
            command: request.inputs().command.clone(),
            scripts: request
                .inputs()
                .scripts
                .as_ref()
                .map(|_| run.folder.dir().to_path_buf()),
            memory: Box::new(move |rungs| request.memory(rungs)),
            settings: Box::new(move |rungs| {
                let recipe = other.recipe(rungs);
                recipe.map_or_else(|_| Vec::new(), |recipe| SettingsView::of(&recipe).won())
            }),
        })
    }
}

/// The last lines of an attempt's log: of standard error, or of what else has text.
fn tail(run: &Stored) -> impl Fn(u32) -> Vec<String> + use<> {
    let run = run.clone();
    move |attempt| {
        let attempt = run.history.attempts.iter().find(|a| a.number == attempt);
        let files = attempt.map(|attempt| attempt_logs(&run.folder, attempt));
        let mut ends = files.into_iter().flatten().filter_map(|file| {
            let (_, end) = read_end(&file, TAIL_BYTES).ok()?;
            let lines: Vec<String> = end
                .split(|b| matches!(b, b'\n' | b'\r'))
                .map(|line| sanitize(line).trim_end().to_owned())
                .filter(|line| !line.is_empty())
                .collect();
            (!lines.is_empty()).then(|| lines[lines.len().saturating_sub(TAIL_LINES)..].to_vec())
        });
        ends.next().unwrap_or_default()
    }
}

/// What the samplers of an attempt saw.
fn tracks(run: &Stored) -> impl Fn(u32) -> Vec<GpuTrack> + use<> {
    let folder = run.folder.clone();
    move |attempt| sampler::tracks(&folder.attempt(attempt))
}
