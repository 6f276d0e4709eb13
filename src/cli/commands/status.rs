//! `oomctl status`: every run and attempt.

use jiff::Timestamp;

use crate::cli::logs::unwatched;
use crate::cli::overviews::everybody::{everybody, owned};
use crate::cli::runs::{Stored, present::ask_host_use};
use crate::cli::session::Session;
use crate::core::exit::Exit;
use crate::view::row::{RunField, list, totals};
use crate::view::run_view::{RunView, document, run_view};
use crate::view::{CommandFailure, print};

const NO_RUNS: &str = "no runs here; `oomctl submit -w SCRIPT` starts one";

/// Arguments of `status`.
#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    /// Runs, by name or job id, or the runs of a sweep [default: a line for each run, and the newest in full]
    #[arg(value_name = "JOBID|RUN|SWEEP")]
    runs: Vec<String>,
    /// Runs of everybody, in this project and those below its folder, as far as you may read them
    #[arg(long, conflicts_with_all = ["runs", "config"])]
    all: bool,
    /// The same, of one user
    #[arg(long, value_name = "USER", conflicts_with_all = ["runs", "config"])]
    user: Option<String>,
    /// Project file [default: oomctl.yaml here or above]
    #[arg(short, long, value_name = "FILE")]
    config: Option<std::path::PathBuf>,
    /// One line a run with these fields, in this order
    #[arg(
        short = 'o',
        long,
        value_enum,
        value_name = "FIELD,...",
        value_delimiter = ',',
        conflicts_with = "json"
    )]
    format: Vec<RunField>,
    /// Leave out the line with the names of the fields
    #[arg(long)]
    noheader: bool,
    /// Print one JSON document
    #[arg(short, long)]
    json: bool,
}

/// Runs `oomctl status`: what the ledgers say, and for jobs that are not over what the scheduler says
/// now, in one question a backend. No ledger is written.
pub fn run(args: &StatusArgs) -> Result<Exit, CommandFailure> {
    let session = Session::of_runs(args.config.as_deref())?;
    if args.all || args.user.is_some() {
        return of_everybody(&session, args);
    }
    let (runs, now) = (&session.runs, session.now);
    let names = match args.runs.is_empty() {
        true => runs.names()?,
        false => runs.expand(&args.runs)?.0,
    };
    let at_a_glance = args.runs.is_empty() || names.len() > args.runs.len();
    if (at_a_glance || !args.format.is_empty()) && !args.json {
        return glance(&session, &names, args);
    }
    let (mut stored, mut damaged) = (Vec::new(), None);
    for name in &names {
        match runs.find(name) {
            Ok(run) => stored.push(run),
            Err(failure) if args.runs.is_empty() => damaged = Some(failure),
            Err(failure) => return Err(failure),
        }
    }
    unwatched::read(runs, &mut stored, now)?;
    ask_host_use(runs, &mut stored);
    let views: Vec<RunView> = stored.iter().map(|s| shown(s, now)).collect();
    if args.json {
        print::json(&document(&views, None))?;
    } else {
        for view in &views {
            print::prose(&view.text())?;
        }
    }
    damaged.map_or(Ok(Exit::Success), Err)
}

/// A run, with both limits where its job waits for ever because of its own.
fn shown(stored: &Stored, now: Timestamp) -> RunView {
    let mut view = run_view(&stored.history, now);
    if stored.history.outcome.is_none() && view.hint.is_some() {
        let request = stored.request().ok();
        view.remarks
            .extend(request.and_then(|r| r.beyond_time_limit()));
    }
    view
}

/// A line for each run that may be read, whosever it is.
fn of_everybody(session: &Session, args: &StatusArgs) -> Result<Exit, CommandFailure> {
    let view = everybody(&session.folder, args.user.as_deref(), session.now)?;
    match (args.json, args.format.as_slice()) {
        (true, _) => print::json(&view)?,
        (_, []) => print::prose(&view.text(!args.noheader))?,
        (_, fields) => print::data(&view.list(fields, !args.noheader))?,
    }
    Ok(Exit::Success)
}

/// A line a run, and the newest in full where neither runs nor fields were named.
fn glance(session: &Session, names: &[String], args: &StatusArgs) -> Result<Exit, CommandFailure> {
    let newest = args.runs.is_empty() && args.format.is_empty();
    let (runs, now) = (&session.runs, session.now);
    let mut found = runs.overview(names, now);
    unwatched::read(runs, &mut found.open, now)?;
    let damaged = found.damaged.pop();
    let last = found.newest().filter(|_| newest);
    let open = found
        .open
        .iter()
        .find(|run| Some(&run.history.run) == last.as_ref());
    let open = open.map(|run| shown(run, now).text());
    let in_full = match (open, last) {
        (None, Some(over)) => {
            let mut newest = [runs.open(&over)?];
            ask_host_use(runs, &mut newest);
            Some(run_view(&newest[0].history, now).text())
        }
        (open, _) => open,
    };
    let mut rows = found.rows(names, now);
    if !args.format.is_empty() {
        owned(runs, &mut rows);
    }
    let fields = match args.format.is_empty() {
        true => &RunField::USUAL[..],
        false => &args.format,
    };
    match (names.is_empty(), &args.format[..]) {
        (true, []) => print::data(NO_RUNS)?,
        _ if rows.is_empty() && !names.is_empty() => {}
        (_, []) => print::prose(&list(&rows, fields, !args.noheader))?,
        _ => print::data(&list(&rows, fields, !args.noheader))?,
    }
    if !args.runs.is_empty() && args.format.is_empty() {
        print::data(&totals(&rows))?;
    }
    if let Some(text) = in_full {
        print::prose(&format!("\n{text}"))?;
    }
    damaged.map_or(Ok(Exit::Success), |(_, failure)| Err(failure))
}
