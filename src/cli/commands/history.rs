//! `oomctl history`: every attempt of every run, here or below a folder, as a table to choose from.

use std::path::PathBuf;

use jiff::Timestamp;

use crate::cli::runs::Runs;
use crate::cli::runs::Stored;
use crate::cli::runs::{asked, projects};
use crate::cli::session::Session;
use crate::core::exit::Exit;
use crate::view::history_metrics::prometheus;
use crate::view::history_view::{Column, HistoryRow, HistoryView};
use crate::view::{CommandFailure, print};
use oomctl_base::units::parse_duration_s;

/// Arguments of `history`.
#[derive(Debug, clap::Args)]
pub struct HistoryArgs {
    /// Folders below which projects are looked for; by default only the project here
    #[arg(value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    /// Only attempts of the last 7d, 12h, 90m, or since a day: 2026-11-01
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<Since>,
    /// Only attempts whose job, or runs that, ended so: failed, completed, exhausted (repeatable)
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    state: Vec<String>,
    /// Only attempts that ended of this kind or class: cuda_oom, gpu_oom, host_oom, time_limit (repeatable)
    #[arg(long, value_name = "CAUSE", value_delimiter = ',')]
    cause: Vec<String>,
    /// Only runs on this dataset profile
    #[arg(long, value_name = "NAME")]
    dataset: Option<String>,
    /// Columns, in this order
    #[arg(long, value_enum, value_name = "COLUMN", value_delimiter = ',', default_values_t = Column::USUAL)]
    columns: Vec<Column>,
    /// Print fields with | between them, names first, nothing cut
    #[arg(long, short = 'P', conflicts_with = "json")]
    parsable: bool,
    /// Print sums by state and cause as Prometheus metrics, for node_exporter's textfile collector
    #[arg(long, conflicts_with_all = ["json", "parsable"])]
    prometheus: bool,
    /// Print one JSON document, of all columns
    #[arg(short, long)]
    json: bool,
}

/// From when on.
#[derive(Debug, Clone, Copy)]
enum Since {
    /// So many seconds ago.
    Ago(u64),
    /// This moment.
    At(Timestamp),
}

fn since(text: &str) -> Result<Since, String> {
    let day = text.parse::<jiff::civil::Date>();
    if let Ok(day) = day {
        let start = day.to_zoned(jiff::tz::TimeZone::system());
        return start
            .map(|z| Since::At(z.timestamp()))
            .map_err(|e| e.to_string());
    }
    let bare = text.chars().all(|c| c.is_ascii_digit());
    let seconds = parse_duration_s(text).ok().filter(|_| !bare);
    seconds
        .map(Since::Ago)
        .ok_or_else(|| format!("`{text}` is not a time (7d, 12h, 90m) or a day (2026-11-01)"))
}

/// Runs `oomctl history`. Nothing is asked of a scheduler: states of live jobs are those last seen.
pub fn run(args: &HistoryArgs) -> Result<Exit, CommandFailure> {
    let now = Timestamp::now();
    let folders = match args.folders.is_empty() {
        true => vec![Session::open(None)?.folder],
        false => projects::below(&args.folders)?,
    };
    let mut rows = Vec::new();
    let mut damaged = None;
    for folder in &folders {
        let runs = Runs::of(folder);
        let names = runs.names().map_err(|failure| damaged = Some(failure));
        for name in names.unwrap_or_default() {
            match runs.open(&name) {
                Ok(stored) => rows.extend(rows_of(args, folder, &stored, now)),
                Err(failure) => damaged = Some(failure),
            }
        }
    }
    if let (true, Some(failure)) = (
        rows.is_empty(),
        damaged.take_if(|_| !args.json && !args.prometheus),
    ) {
        return Err(failure);
    }
    rows.sort_by_key(|row| row.submitted);
    if args.prometheus {
        print::data(&prometheus(&rows))?;
        return damaged.map_or(Ok(Exit::Success), Err);
    }
    let view = HistoryView::new(rows);
    if args.json {
        print::json(&view)?;
    } else if args.parsable {
        print::data(&view.parsable(&args.columns))?;
    } else {
        print::data(&view.text(&args.columns))?;
    }
    damaged.map_or(Ok(Exit::Success), Err)
}

/// The attempts of a run that are asked for.
fn rows_of(
    args: &HistoryArgs,
    folder: &std::path::Path,
    stored: &Stored,
    now: Timestamp,
) -> Vec<HistoryRow> {
    let from = args.since.map(|since| match since {
        Since::At(at) => at,
        Since::Ago(seconds) => {
            let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
            now.checked_sub(jiff::SignedDuration::from_secs(seconds))
                .unwrap_or(Timestamp::MIN)
        }
    });
    let recent = |row: &HistoryRow| from.is_none_or(|from| row.ended.unwrap_or(now) >= from);
    let mut rows = HistoryRow::of(&stored.history, folder, now);
    rows.retain(|row| recent(row) && row.is_state(&args.state) && row.is_cause(&args.cause));
    let needs_inputs = [Column::Dataset, Column::Preset]
        .iter()
        .any(|c| args.columns.contains(c));
    if rows.is_empty() || !(needs_inputs || args.json || args.dataset.is_some()) {
        return rows;
    }
    let asked = asked::of(&stored.folder);
    for row in &mut rows {
        row.dataset.clone_from(&asked.dataset);
        row.preset.clone_from(&asked.preset);
    }
    rows.retain(|row| args.dataset.is_none() || row.dataset == args.dataset);
    rows
}
