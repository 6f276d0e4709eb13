//! `oomctl report`: runs as a page to look at, as Markdown, or as text for a mail.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use jiff::Timestamp;

use super::load;
use super::print::report::{Format, Told, render, report};
use super::print::{self, Failure};
use super::runs::{self, Stored};
use super::sweeps;
use crate::core::report::{Track, Tracks};
use crate::core::supervise::Request;
use crate::io::files::{Access, write_atomic};
use crate::io::sampler::samples;

/// Arguments of `report`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Runs, by name, by the id of one of their jobs, or all of a sweep by its name; all by default
    #[arg(value_name = "JOBID|RUN|SWEEP")]
    runs: Vec<String>,
    /// What to write; by default what the name of the file says, else html
    #[arg(long, value_enum, value_name = "FORMAT", conflicts_with = "json")]
    format: Option<Format>,
    /// Where to write it, `-` for standard output; by default a page lies with its run, and all else goes to
    /// standard output
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    to: Option<PathBuf>,
    /// Project file; by default the nearest oomctl.yaml, walking up from here
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Runs `oomctl report`. Of runs that are not over it tells what has happened so far.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let project = load::project(args.config.as_deref())?.folder;
    let stored = stored(&project, &args.runs)?;
    let readers: Vec<_> = stored
        .iter()
        .map(|run| (request(run), tracks(run)))
        .collect();
    let told = stored.iter().zip(&readers);
    let told: Vec<Told<'_>> = told
        .map(|(run, (request, tracks))| Told {
            history: &run.history,
            request,
            tracks,
        })
        .collect();
    let title = title(args, &stored, &project);
    let report = report(&title, &told, Timestamp::now());
    if args.json {
        print::json(&report)?;
        return Ok(ExitCode::SUCCESS);
    }
    let format = args.format.unwrap_or_else(|| implied(args.to.as_deref()));
    let text = render(&report, format)?;
    match place(args, format, &stored, &project) {
        None => print::data(&text)?,
        Some(path) => {
            write_atomic(&path, text.as_bytes(), Access::Shared)
                .map_err(|e| Failure::new(4, e.to_string()))?;
            print::data(&path.display().to_string())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn stored(project: &Path, wanted: &[String]) -> Result<Vec<Stored>, Failure> {
    if wanted.is_empty() {
        let all = runs::names(project);
        let open = |name: &String| {
            let run = runs::open(project, name);
            run.map_err(|_| {
                print::talk(&format!(
                    "{name} cannot be read and is left out; `oomctl status {name}` says why"
                ))
            })
            .ok()
        };
        let all: Vec<Stored> = all.iter().filter_map(open).collect();
        return match all.is_empty() {
            true => {
                Err(Failure::new(2, "there are no runs here").hint("`oomctl submit` starts one"))
            }
            false => Ok(all),
        };
    }
    let (names, _) = sweeps::expand(project, wanted)?;
    names.iter().map(|name| runs::find(project, name)).collect()
}

/// What a run was asked to do.
fn request(run: &Stored) -> impl Fn() -> Option<Request> + use<> {
    let folder = run.folder.clone();
    move || runs::request(&folder).ok()
}

/// What the samplers of an attempt saw.
fn tracks(run: &Stored) -> impl Fn(u32) -> Vec<Track> + use<> {
    let folder = run.folder.clone();
    move |attempt| {
        let mut tracks = Tracks::default();
        samples(&folder.attempt(attempt), |node, sample| {
            tracks.take(node, sample)
        });
        tracks.sorted()
    }
}

fn title(args: &Args, stored: &[Stored], project: &Path) -> String {
    match (args.runs.as_slice(), stored) {
        (_, [one]) => one.history.run.clone(),
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

fn implied(to: Option<&Path>) -> Format {
    match to.and_then(|p| p.extension()).and_then(|e| e.to_str()) {
        Some("md") => Format::Markdown,
        Some("txt") => Format::Text,
        _ => Format::Html,
    }
}

/// The file to write; `None` for standard output.
fn place(args: &Args, format: Format, stored: &[Stored], project: &Path) -> Option<PathBuf> {
    match &args.to {
        Some(path) if path.as_os_str() == "-" => None,
        Some(path) => Some(path.clone()),
        None if format != Format::Html => None,
        None => Some(match stored {
            [one] => one.folder.dir().join("report.html"),
            _ => project.join(".oomctl").join("report.html"),
        }),
    }
}
