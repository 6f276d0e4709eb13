//! The report of runs: a page, Markdown or plain text, from one view.

mod page;
mod sentences;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

pub use page::{ReportFormat, render, summary_page};

use super::estimate_view::phase_name;
use super::row::{RunRow, summary};
use super::run_view::{RunView, run_view};
use super::{measured, snapshot_view};
use crate::core::engine::{Attempt, History, Verdict};
use crate::core::exit::Exit;
use crate::core::ladder::{Change, Expectation};
use crate::core::measure::GpuPeak;
use crate::core::recipe::Layer;
use crate::core::report::{Cost, GpuTrack, Plot, Timeline, cost, course, phantom_plot, plot};
use crate::view::figures::{gpu_hours as hours, in_gib};
use oomctl_base::units::{Bytes, GIB, chance};
use oomctl_diagnose::{Evidence, Incident, sanitize};
use oomctl_memory::Estimate;

/// Runs that are told in full beside an overview of all: those of which there is something to tell.
const RUNS_MAX: usize = 24;
/// GPUs that are drawn for an attempt of a run that is told alone.
const CURVES_ALONE: usize = 16;
/// And for one of several.
const CURVES_AMONG: usize = 4;
/// GPUs of an attempt that are listed.
const GPUS_LISTED: usize = 64;
/// Lines of evidence that are shown of an attempt.
const EVIDENCE_MAX: usize = 8;

/// What the memory model expects of a run with some rungs, where it can be asked.
type MemoryModel = dyn Fn(&[Layer]) -> Option<Estimate>;

/// The values of a run with some rungs, where they can be resolved.
type WonValues = dyn Fn(&[Layer]) -> Vec<WonValue>;

/// What a run was asked to do.
pub struct ReportedRequest {
    /// The words that it was submitted with.
    pub command: Vec<String>,
    /// The folder of the run, where it is one of scripts: the command takes no values for those.
    pub scripts: Option<PathBuf>,
    /// What the memory model expects of it.
    pub memory: Box<MemoryModel>,
    /// The values that won with some rungs, with their origins; empty where they cannot be resolved.
    pub settings: Box<WonValues>,
}

/// A value that is not the preset's default.
#[derive(Serialize, JsonSchema)]
pub struct WonValue {
    pub knob: String,
    pub value: String,
    pub origin: String,
}

/// A run as it is read back: what happened, what was asked for, and what the samplers of an attempt saw.
pub struct ReportedRun<'a> {
    /// What happened.
    pub history: &'a History,
    /// What was asked for; `None` where it cannot be read any more. Asked of runs that are told in full only.
    pub asked: &'a dyn Fn() -> Option<ReportedRequest>,
    /// The samples of an attempt, by its number; as what was asked for.
    pub tracks: &'a dyn Fn(u32) -> Vec<GpuTrack>,
    /// The last lines of an attempt's log; as what was asked for.
    pub tail: &'a dyn Fn(u32) -> Vec<String>,
}

/// All that a report shows.
#[derive(Serialize, JsonSchema)]
pub struct Report {
    schema_version: u32,
    title: String,
    oomctl: &'static str,
    made: String,
    /// One line a run, where there are several.
    overview: Vec<ReportLine>,
    /// How many runs stand how, where there are several.
    counts: String,
    /// GPU-seconds of all runs.
    gpu_seconds: f64,
    runs: Vec<RunSection>,
    /// Runs that stand in the overview alone.
    left_out: usize,
}

#[derive(Serialize, JsonSchema)]
struct ReportLine {
    run: String,
    state: String,
    good: Option<bool>,
    attempts: usize,
    elapsed_s: i64,
    gpu_hours: f64,
    why: String,
    in_full: bool,
}

#[derive(Serialize, JsonSchema)]
struct RunSection {
    #[serde(flatten)]
    view: RunView,
    good: Option<bool>,
    story: Vec<String>,
    course: Option<Timeline>,
    details: Vec<AttemptDetail>,
    cost: Cost,
    /// The values of the last attempt that are not the preset's defaults.
    settings: Vec<WonValue>,
    /// The last lines of its log.
    tail: Vec<String>,
    asked: String,
    reproduce: Option<String>,
    /// The last changes of the user's scripts, as a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<String>,
}

/// What a report shows of an attempt beside its view.
#[derive(Serialize, JsonSchema)]
struct AttemptDetail {
    /// Which one.
    attempt: u32,
    good: Option<bool>,
    waited_s: Option<i64>,
    ran_s: Option<i64>,
    /// What was expected of it before it ran.
    expected: Option<String>,
    peak: Option<String>,
    /// How much it used of what it held.
    used: Option<String>,
    plot: Option<Plot>,
    /// What the program reserved and allocated on a phantom GPU before the attempt.
    phantom: Option<Plot>,
    gpus: Vec<GpuPeakRow>,
    more_gpus: usize,
    evidence: Vec<EvidenceQuote>,
    changes: Vec<Changed>,
}

#[derive(Serialize, JsonSchema)]
struct GpuPeakRow {
    node: String,
    gpu: u32,
    peak_gib: f64,
    total_gib: f64,
    percent: f64,
}

#[derive(Serialize, JsonSchema)]
struct EvidenceQuote {
    place: String,
    text: String,
}

#[derive(Serialize, JsonSchema)]
struct Changed {
    knob: String,
    from: String,
    to: String,
    effect: &'static str,
}

/// Gathers what a report shows: of several runs a line each, and of these in full what there is to tell.
pub fn report(title: &str, rows: &[RunRow], told: &[ReportedRun<'_>], now: Timestamp) -> Report {
    let several = rows.len() > 1;
    let in_full = |row: &RunRow| told.iter().any(|t| t.history.run == row.run);
    let overview = rows.iter().filter(|_| several);
    let overview = overview.map(|row| line(row, in_full(row))).collect();
    let counts = match several {
        true => summary(rows.iter().map(|row| row.state.as_str())),
        false => String::new(),
    };
    let curves = if several { CURVES_AMONG } else { CURVES_ALONE };
    let gpu_seconds = 0.0 + rows.iter().map(|row| row.gpu_seconds).sum::<f64>();
    let runs: Vec<RunSection> = told
        .iter()
        .map(|told| run(told, run_view(told.history, now), curves, now))
        .collect();
    Report {
        schema_version: 1,
        title: title.to_owned(),
        oomctl: env!("CARGO_PKG_VERSION"),
        made: now.strftime("%Y-%m-%d %H:%M UTC").to_string(),
        overview,
        counts: counts.trim().to_owned(),
        gpu_seconds,
        left_out: rows.len().saturating_sub(runs.len()),
        runs,
    }
}

/// Which runs are told in full: all, or else first those in which something went wrong.
pub fn in_full(rows: &[RunRow]) -> Vec<&RunRow> {
    let dull =
        |row: &RunRow| row.attempts < 2 && matches!(row.exit_code, Some(Exit::Success) | None);
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|i| dull(&rows[*i]));
    order.truncate(RUNS_MAX);
    order.sort_unstable();
    order.into_iter().map(|i| &rows[i]).collect()
}

fn line(row: &RunRow, in_full: bool) -> ReportLine {
    ReportLine {
        run: row.run.clone(),
        state: row.state.clone(),
        good: row.good(),
        attempts: row.attempts,
        elapsed_s: row.elapsed_s,
        gpu_hours: hours(row.gpu_seconds),
        why: row
            .reason
            .clone()
            .or_else(|| row.failure.clone())
            .unwrap_or_default(),
        in_full,
    }
}

fn good(view: &RunView) -> Option<bool> {
    view.exit_code.map(|exit| exit == Exit::Success)
}

fn run(told: &ReportedRun<'_>, view: RunView, curves: usize, now: Timestamp) -> RunSection {
    let (history, asked) = (told.history, (told.asked)());
    // The rungs after the last attempt were decided and never submitted.
    let mut rungs: Vec<Layer> = Vec::new();
    let mut expects: Option<&Expectation> = None;
    let mut details = Vec::new();
    for attempt in &history.attempts {
        rungs = history.at_the_end_of(attempt.number).rungs();
        let expected = expects
            .map(Expected::of)
            .or_else(|| expected(&(asked.as_ref()?.memory)(&rungs)?));
        let drawn = AttemptDetail {
            phantom: phantom_plot(history, attempt.number),
            ..detail(attempt, expected, told.tracks, curves, now)
        };
        details.push(drawn);
        expects = match &attempt.verdict {
            Some(Verdict::Climb { expects, .. }) => expects.as_ref(),
            _ => None,
        };
    }
    let settings = asked.as_ref().map(|asked| (asked.settings)(&rungs));
    let last = history.attempts.last().map(|attempt| attempt.number);
    let scripts = asked.as_ref().and_then(|asked| asked.scripts.clone());
    let command = asked.map(|asked| asked.command).unwrap_or_default();
    let patch = scripts.as_ref().zip(last).map(|(folder, attempt)| {
        let file = folder.join(format!("attempt-{attempt}/patch.diff"));
        file.display().to_string()
    });
    let reproduce = sentences::reproduce(&command, history);
    let cost = cost(history, now);
    RunSection {
        good: good(&view),
        story: sentences::story(history, &view, &cost),
        course: course(history, now),
        details,
        cost,
        settings: settings.unwrap_or_default(),
        tail: last.map(told.tail).unwrap_or_default(),
        asked: page::command_line(&command),
        patch: patch.filter(|_| reproduce.is_some()),
        reproduce: reproduce.filter(|_| scripts.is_none()),
        view,
    }
}

/// What was expected of an attempt: by the decision before it, or by the memory model.
struct Expected {
    fits_probability: f64,
    peak_bytes: Bytes,
    phase: String,
}

impl Expected {
    fn of(expects: &Expectation) -> Self {
        Self {
            fits_probability: expects.fits_probability,
            peak_bytes: expects.peak_bytes,
            phase: expects.phase.clone(),
        }
    }
}

/// What the memory model expects of a configuration whose GPU it knows.
fn expected(estimate: &Estimate) -> Option<Expected> {
    let phase = serde_json::to_value(estimate.phase).ok()?;
    Some(Expected {
        fits_probability: estimate.fits_probability?,
        peak_bytes: Bytes::from_gib(estimate.peak_bytes / GIB),
        phase: phase.as_str()?.to_owned(),
    })
}

fn detail(
    attempt: &Attempt,
    expected: Option<Expected>,
    tracks: &dyn Fn(u32) -> Vec<GpuTrack>,
    curves: usize,
    now: Timestamp,
) -> AttemptDetail {
    let status = attempt.status.as_ref();
    let started = status.and_then(|s| s.started);
    let seconds = |from: Timestamp, to: Timestamp| to.duration_since(from).as_secs().max(0);
    let incident = attempt.incident.as_ref();
    let gpus = &attempt.measured.gpus;
    let changes = attempt.steps().iter().flat_map(|s| &s.changes);
    AttemptDetail {
        attempt: attempt.number,
        good: attempt.ended_at.and(incident).map(|i| !i.fatal),
        waited_s: started.map(|started| seconds(attempt.intended_at, started)),
        ran_s: attempt.ran_s(now),
        expected: expected.as_ref().map(in_words),
        peak: measured::peak(&attempt.measured),
        used: measured::efficiency(
            Some(&attempt.measured),
            status.and_then(|s| s.host.as_deref()),
        ),
        plot: plot(
            tracks(attempt.number),
            expected.map(|e| e.peak_bytes),
            curves,
        ),
        // Whoever knows the history adds it.
        phantom: None,
        gpus: gpus.iter().take(GPUS_LISTED).map(gpu).collect(),
        more_gpus: gpus.len().saturating_sub(GPUS_LISTED),
        evidence: incident.map(quotes).unwrap_or_default(),
        changes: changes.map(changed).collect(),
    }
}

fn in_words(expected: &Expected) -> String {
    format!(
        "{} ({}), probability to fit {}",
        in_gib(expected.peak_bytes.gib()),
        phase_name(&expected.phase),
        chance(expected.fits_probability)
    )
}

fn gpu(peak: &GpuPeak) -> GpuPeakRow {
    GpuPeakRow {
        node: peak.node.clone(),
        gpu: peak.gpu,
        peak_gib: peak.peak_bytes.gib(),
        total_gib: peak.total_bytes.gib(),
        percent: peak.share().map_or(0.0, |share| (share * 100.0).min(100.0)),
    }
}

/// Lines that prove it, and what a snapshot of memory shows.
fn quotes(incident: &Incident) -> Vec<EvidenceQuote> {
    let quote = |e: &Evidence| EvidenceQuote {
        place: match e.file.is_empty() {
            true => String::new(),
            false => format!("{}:{}", e.file, e.line),
        },
        text: sanitize(e.text.as_bytes()).trim().to_owned(),
    };
    let evidence = incident.evidence.iter().take(EVIDENCE_MAX).map(quote);
    let shown = incident.snapshot.iter().flat_map(snapshot_view::lines);
    let shown = shown.map(|(name, text)| EvidenceQuote {
        place: name.to_owned(),
        text,
    });
    evidence.chain(shown).collect()
}

fn changed(change: &Change) -> Changed {
    Changed {
        knob: change.name().to_owned(),
        from: change.from.shown(),
        to: change.to.shown(),
        effect: change.effect.describe(),
    }
}

/// Seconds of GPUs as hours.
fn gpu_hours(gpu_seconds: f64) -> String {
    format!("{:.2}", gpu_seconds / 3_600.0)
}
