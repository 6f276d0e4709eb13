//! A run in one line: of `status`, of `history`, of the overview of a report.

use std::fmt::Write as _;
use std::path::Path;

use clap::ValueEnum;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::measured;
use super::run_view::{RunView, duration};

/// What a line says of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    /// Name.
    pub run: String,
    /// `waiting`, `submitting`, `pending`, `running`, … or how it ended.
    pub state: String,
    /// Exit code, when it is over.
    pub exit_code: Option<u8>,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// When its last attempt was over, when the run is.
    pub ended: Option<Timestamp>,
    /// Seconds from the one to the other, or until now.
    pub elapsed_s: i64,
    /// How many attempts there were.
    pub attempts: usize,
    /// The job of the last one.
    pub job: Option<String>,
    /// GPUs of that job.
    pub gpus: u64,
    /// GPU-seconds of all attempts.
    pub gpu_seconds: f64,
    /// Kind of the last failure that ended an attempt.
    pub cause: Option<String>,
    /// That failure in words.
    pub failure: Option<String>,
    /// Why the run ended.
    pub reason: Option<String>,
    /// What the scheduler says of the last job.
    pub job_reason: Option<String>,
    /// The rungs that were taken.
    pub rungs: Vec<String>,
    /// Most memory in use on a GPU in the last attempt that was measured, in GiB.
    pub peak_gib: Option<f64>,
    /// The same in percent of that GPU's memory, where it was sampled.
    pub peak_percent: Option<f64>,
}

impl Row {
    /// The line of a run.
    pub fn of(view: &RunView) -> Self {
        let last = view.attempts.last();
        let latest = || view.attempts.iter().rev();
        let failed = latest().find(|a| a.incident.as_ref().is_some_and(|i| i.fatal));
        let incident = failed.and_then(|a| a.incident.as_ref());
        let fullest = latest().find_map(|a| a.measured.as_ref()?.fullest());
        let percent = |peak: f64, total: f64| (total > 0.0).then(|| peak / total * 100.0);
        Self {
            run: view.run.clone(),
            state: view.state.clone(),
            exit_code: view.exit_code,
            created: view.created,
            ended: view.exit_code.and(last).and_then(|a| a.ended),
            elapsed_s: view.elapsed_s,
            attempts: view.attempts.len(),
            job: last.and_then(|a| a.job.clone()),
            gpus: last.map_or(0, |a| a.gpus),
            gpu_seconds: view.gpu_seconds,
            cause: incident.map(|i| i.kind.clone()),
            failure: failed.and_then(|a| a.headline.clone()),
            reason: view.reason.clone(),
            job_reason: last.and_then(|a| a.reason.clone()),
            rungs: view.attempts.iter().flat_map(|a| a.rungs.clone()).collect(),
            peak_gib: latest().find_map(|a| measured::peak_gib(a.measured.as_ref()?)),
            peak_percent: fullest.and_then(|g| percent(g.peak_bytes.gib(), g.total_bytes.gib())),
        }
    }

    /// Is it over, and well?
    pub fn good(&self) -> Option<bool> {
        self.exit_code.map(|code| code == 0)
    }

    fn last(&self) -> String {
        let job = self.job.as_ref().map(|job| format!("job {job}"));
        let why = self.reason.clone().or_else(|| self.job_reason.clone());
        let told: Vec<String> = [job, why].into_iter().flatten().collect();
        told.join(": ")
    }
}

/// What `history` can show of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Column {
    /// Its name
    Run,
    /// How it stands or ended
    State,
    /// Exit code
    Exit,
    /// When it was made
    Created,
    /// When it ended
    Ended,
    /// From the one to the other, or until now
    Elapsed,
    /// How many attempts there were
    Attempts,
    /// The job of the last one
    Job,
    /// GPUs of that job
    Gpus,
    /// GPU-hours of all attempts
    GpuHours,
    /// Most memory in use on a GPU, in GiB
    Peak,
    /// The same in percent of that GPU's memory
    Memory,
    /// Kind of the last failure that ended an attempt
    Cause,
    /// The same in words
    Failure,
    /// Why the run ended
    Reason,
    /// The rungs that were taken
    Rungs,
}

impl Column {
    /// Those that are shown where nothing else is asked for.
    pub const USUAL: [Self; 8] = [
        Self::Run,
        Self::State,
        Self::Attempts,
        Self::Elapsed,
        Self::GpuHours,
        Self::Memory,
        Self::Cause,
        Self::Rungs,
    ];

    fn title(self) -> String {
        let name = self.to_possible_value();
        let name = name.map(|v| v.get_name().to_ascii_uppercase());
        name.unwrap_or_default()
    }

    /// Are its values numbers, which end at the right?
    fn is_number(self) -> bool {
        use Column::{Attempts, Elapsed, Exit, GpuHours, Gpus, Memory, Peak};
        matches!(
            self,
            Attempts | Elapsed | Exit | GpuHours | Gpus | Memory | Peak
        )
    }

    fn of(self, row: &Row, for_programs: bool) -> String {
        let time = |at: Option<Timestamp>| match at {
            Some(at) if for_programs => at.to_string(),
            Some(at) => at.strftime("%Y-%m-%d %H:%M").to_string(),
            None => String::new(),
        };
        let text = |what: &Option<String>| what.clone().unwrap_or_default();
        match self {
            Self::Run => row.run.clone(),
            Self::State => row.state.clone(),
            Self::Exit => row.exit_code.map(|c| c.to_string()).unwrap_or_default(),
            Self::Created => time(row.created),
            Self::Ended => time(row.ended),
            Self::Elapsed if for_programs => row.elapsed_s.to_string(),
            Self::Elapsed => duration(row.elapsed_s),
            Self::Attempts => row.attempts.to_string(),
            Self::Job => text(&row.job),
            Self::Gpus => row.gpus.to_string(),
            Self::GpuHours => format!("{:.2}", row.gpu_seconds / 3_600.0),
            Self::Peak => row
                .peak_gib
                .map(|gib| format!("{gib:.1}"))
                .unwrap_or_default(),
            Self::Memory if for_programs => row
                .peak_percent
                .map(|p| format!("{p:.1}"))
                .unwrap_or_default(),
            Self::Memory => row
                .peak_percent
                .map(|p| format!("{p:.0} %"))
                .unwrap_or_default(),
            Self::Cause => text(&row.cause),
            Self::Failure => text(&row.failure),
            Self::Reason => text(&row.reason),
            Self::Rungs => row.rungs.join(","),
        }
    }
}

/// Rows as a table for people.
pub fn table(rows: &[Row], columns: &[Column]) -> String {
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| columns.iter().map(|c| c.of(row, false)).collect())
        .collect();
    let titles: Vec<String> = columns.iter().map(|c| c.title()).collect();
    let width = |i: usize| {
        let longest = cells
            .iter()
            .map(|row| textwrap::core::display_width(&row[i]))
            .max();
        longest.unwrap_or(0).max(titles[i].len())
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut out = String::new();
    for row in std::iter::once(&titles).chain(&cells) {
        let mut line = String::new();
        for ((cell, column), width) in row.iter().zip(columns).zip(&widths) {
            let room = width.saturating_sub(textwrap::core::display_width(cell));
            let _ = match column.is_number() {
                true => write!(line, "{:room$}{cell}  ", ""),
                false => write!(line, "{cell}{:room$}  ", ""),
            };
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}

/// Rows for programs, with the folder of each one's project: a line each, `|` between fields, as of `sacct --parsable2`.
/// Times in UTC, durations in seconds, and a `|` in a text is a space.
pub fn parsable<'a>(rows: impl Iterator<Item = (&'a Path, &'a Row)>, columns: &[Column]) -> String {
    let line = |first: &str, cells: Vec<String>| {
        let cells = std::iter::once(first.to_owned()).chain(cells);
        let cells: Vec<String> = cells.map(|c| c.replace(['|', '\n'], " ")).collect();
        cells.join("|") + "\n"
    };
    let mut out = line("PROJECT", columns.iter().map(|c| c.title()).collect());
    for (project, row) in rows {
        let cells = columns.iter().map(|c| c.of(row, true)).collect();
        out += &line(&project.display().to_string(), cells);
    }
    out
}

/// One line a run, as `status` has it.
pub fn list(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "no runs here; `oomctl submit` starts one\n".to_owned();
    }
    let width = rows.iter().map(|r| r.run.len()).max().unwrap_or(3).max(3);
    let mut out = format!(
        "{:<width$}  {:<12} {:>8} {:>10}  {}\n",
        "RUN", "STATE", "ATTEMPTS", "ELAPSED", "LAST"
    );
    for row in rows {
        let _ = writeln!(
            out,
            "{:<width$}  {:<12} {:>8} {:>10}  {}",
            row.run,
            row.state,
            row.attempts,
            duration(row.elapsed_s),
            row.last(),
        );
    }
    out
}
