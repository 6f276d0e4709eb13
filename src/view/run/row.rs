//! A run in one line: of `status`, of the overview of a report.

use std::collections::BTreeMap;

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::figures::{duration, gpu_hours};
use super::outcome::job_reason;
use super::run_view::RunView;
use super::table::{Side, Table};
use crate::core::exit::Exit;

/// Runs that are named for a cause.
const MOST_NAMES: usize = 8;

/// What a line says of a run.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RunRow {
    /// Name.
    pub run: String,
    /// When it was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<jiff::Timestamp>,
    /// `waiting`, `submitting`, `pending`, `running`, … or how it ended.
    pub state: String,
    /// Exit code, when it is over.
    pub exit_code: Option<Exit>,
    /// Seconds from when it was made to its end, or until now.
    pub elapsed_s: i64,
    /// How many attempts there were.
    pub attempts: usize,
    /// The job of the last one.
    pub job: Option<String>,
    /// GPU-seconds of all attempts.
    pub gpu_seconds: f64,
    /// The last failure that ended an attempt, in words.
    pub failure: Option<String>,
    /// It ended the last attempt.
    #[serde(skip)]
    failed_last: bool,
    /// Its kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Why the run ended.
    pub reason: Option<String>,
    /// What the scheduler says of the last job.
    pub job_reason: Option<String>,
    /// Whose run it is, where it was looked up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Folder of its project, where runs of several are shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
}

impl RunRow {
    /// The line of a run.
    pub fn of(view: &RunView) -> Self {
        let last = view.attempts.last();
        let mut latest = view.attempts.iter().rev();
        let failed = latest.find(|a| a.incident.as_ref().is_some_and(|i| i.fatal));
        Self {
            run: view.run.clone(),
            created: view.created,
            state: view.state.clone(),
            exit_code: view.exit_code,
            elapsed_s: view.elapsed_s,
            attempts: view.attempts.len(),
            job: last.and_then(|a| a.job.clone()),
            gpu_seconds: view.gpu_seconds,
            failure: failed.and_then(|a| a.headline.clone()),
            failed_last: failed.map(|a| a.attempt) == last.map(|a| a.attempt),
            cause: failed.and_then(|a| Some(a.incident.as_ref()?.kind.clone())),
            reason: view.reason.clone(),
            job_reason: last.and_then(|a| job_reason(a.reason.as_deref()).map(str::to_owned)),
            user: None,
            folder: None,
        }
    }

    /// Is it over, and well?
    pub fn good(&self) -> Option<bool> {
        self.exit_code.map(|exit| exit == Exit::Success)
    }

    fn field(&self, field: RunField) -> String {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        match field {
            RunField::Run => self.run.clone(),
            RunField::State => self.state.clone(),
            RunField::Attempts => self.attempts.to_string(),
            RunField::Elapsed => duration(self.elapsed_s),
            RunField::Last => self.last(),
            RunField::Job => text(&self.job),
            RunField::Failure => text(&self.failure),
            RunField::Reason => text(&self.reason),
            RunField::ExitCode => self.exit_code.map(|c| c.to_string()).unwrap_or_default(),
            RunField::User => text(&self.user),
            RunField::Folder => text(&self.folder),
            RunField::GpuHours => format!("{:.2}", gpu_hours(self.gpu_seconds)),
            RunField::Created => self
                .created
                .map(|at| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
                .unwrap_or_default(),
        }
    }

    fn last(&self) -> String {
        let job = self.job.as_ref().map(|job| format!("job {job}"));
        let why = self.reason.clone().or_else(|| self.job_reason.clone());
        // Some reasons name the job themselves.
        let job = job.filter(|job| {
            !why.as_ref()
                .is_some_and(|why| why.starts_with(job.as_str()))
        });
        // Of a job that ended, and nobody has decided what follows.
        let undecided = self.state == "ended" && self.failed_last;
        let cause = self.failure.clone().filter(|_| undecided);
        let told: Vec<String> = [job, cause, why].into_iter().flatten().collect();
        told.join(": ")
    }
}

/// What a line can show, as `--format` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RunField {
    /// Name of the run
    Run,
    /// Where it stands, or how it ended
    State,
    /// Attempts so far
    Attempts,
    /// Time from its start to now, or to its end
    Elapsed,
    /// The last job, its cause and why the run ended
    Last,
    /// The id of the last job
    Job,
    /// The last failure, in words
    Failure,
    /// Why the run ended, or what it waits for
    Reason,
    /// Exit code, once it is over
    ExitCode,
    /// GPU-hours of all attempts
    GpuHours,
    /// When it was created
    Created,
    /// Whose run it is
    User,
    /// Folder of its project
    Folder,
}

impl RunField {
    /// Those that are shown unless others are asked for.
    pub const USUAL: [Self; 5] = [
        Self::Run,
        Self::State,
        Self::Attempts,
        Self::Elapsed,
        Self::Last,
    ];

    /// The same of runs of several people.
    pub const OF_ALL: [Self; 7] = [
        Self::User,
        Self::Run,
        Self::State,
        Self::Attempts,
        Self::Elapsed,
        Self::Last,
        Self::Folder,
    ];

    fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |v| v.get_name().to_owned())
    }

    fn column(self) -> (Side, usize) {
        match self {
            Self::Elapsed => (Side::Right, 9),
            Self::Attempts | Self::ExitCode | Self::GpuHours => (Side::Right, 8),
            Self::State => (Side::Left, 11),
            _ => (Side::Left, 3),
        }
    }
}

impl std::fmt::Display for RunField {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name())
    }
}

/// One line a run, below the names of its fields.
pub fn list(rows: &[RunRow], fields: &[RunField], header: bool) -> String {
    let mut table = Table::new(fields.iter().map(|field| field.column()));
    if header {
        table.row(fields.iter().map(|field| field.name().to_uppercase()));
    }
    for row in rows {
        table.row(fields.iter().map(|field| row.field(*field)));
    }
    table.text("")
}

/// Runs that belong together in numbers: how many stand how, and what attempts of them died of.
pub fn totals(rows: &[RunRow]) -> String {
    let mut text = summary(rows.iter().map(|row| row.state.as_str()));
    let mut causes: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for row in rows {
        let cause = row.cause.as_deref().filter(|_| row.state != "cancelled");
        if let Some(cause) = cause {
            let of = causes.entry((cause, row.state.as_str())).or_default();
            of.push(&row.run);
        }
    }
    for ((cause, state), runs) in causes {
        let shown = runs.iter().take(MOST_NAMES).copied().collect::<Vec<_>>();
        let more = if runs.len() > MOST_NAMES { ", …" } else { "" };
        text.push_str(&format!(
            "{cause}, now {state}: {} ({}{more})\n",
            runs.len(),
            shown.join(", ")
        ));
    }
    text
}

/// How many runs stand how, in one line.
pub fn summary<'a>(states: impl Iterator<Item = &'a str>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for state in states {
        *counts.entry(state).or_default() += 1;
    }
    let all: usize = counts.values().sum();
    let counts: Vec<String> = counts
        .iter()
        .map(|(state, n)| format!("{n} {state}"))
        .collect();
    match all {
        0 => "no runs\n".to_owned(),
        1 => format!("1 run: {}\n", counts.join(", ")),
        _ => format!("{all} runs: {}\n", counts.join(", ")),
    }
}
