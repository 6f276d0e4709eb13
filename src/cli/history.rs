//! `oomctl history`: runs that were, in a table that can be filtered.

mod wanted;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use jiff::Timestamp;
use serde::Serialize;

use super::print::row::{Column, Row, parsable, table};
use super::print::run_view::summary;
use super::print::{self, Failure};
use super::{load, overview, runs, status};
use crate::io::projects;
use wanted::Wanted;

/// Arguments of `history`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folders: every project in or below them; by default the project here
    #[arg(value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    #[command(flatten)]
    wanted: Wanted,
    /// What to show, in this order
    #[arg(long, value_enum, value_name = "COLUMN", value_delimiter = ',')]
    columns: Vec<Column>,
    /// For programs: fields between `|`, times in UTC, durations in seconds
    #[arg(long, conflicts_with = "json")]
    parsable: bool,
    /// Print one JSON document
    #[arg(long, conflicts_with = "columns")]
    json: bool,
}

#[derive(Serialize)]
struct Document {
    schema_version: u32,
    projects: Vec<Project>,
}

#[derive(Serialize)]
struct Project {
    folder: PathBuf,
    runs: Vec<Row>,
}

/// Runs `oomctl history`.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let now = Timestamp::now();
    let mut damaged = None;
    let mut projects = Vec::new();
    for folder in folders(&args.folders)? {
        let (mut runs, failure) = rows(&folder, now)?;
        runs.retain(|row| args.wanted.has(row, now));
        damaged = failure.or(damaged);
        projects.push(Project { folder, runs });
    }
    if args.json {
        print::json(&Document {
            schema_version: 1,
            projects,
        })?;
    } else {
        show(args, &projects)?;
    }
    damaged.map_or(Ok(ExitCode::SUCCESS), Err)
}

/// The folders of projects.
fn folders(wanted: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    if wanted.is_empty() {
        return Ok(vec![load::project(None)?.folder]);
    }
    let mut found = Vec::new();
    for folder in wanted {
        let below = projects::below(folder).map_err(|e| Failure::new(2, e.to_string()))?;
        if below.is_empty() {
            let what = format!("no runs in {} or below it", folder.display());
            return Err(Failure::new(2, what).hint("a project has its runs in .oomctl/runs"));
        }
        found.extend(below);
    }
    found.dedup();
    Ok(found)
}

fn rows(project: &Path, now: Timestamp) -> Result<(Vec<Row>, Option<Failure>), Failure> {
    let names = runs::names(project);
    let mut found = overview::of(project, &names, now);
    status::ask(project, &mut found.open, now)?;
    let damaged = found.damaged.pop().map(|(_, failure)| failure);
    Ok((found.rows(&names, now), damaged))
}

fn show(args: &Args, projects: &[Project]) -> Result<(), Failure> {
    let columns = match args.columns.is_empty() {
        true => &Column::USUAL[..],
        false => &args.columns,
    };
    if args.parsable {
        let all = projects.iter();
        let all = all.flat_map(|p| p.runs.iter().map(|row| (p.folder.as_path(), row)));
        return print::data(&parsable(all, columns));
    }
    for project in projects {
        if projects.len() > 1 {
            print::data(&project.folder.display().to_string())?;
        }
        print::data(&table(&project.runs, columns))?;
        let states = project.runs.iter().map(|row| row.state.as_str());
        print::data(&summary(states))?;
    }
    Ok(())
}
