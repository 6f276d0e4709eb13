//! `oomctl report`: runs as a page to look at, as a picture, as Markdown, or as text for a mail.

use std::path::{Path, PathBuf};

use crate::cli::overviews::gathered::{gathered, rows};
use crate::cli::runs::Runs;
use crate::cli::session::Session;
use crate::core::exit::Exit;
use crate::io::files::{Access, FileError, is_full, write_to};
use crate::view::report::{ReportFormat, render};
use crate::view::row::RunRow;
use crate::view::{CommandFailure, print};

/// Arguments of `report`.
#[derive(Debug, clap::Args)]
pub struct ReportArgs {
    /// Runs, by name or job id, or the runs of a sweep [default: the newest run]
    #[arg(value_name = "JOBID|RUN|SWEEP")]
    runs: Vec<String>,
    /// All runs of the project
    #[arg(long, conflicts_with = "runs")]
    all: bool,
    /// What to write [default: by the file's ending, else html]
    #[arg(long, value_enum, value_name = "FORMAT", conflicts_with = "json")]
    format: Option<ReportFormat>,
    /// File to write, `-` for standard output [default: a page beside its run; other formats to standard output]
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    to: Option<PathBuf>,
    /// Project file [default: oomctl.yaml here or above]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print one JSON document
    #[arg(short, long)]
    json: bool,
}

/// Runs `oomctl report`. Of runs that are not over it tells what has happened so far.
pub fn run(args: &ReportArgs) -> Result<Exit, CommandFailure> {
    let session = Session::of_runs(args.config.as_deref())?;
    let (runs, now) = (&session.runs, session.now);
    let names = names(runs, args)?;
    let (rows, open) = rows(runs, &names, now)?;
    if let ([], Some(unread)) = (rows.as_slice(), names.first()) {
        runs.open(unread)?;
    }
    let title = title(args, &rows, runs.project());
    let report = gathered(runs, &title, (&rows, open), now)?;
    if args.json {
        print::json(&report)?;
        return Ok(Exit::Success);
    }
    let format = args
        .format
        .map_or_else(|| implied(args.to.as_deref()), Ok)?;
    let text = render(&report, format)?;
    match place(args, format, &rows, runs) {
        None => print::data(&text)?,
        Some(path) => {
            let is_file = write_to(&path, text.as_bytes(), Access::Shared).map_err(|e| {
                // A full disk is full wherever the file lies on it.
                let full = matches!(&e, FileError::Io { source, .. } if is_full(source));
                let failure = CommandFailure::from(e).with_exit(Exit::Refused);
                match args.to {
                    Some(_) => failure,
                    None if full => failure,
                    None => failure.hint("`--to report.html` writes it here"),
                }
            })?;
            if is_file {
                print::data(&path.display().to_string())?;
            }
        }
    }
    Ok(Exit::Success)
}

/// The names of the runs.
fn names(runs: &Runs, args: &ReportArgs) -> Result<Vec<String>, CommandFailure> {
    if args.all {
        let all = runs.names()?;
        return match all.is_empty() {
            true => Err(CommandFailure::usage("there are no runs here")
                .hint("`oomctl submit -w SCRIPT` starts one")),
            false => Ok(all),
        };
    }
    let (names, sweeps) = runs.expand(&runs.or_newest(&args.runs)?)?;
    match sweeps.is_empty() {
        true => names
            .iter()
            .map(|name| Ok(runs.find(name)?.history.run))
            .collect(),
        false => Ok(names),
    }
}

fn title(args: &ReportArgs, rows: &[RunRow], project: &Path) -> String {
    match (args.runs.as_slice(), rows) {
        (_, [one]) => one.run.clone(),
        ([one], _) => one.clone(),
        _ => {
            let name = project
                .file_name()
                .map(|n| n.to_string_lossy().into_owned());
            format!(
                "Runs in {}",
                name.unwrap_or_else(|| "this project".to_owned())
            )
        }
    }
}

/// The format that the name of a file says.
fn implied(to: Option<&Path>) -> Result<ReportFormat, CommandFailure> {
    match to.and_then(|p| p.extension()).and_then(|e| e.to_str()) {
        Some("html" | "htm") | None => Ok(ReportFormat::Html),
        Some("svg") => Ok(ReportFormat::Svg),
        Some("md") => Ok(ReportFormat::Markdown),
        Some("txt") => Ok(ReportFormat::Text),
        Some(other) => Err(
            CommandFailure::usage(format!("cannot write a report as {other}")).hint(
                "use .html, .svg, .md or .txt, or --format; a browser can print the page as PDF",
            ),
        ),
    }
}

/// The file to write; `None` for standard output.
fn place(args: &ReportArgs, format: ReportFormat, rows: &[RunRow], runs: &Runs) -> Option<PathBuf> {
    match &args.to {
        Some(path) if path.as_os_str() == "-" => None,
        Some(path) => Some(path.clone()),
        None if format != ReportFormat::Html => None,
        None => Some(match rows {
            [one] => runs.dir().join(&one.run).join("report.html"),
            _ => runs.project().join(".oomctl").join("report.html"),
        }),
    }
}
