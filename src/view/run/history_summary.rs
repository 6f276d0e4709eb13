//! What many attempts add up to: for somebody who looks after a site, or a group.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::figures::{gpu_hours, rounded};
use super::history_view::{HistoryRow, count};
use super::table::{Side, Table, TableCell};
use oomctl_base::word_list;

/// Rows of each list.
const MOST: usize = 20;

/// How much completed jobs used of what they held.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Efficiency {
    /// `gpu_memory`, `gpu_utilization`, `host_memory`, `cpu`.
    pub resource: &'static str,
    /// The mean share, from 0 to 1.
    pub mean: f64,
    /// Attempts behind it.
    attempts: usize,
}

impl Efficiency {
    /// Attempts behind it.
    pub fn attempts(&self) -> f64 {
        self.attempts as f64
    }
}

/// Attempts that ended of one cause.
#[derive(Debug, Serialize, JsonSchema)]
struct CauseSum {
    /// Kind of the failure, or the state of the job where there is none.
    cause: String,
    /// Did memory run out?
    out_of_memory: bool,
    attempts: usize,
    gpu_hours: f64,
}

/// Rungs after which an attempt completed whose predecessor had run out of memory.
#[derive(Debug, Serialize, JsonSchema)]
struct HelpedSum {
    /// The rungs that were taken at once.
    rungs: Vec<String>,
    /// Kind of the failure before.
    cause: String,
    /// How often.
    times: usize,
}

/// A run that lost GPU-hours.
#[derive(Debug, Serialize, JsonSchema)]
struct CostlyRun {
    run: String,
    user: Option<String>,
    folder: String,
    outcome: &'static str,
    attempts: usize,
    gpu_hours: f64,
    /// Of attempts that did not complete.
    lost_gpu_hours: f64,
}

/// A folder or ledger that could not be read.
#[derive(Debug, Serialize, JsonSchema)]
pub struct UnreadPath {
    /// Which.
    pub path: String,
    /// Why.
    pub why: String,
}

/// Sums over attempts.
#[derive(Debug, Serialize, JsonSchema)]
pub struct HistorySummary {
    schema_version: u32,
    made: String,
    oomctl: &'static str,
    projects: usize,
    runs: usize,
    attempts: usize,
    gpu_hours: f64,
    /// Of attempts that ran out of memory.
    oom_gpu_hours: f64,
    /// Of attempts that are over and did not complete, those included.
    lost_gpu_hours: f64,
    efficiency: Vec<Efficiency>,
    /// The most GPU-hours first.
    causes: Vec<CauseSum>,
    /// The most often first.
    helped: Vec<HelpedSum>,
    /// The most lost GPU-hours first, 20 at most.
    costliest: Vec<CostlyRun>,
    /// What could not be read, and is in no sum.
    unread: Vec<UnreadPath>,
}

/// The share of a resource that an attempt used, where it was measured.
type UsedShare = fn(&HistoryRow) -> Option<f64>;

/// By resource, the mean share that completed jobs used. One that nobody measured is left out.
pub fn efficiency(rows: &[HistoryRow]) -> Vec<Efficiency> {
    let done: Vec<&HistoryRow> = rows.iter().filter(|r| r.completed()).collect();
    let resources: [(&'static str, UsedShare); 4] = [
        ("gpu_memory", |r| r.memory),
        ("gpu_utilization", |r| r.gpu_utilization),
        ("host_memory", |r| r.host_memory),
        ("cpu", |r| r.cpu),
    ];
    let one = |(resource, share): (&'static str, UsedShare)| {
        let known: Vec<f64> = done.iter().filter_map(|row| share(row)).collect();
        let mean = known.iter().sum::<f64>() / known.len() as f64;
        let attempts = known.len();
        (attempts > 0).then_some(Efficiency {
            resource,
            mean,
            attempts,
        })
    };
    resources.into_iter().filter_map(one).collect()
}

/// GPU-hours of those rows for which something holds.
fn hours<'r>(
    rows: impl IntoIterator<Item = &'r HistoryRow>,
    of: impl Fn(&HistoryRow) -> bool,
) -> f64 {
    let rows = rows.into_iter().filter(|row| of(row));
    // Not `sum`, for which nothing is -0.
    gpu_hours(rows.fold(0.0, |sum, row| sum + row.gpu_seconds))
}

fn causes(rows: &[HistoryRow]) -> Vec<CauseSum> {
    let mut by_cause: BTreeMap<String, Vec<&HistoryRow>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.is_lost()) {
        let state = || row.state.as_ref().map(|s| s.to_lowercase());
        let cause = row.cause.clone().or_else(state);
        let cause = cause.unwrap_or_else(|| "unknown".to_owned());
        by_cause.entry(cause).or_default().push(row);
    }
    let sum = |(cause, rows): (String, Vec<&HistoryRow>)| CauseSum {
        cause,
        out_of_memory: rows.iter().any(|row| row.is_out_of_memory()),
        attempts: rows.len(),
        gpu_hours: hours(rows, |_| true),
    };
    let mut all: Vec<CauseSum> = by_cause.into_iter().map(sum).collect();
    all.sort_by(|a, b| {
        b.gpu_hours
            .total_cmp(&a.gpu_hours)
            .then(b.attempts.cmp(&a.attempts))
    });
    all
}

/// The attempts of each run, in their order.
pub fn by_run(rows: &[HistoryRow]) -> Vec<Vec<&HistoryRow>> {
    let mut runs: BTreeMap<(&str, &str), Vec<&HistoryRow>> = BTreeMap::new();
    for row in rows {
        runs.entry((&row.folder, &row.run)).or_default().push(row);
    }
    let mut runs: Vec<_> = runs.into_values().collect();
    for run in &mut runs {
        run.sort_by_key(|row| row.attempt);
    }
    runs
}

fn helped(runs: &[Vec<&HistoryRow>]) -> Vec<HelpedSum> {
    let mut times: BTreeMap<(&[String], &str), usize> = BTreeMap::new();
    for pair in runs.iter().flat_map(|run| run.windows(2)) {
        let [died, next] = pair else { continue };
        let follows = next.attempt == died.attempt + 1 && next.completed();
        if follows && died.is_out_of_memory() && !died.rungs.is_empty() {
            let cause = died.cause.as_deref().unwrap_or_default();
            *times.entry((&died.rungs, cause)).or_default() += 1;
        }
    }
    let sum = |((rungs, cause), times): ((&[String], &str), usize)| HelpedSum {
        rungs: rungs.to_vec(),
        cause: cause.to_owned(),
        times,
    };
    let mut all: Vec<HelpedSum> = times.into_iter().map(sum).collect();
    all.sort_by_key(|h| std::cmp::Reverse(h.times));
    all
}

fn costliest(runs: &[Vec<&HistoryRow>]) -> Vec<CostlyRun> {
    let one = |rows: &Vec<&HistoryRow>| {
        let last = rows.last()?;
        let lost_gpu_hours = hours(rows.iter().copied(), HistoryRow::is_lost);
        (lost_gpu_hours > 0.0).then(|| CostlyRun {
            run: last.run.clone(),
            user: last.user.clone(),
            folder: last.folder.clone(),
            outcome: last.outcome.unwrap_or("unfinished"),
            attempts: rows.len(),
            gpu_hours: hours(rows.iter().copied(), |_| true),
            lost_gpu_hours,
        })
    };
    let mut all: Vec<CostlyRun> = runs.iter().filter_map(one).collect();
    all.sort_by(|a, b| {
        let lost = b.lost_gpu_hours.total_cmp(&a.lost_gpu_hours);
        lost.then(b.gpu_hours.total_cmp(&a.gpu_hours))
    });
    all.truncate(MOST);
    all
}

impl HistorySummary {
    /// The sums of these attempts, of so many projects.
    pub fn new(
        rows: &[HistoryRow],
        projects: usize,
        unread: Vec<UnreadPath>,
        now: Timestamp,
    ) -> Self {
        let runs = by_run(rows);
        let mut efficiency = efficiency(rows);
        for one in &mut efficiency {
            one.mean = rounded(one.mean, 4);
        }
        Self {
            schema_version: 1,
            made: now.strftime("%Y-%m-%d %H:%M UTC").to_string(),
            oomctl: env!("CARGO_PKG_VERSION"),
            projects,
            runs: runs.len(),
            attempts: rows.len(),
            gpu_hours: hours(rows, |_| true),
            oom_gpu_hours: hours(rows, HistoryRow::is_out_of_memory),
            lost_gpu_hours: hours(rows, HistoryRow::is_lost),
            efficiency,
            causes: causes(rows),
            helped: helped(&runs),
            costliest: costliest(&runs),
            unread,
        }
    }

    /// As text.
    pub fn text(&self) -> String {
        let mut out = self.head();
        let causes = self.causes.iter().take(MOST);
        let causes = causes.map(|c| {
            [
                c.cause.clone(),
                c.attempts.to_string(),
                hundredths(c.gpu_hours),
            ]
        });
        let names = ["CAUSE", "ATTEMPTS", "GPU-HOURS"];
        section(&mut out, "failures by cause", names, 1..3, causes);
        let helped = self.helped.iter().take(MOST);
        let helped = helped.map(|h| [h.rungs.join(", "), h.cause.clone(), h.times.to_string()]);
        let names = ["RUNGS", "AFTER", "TIMES"];
        section(&mut out, "what helped", names, 2..3, helped);
        let lost = self.costliest.iter();
        let names = word_list::<7>("RUN USER OUTCOME ATTEMPTS LOST GPU-HOURS FOLDER");
        section(
            &mut out,
            "runs that lost most",
            names,
            3..6,
            lost.map(CostlyRun::cells),
        );
        if !self.unread.is_empty() {
            out.push_str("\nnot read, and in no sum\n");
        }
        for UnreadPath { path, why } in &self.unread {
            let _ = match why.contains(path) {
                true => writeln!(out, "  {why}"),
                false => writeln!(out, "  {path}: {why}"),
            };
        }
        out
    }

    fn head(&self) -> String {
        let mut out = format!(
            "{} of {} in {}: {:.2} GPU-hours\n{:.2} in attempts that ran out of memory, {:.2} in all that did not complete\n",
            count(self.attempts, "attempt"),
            count(self.runs, "run"),
            count(self.projects, "project"),
            self.gpu_hours,
            self.oom_gpu_hours,
            self.lost_gpu_hours,
        );
        let used = self.efficiency.iter().map(|e| {
            let (percent, resource) = (e.mean * 100.0, e.resource.replace('_', " "));
            format!(
                "{percent:.0}% {resource} (of {})",
                count(e.attempts, "attempt")
            )
        });
        let used: Vec<String> = used.collect();
        if !used.is_empty() {
            let _ = writeln!(out, "completed jobs used on average {}", used.join(", "));
        }
        out
    }
}

impl CostlyRun {
    fn cells(&self) -> [String; 7] {
        [
            self.run.clone(),
            self.user.clone().unwrap_or_default(),
            self.outcome.to_owned(),
            self.attempts.to_string(),
            hundredths(self.lost_gpu_hours),
            hundredths(self.gpu_hours),
            self.folder.clone(),
        ]
    }
}

fn hundredths(hours: f64) -> String {
    format!("{hours:.2}")
}

/// A table below its title, whose columns in `numbers` are numbers; nothing without rows.
fn section<const N: usize>(
    out: &mut String,
    title: &str,
    names: [&str; N],
    numbers: std::ops::Range<usize>,
    rows: impl Iterator<Item = [String; N]>,
) {
    let side = |at| match numbers.contains(&at) {
        true => (Side::Right, 0),
        false => (Side::Left, 0),
    };
    let mut table = Table::new((0..N).map(side));
    table.row(names.map(TableCell::from));
    let mut rows = rows.peekable();
    if rows.peek().is_none() {
        return;
    }
    rows.for_each(|row| table.row(row.map(TableCell::from)));
    let _ = write!(out, "\n{title}\n{}", table.text("  "));
}
