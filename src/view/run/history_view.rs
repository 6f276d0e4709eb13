//! Attempts as rows of a table, of `|`-separated fields, and of JSON.

use crate::core::engine::{Attempt, History, Outcome};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::figures::{duration, gpu_hours};
use super::history_column::Column;
use super::run_view::state;
use super::style::{BAD, GOOD, WARN};
use super::table::{Side, Table, TableCell};
use crate::core::measure::GpuPeak;
use crate::view::measured;
use oomctl_base::job::{HostUse, JobState, STATES};
use oomctl_base::units::Bytes;
use oomctl_diagnose::Class;

/// Shares of a GPU's memory below which an attempt held more than it used, and above which it was near its end.
const LITTLE: f64 = 0.4;
const NEARLY_FULL: f64 = 0.97;
/// The label of causes that a project's own signatures name.
const OWN_CAUSE: &str = "own";

/// One attempt.
#[derive(Debug, Serialize, JsonSchema)]
pub struct HistoryRow {
    /// The run.
    pub run: String,
    /// Number of the attempt.
    pub attempt: u32,
    job: Option<String>,
    /// State of its job.
    pub state: Option<String>,
    /// How the run ended, on its last attempt.
    pub outcome: Option<&'static str>,
    /// Where the run stands, as `status` names it.
    #[serde(skip)]
    pub run_state: String,
    /// Kind of its failure.
    pub cause: Option<String>,
    /// Is that a kind of the project's own?
    #[serde(skip)]
    own_cause: bool,
    /// How the attempt before it ended, as a cause in a sum.
    #[serde(skip)]
    pub after: Option<String>,
    /// Its class.
    pub class: Option<&'static str>,
    headline: Option<String>,
    elapsed_s: Option<i64>,
    gpus: u64,
    gpu_hours: f64,
    /// The rungs taken after it.
    pub rungs: Vec<String>,
    /// GPUs times seconds.
    #[serde(skip)]
    pub gpu_seconds: f64,
    peak_bytes: Option<u64>,
    capacity_bytes: Option<u64>,
    /// Share of the capacity that was used at the peak.
    pub memory: Option<f64>,
    /// Mean share of time in which its GPUs computed.
    pub gpu_utilization: Option<f64>,
    /// Share of its host memory that was used at the peak.
    pub host_memory: Option<f64>,
    /// Share of its CPU time that was used.
    pub cpu: Option<f64>,
    step: Option<u64>,
    nodes: Vec<String>,
    /// When it was written down.
    pub submitted: Timestamp,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// Whose run it is, where it was looked up.
    pub user: Option<String>,
    /// The dataset profile, where it was looked up.
    pub dataset: Option<String>,
    /// The preset, where it was looked up.
    pub preset: Option<String>,
    /// Folder of the project.
    pub folder: String,
}

impl HistoryRow {
    /// The attempts of a run.
    pub fn of(history: &History, folder: &Path, now: Timestamp) -> Vec<Self> {
        let attempts = history.attempts.iter();
        let mut rows: Vec<Self> = attempts
            .map(|attempt| Self::one(history, attempt, folder, now))
            .collect();
        for at in 1..rows.len() {
            rows[at].after = Some(rows[at - 1].counted_cause());
        }
        if let Some(last) = rows.last_mut() {
            last.outcome = history.outcome.as_ref().map(Outcome::word);
        }
        rows
    }

    fn one(history: &History, attempt: &Attempt, folder: &Path, now: Timestamp) -> Self {
        let status = attempt.status.as_ref();
        // Of a job that was cancelled, that says all.
        let cancelled = status.is_some_and(|s| s.state == JobState::Cancelled);
        let incident = attempt.incident.as_ref();
        let incident = incident
            .filter(|i| i.kind != "no_failure")
            .filter(|i| !(cancelled && i.kind == "cancelled"));
        let fullest = attempt.measured.fullest();
        let host = status.and_then(|s| s.host.as_deref());
        let busy = attempt.measured.utilization_percent();
        Self {
            run: history.run.clone(),
            attempt: attempt.number,
            job: attempt.job.as_ref().map(|j| j.id.to_string()),
            state: status.map(|s| s.state.word().to_owned()),
            outcome: None,
            run_state: state(history),
            own_cause: incident.is_some_and(|i| !i.is_of_a_built_in_kind()),
            after: None,
            cause: incident.map(|i| i.kind.clone()),
            class: incident.map(|i| i.class.word()),
            headline: incident.map(oomctl_diagnose::Incident::headline),
            elapsed_s: attempt.ran_s(now),
            gpus: attempt.gpus,
            gpu_hours: gpu_hours(attempt.gpu_seconds_by(now)),
            rungs: attempt.steps().iter().map(|s| s.rung.clone()).collect(),
            gpu_seconds: attempt.gpu_seconds_by(now),
            peak_bytes: measured::peak_bytes(&attempt.measured).map(|peak| peak.0),
            capacity_bytes: fullest.map(|gpu| gpu.total_bytes.0),
            memory: fullest.and_then(GpuPeak::share),
            gpu_utilization: busy.map(|percent| f64::from(percent) / 100.0),
            host_memory: host.and_then(HostUse::memory_share),
            cpu: host.and_then(HostUse::cpu_share),
            step: attempt.progress.as_ref().map(|p| p.step),
            nodes: status.map(|s| s.nodes.clone()).unwrap_or_default(),
            submitted: attempt.intended_at,
            ended: attempt.over_at(),
            user: None,
            dataset: None,
            preset: None,
            folder: folder.display().to_string(),
        }
    }

    /// State of the job, class and kind of the failure, as labels; empty where there is none.
    pub fn ended_so(&self) -> Vec<(&'static str, String)> {
        let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
        vec![
            ("state", text(self.state.as_deref())),
            ("class", text(self.class)),
            ("cause", text(self.label())),
        ]
    }

    /// The kind of its failure as a label. Kinds of projects' own are as many as they like: all count as one.
    fn label(&self) -> Option<&str> {
        match self.own_cause {
            true => Some(OWN_CAUSE),
            false => self.cause.as_deref(),
        }
    }

    /// The same, or how its job ended where nothing failed.
    fn counted_cause(&self) -> String {
        let state = || self.state.as_ref().map(|s| s.to_lowercase());
        let cause = self.label().map(str::to_owned).or_else(state);
        cause.unwrap_or_else(|| "unknown".to_owned())
    }

    /// Was it handed to a scheduler?
    pub fn is_submitted(&self) -> bool {
        self.job.is_some()
    }

    /// Did its job complete?
    pub fn completed(&self) -> bool {
        self.state.as_deref() == Some("COMPLETED") && !self.is_out_of_memory()
    }

    /// Is it over, and did not complete?
    pub fn is_lost(&self) -> bool {
        self.ended.is_some() && !self.completed()
    }

    /// Did memory run out, of whatever kind?
    pub fn is_out_of_memory(&self) -> bool {
        self.class.is_some_and(|c| c != Class::NotOom.word())
    }

    /// Did the job or the run end so? Everything does where nothing is asked.
    pub fn is_state(&self, wanted: &[String]) -> bool {
        let words = [self.state.as_deref(), self.outcome];
        Self::is_one(wanted, &words)
    }

    /// The words that say how a job stands or a run ended.
    pub fn states() -> BTreeSet<String> {
        let jobs = STATES.iter().map(|(_, word, _)| word.to_lowercase());
        jobs.chain(Outcome::WORDS.map(str::to_owned)).collect()
    }

    /// Did it end of one of these kinds or classes?
    pub fn is_cause(&self, wanted: &[String]) -> bool {
        Self::is_one(wanted, &[self.cause.as_deref(), self.class])
    }

    fn is_one(wanted: &[String], words: &[Option<&str>]) -> bool {
        let has = |w: &String| {
            words
                .iter()
                .flatten()
                .any(|word| word.eq_ignore_ascii_case(w))
        };
        wanted.is_empty() || wanted.iter().any(has)
    }

    /// A field for people: causes in words.
    fn shown(&self, column: Column) -> String {
        match (column, self.cause.as_deref()) {
            (Column::Cause, Some("cuda_oom")) => "GPU memory".to_owned(),
            (Column::Cause, Some("host_oom")) => "host memory".to_owned(),
            (Column::Cause, Some("code_bug")) => "error in the program".to_owned(),
            (Column::Cause, Some(kind)) if !self.own_cause => kind.replace('_', " "),
            _ => self.field(column),
        }
    }

    fn field(&self, column: Column) -> String {
        let text = |t: &Option<String>| t.clone().unwrap_or_default();
        let percent = |share: Option<f64>| {
            let share = share.map(|share| format!("{:.0}%", share * 100.0));
            share.unwrap_or_default()
        };
        let gib = |bytes: Option<u64>| {
            bytes
                .map(|b| format!("{:.1}", Bytes(b).gib()))
                .unwrap_or_default()
        };
        match column {
            Column::Run => self.run.clone(),
            Column::Attempt => self.attempt.to_string(),
            Column::Job => text(&self.job),
            Column::State => text(&self.state),
            Column::Outcome => self.outcome.unwrap_or_default().to_owned(),
            Column::Cause => text(&self.cause),
            Column::Elapsed => self.elapsed_s.map(duration).unwrap_or_default(),
            Column::Gpus => self.gpus.to_string(),
            Column::GpuHours => format!("{:.2}", self.gpu_hours),
            Column::Peak => gib(self.peak_bytes),
            Column::Capacity => gib(self.capacity_bytes),
            Column::Memory => percent(self.memory),
            Column::GpuUtilization => percent(self.gpu_utilization),
            Column::HostMemory => percent(self.host_memory),
            Column::Cpu => percent(self.cpu),
            Column::Step => self.step.map(|s| s.to_string()).unwrap_or_default(),
            Column::Nodes => self.nodes.join(","),
            Column::Submitted => self.submitted.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            Column::Ended => self
                .ended
                .map(|e| e.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
                .unwrap_or_default(),
            Column::User => text(&self.user),
            Column::Dataset => text(&self.dataset),
            Column::Preset => text(&self.preset),
            Column::Folder => self.folder.clone(),
        }
    }

    fn style(&self, column: Column) -> Option<anstyle::Style> {
        match (column, self.state.as_deref(), self.memory) {
            (Column::State, Some("COMPLETED"), _) => Some(GOOD),
            (Column::State, Some("RUNNING" | "PENDING"), _) => Some(WARN),
            (Column::State, Some(_), _) => Some(BAD),
            (Column::Memory, _, Some(m)) if m < LITTLE => Some(WARN),
            (Column::Memory, _, Some(m)) if m > NEARLY_FULL => Some(BAD),
            (Column::Memory, _, Some(_)) => Some(GOOD),
            _ => None,
        }
    }
}

/// The rows of a table.
#[derive(Debug, Serialize, JsonSchema)]
pub struct HistoryView {
    schema_version: u32,
    attempts: Vec<HistoryRow>,
}

impl HistoryView {
    /// The view of some rows.
    pub fn new(attempts: Vec<HistoryRow>) -> Self {
        Self {
            schema_version: 1,
            attempts,
        }
    }

    /// As sacct does: names, then a line each, `|` between fields. One in a field becomes a blank.
    pub fn parsable(&self, columns: &[Column]) -> String {
        let names: Vec<String> = columns.iter().map(|c| c.name()).collect();
        let mut out = names.join("|") + "\n";
        for row in &self.attempts {
            let fields: Vec<String> = columns
                .iter()
                .map(|c| row.field(*c).replace(['|', '\n'], " "))
                .collect();
            out.push_str(&fields.join("|"));
            out.push('\n');
        }
        out
    }

    /// What is said where filters leave nothing of the attempts: which states and causes these have.
    pub fn none_left(&self) -> String {
        if self.attempts.is_empty() {
            return "no attempts yet\n".to_owned();
        }
        let words = |of: fn(&HistoryRow) -> Option<&str>| {
            let all: BTreeSet<&str> = self.attempts.iter().filter_map(of).collect();
            all.into_iter()
                .collect::<Vec<_>>()
                .join(", ")
                .to_lowercase()
        };
        let mut out = format!(
            "no attempt matches. States here: {}",
            words(|r| r.state.as_deref())
        );
        match words(|r| r.cause.as_deref()).as_str() {
            "" => {}
            causes => out += &format!("; causes: {causes}"),
        }
        out + "\n"
    }

    /// Whether there are no attempts.
    pub fn is_empty(&self) -> bool {
        self.attempts.is_empty()
    }

    /// A table, and what it adds up to.
    pub fn text(&self, columns: &[Column]) -> String {
        let side = |c: &Column| match c.is_number() {
            true => Side::Right,
            false => Side::Left,
        };
        let mut table = Table::new(columns.iter().map(|c| (side(c), 0)));
        table.row(columns.iter().map(|c| c.name().to_uppercase()));
        for row in &self.attempts {
            let cell = |c: &Column| TableCell::from(row.shown(*c)).painted(row.style(*c));
            table.row(columns.iter().map(cell));
        }
        let mut out = table.text("");
        let _ = writeln!(out, "\n{}", self.sum());
        out
    }

    /// Runs, GPU-hours, and how full the GPUs were that were measured.
    fn sum(&self) -> String {
        let mut runs: Vec<(&str, &str)> = self
            .attempts
            .iter()
            .map(|r| (r.folder.as_str(), r.run.as_str()))
            .collect();
        runs.sort_unstable();
        runs.dedup();
        let seconds = 0.0 + self.attempts.iter().map(|r| r.gpu_seconds).sum::<f64>();
        let hours = gpu_hours(seconds);
        let good = self
            .attempts
            .iter()
            .filter(|r| r.state.as_deref() == Some("COMPLETED"));
        let shares: Vec<f64> = good.filter_map(|r| r.memory).collect();
        let mean = (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64);
        let memory = mean.map_or(String::new(), |m| {
            format!(
                "; completed jobs used {:.0}% of their GPUs' memory",
                m * 100.0
            )
        });
        let attempts = count(self.attempts.len(), "attempt");
        format!(
            "{attempts} of {}, {hours:.2} GPU-hours{memory}",
            count(runs.len(), "run")
        )
    }
}

/// `1 run`, `2 runs`.
pub fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}
