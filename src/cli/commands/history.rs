//! `oomctl history`: every attempt of every run, here or below a folder, as a table to choose from.

use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::cli::overviews::attempts::{AttemptChoice, UnreadRun, none_left, only_states};
use crate::cli::runs::{projects, sharing};
use crate::cli::session::Session;
use crate::cli::since::{Since, since};
use crate::core::exit::Exit;
use crate::io::files::{Access, write_to};
use crate::view::history_column::Column;
use crate::view::history_metrics::prometheus;
use crate::view::history_summary::{HistorySummary, UnreadPath};
use crate::view::report::summary_page;
use crate::view::{CommandFailure, history_view::HistoryView, print};

/// Arguments of `history`.
#[derive(Debug, clap::Args)]
pub struct HistoryArgs {
    /// Look for projects below these folders [default: the project here]
    #[arg(value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    /// Only attempts of the last 7d, 12h, 90m, or since a day: 2026-11-01
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<Since>,
    /// Only attempts in this state: failed, completed, exhausted (repeatable)
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    state: Vec<String>,
    /// Only attempts with this cause: cuda_oom, host_oom, time_limit (repeatable)
    #[arg(long, value_name = "CAUSE", value_delimiter = ',')]
    cause: Vec<String>,
    /// Only runs on this dataset profile
    #[arg(long, value_name = "NAME")]
    dataset: Option<String>,
    /// Only runs of this user
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Columns, in this order
    #[arg(long, hide_short_help = true, value_enum, value_name = "COLUMN", value_delimiter = ',', default_values_t = Column::USUAL)]
    columns: Vec<Column>,
    /// Print fields with | between them, names first, nothing cut
    #[arg(long, short = 'P', conflicts_with = "json")]
    parsable: bool,
    /// Write sums by state and cause as metrics for Prometheus; `-` for standard output
    #[arg(long, hide_short_help = true, value_name = "FILE", conflicts_with_all = ["json", "parsable"])]
    prometheus: Option<PathBuf>,
    /// Show sums instead: failures by cause, GPU-hours lost, what helped
    #[arg(long, conflicts_with_all = ["parsable", "prometheus"])]
    summary: bool,
    /// Write the sums as a page; `-` for standard output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "parsable", "prometheus"])]
    html: Option<PathBuf>,
    /// Merge what fitted in these projects into a file for your site, without paths and names
    #[arg(long, value_name = "FILE", conflicts_with_all = ["html", "parsable", "prometheus", "summary"])]
    export_fits: Option<PathBuf>,
    /// Print one JSON document
    #[arg(short, long)]
    json: bool,
}

/// Runs `oomctl history`.
pub fn run(args: &HistoryArgs) -> Result<Exit, CommandFailure> {
    let now = Timestamp::now();
    let folders = match args.folders.is_empty() {
        true => vec![Session::of_runs(None)?.folder],
        false => projects::below(&args.folders)?,
    };
    if let Some(file) = &args.export_fits {
        let view = sharing::export(&folders, file)?;
        match args.json {
            true => print::json(&view)?,
            false => print::data(&view.text())?,
        }
        return Ok(Exit::Success);
    }
    let (rows, mut unread) = choice(args, now).of(&folders, now);
    only_states(&args.state, &rows)?;
    if let Some(path) = &args.prometheus {
        for UnreadRun { path, failure } in &unread {
            let (path, why) = (path.display(), failure.sentence());
            print::talk(&format!("not read, and in no sum: {path}: {why}"));
        }
        return put(path, &prometheus(&rows, unread.len()));
    }
    if args.summary || args.html.is_some() {
        let unread = unread.iter().map(|u| UnreadPath {
            path: u.path.display().to_string(),
            why: u.failure.sentence(),
        });
        let summary = HistorySummary::new(&rows, folders.len(), unread.collect(), now);
        return summed(args, &summary);
    }
    let mut damaged = unread.pop().map(|unread| unread.failure);
    if let Some(failure) = damaged.take_if(|_| !args.json && rows.is_empty()) {
        return Err(failure);
    }
    let view = HistoryView::new(rows);
    if args.json {
        print::json(&view)?;
    } else if args.parsable {
        print::data(&view.parsable(&args.columns))?;
    } else if view.is_empty() {
        print::data(&none_left(&folders, now))?;
    } else {
        print::data(&view.text(&args.columns))?;
    }
    damaged.map_or(Ok(Exit::Success), Err)
}

fn choice(args: &HistoryArgs, now: Timestamp) -> AttemptChoice {
    let shown = |column| args.columns.contains(&column);
    let sums = args.summary || args.html.is_some();
    AttemptChoice {
        from: args.since.map(|since| since.before(now)),
        states: args.state.clone(),
        causes: args.cause.clone(),
        dataset: args.dataset.clone(),
        user: args.user.clone(),
        labels: args.json && !sums || shown(Column::Dataset) || shown(Column::Preset),
        users: args.json || sums || shown(Column::User),
    }
}

/// Sums, as text, as JSON, or as a page.
fn summed(args: &HistoryArgs, summary: &HistorySummary) -> Result<Exit, CommandFailure> {
    if let Some(path) = &args.html {
        return put(path, &summary_page(summary)?);
    }
    match args.json {
        true => print::json(summary)?,
        false => print::data(&summary.text())?,
    }
    Ok(Exit::Success)
}

/// Replaces a file as a whole, and names it; `-` is standard output.
fn put(path: &Path, text: &str) -> Result<Exit, CommandFailure> {
    if path.as_os_str() == "-" {
        print::data(text)?;
        return Ok(Exit::Success);
    }
    let is_file = write_to(path, text.as_bytes(), Access::Shared)
        .map_err(|e| CommandFailure::from(e).with_exit(Exit::Refused))?;
    if is_file {
        print::data(&path.display().to_string())?;
    }
    Ok(Exit::Success)
}
