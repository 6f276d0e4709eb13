//! Measurements that were made: one file each in `.oomctl/measured`, by a hash of all that decides them.

use std::fs;
use std::path::{Path, PathBuf};

use super::job::JobMeasure;
use crate::cli::session::Session;
use crate::core::measure::PhantomSummary;
use crate::drive::sha256;
use crate::io::files::{Access, make_private_dir, read_text, write_atomic};
use crate::io::installed::PythonEnvironment;
use crate::io::phantom::{PhantomProgram, PhantomRun, program};
use crate::view::CommandFailure;

/// Files of the program that are hashed at most.
const MOST_FILES: usize = 512;
/// Largest file that is hashed or read, in bytes.
const MOST_BYTES: u64 = 4 << 20;

/// Where a measurement is kept: named by the program's words, variables and texts, its packages, the card, and our version.
pub fn place(session: &Session, asked: &PhantomRun) -> PathBuf {
    let PhantomProgram {
        command,
        variables,
        folder,
        files,
        ..
    } = &asked.program;
    let PhantomRun {
        phantom,
        steps,
        world,
        ranks,
        ..
    } = asked;
    let mut text = format!(
        "{} {command:?} {variables:?} {folder:?} {files:?} {phantom:?} {steps} {world} {ranks}\n",
        env!("CARGO_PKG_VERSION")
    );
    for path in texts(asked) {
        let small = fs::metadata(&path).is_ok_and(|about| about.len() <= MOST_BYTES);
        let content = small.then(|| fs::read(&path).ok()).flatten();
        let hash = content.map(|bytes| sha256(&bytes)).unwrap_or_default();
        text.push_str(&format!("{} {hash}\n", path.display()));
    }
    let environment = program(asked).ok();
    let environment = environment
        .as_deref()
        .and_then(Path::parent)
        .and_then(Path::parent);
    let environment = environment.map(|folder| PythonEnvironment::read(folder.to_owned()));
    for (folder, mut names) in environment.map(|e| e.packages).unwrap_or_default() {
        names.retain(|name| name.ends_with(".dist-info"));
        names.sort();
        text.push_str(&format!("{} {names:?}\n", folder.display()));
    }
    let name = format!("{}.json", sha256(text.as_bytes()));
    kept_in(session).join(name)
}

/// Where measurements of a project are kept.
pub fn kept_in(session: &Session) -> PathBuf {
    session.folder.join(".oomctl/measured")
}

/// The Python files beside the program and in its folder, and the files that its words name, or that lie in a folder which they name.
fn texts(asked: &PhantomRun) -> Vec<PathBuf> {
    let words = asked
        .program
        .command
        .iter()
        .skip(1)
        .flat_map(|word| word.split('='));
    let named: Vec<PathBuf> = words.map(|word| asked.program.folder.join(word)).collect();
    let beside = named
        .iter()
        .filter_map(|path| path.parent())
        .map(Path::to_owned);
    let mut folders: Vec<PathBuf> = vec![asked.program.folder.clone()];
    folders.extend(beside.filter(|folder| folder.is_dir()));
    folders.sort();
    folders.dedup();
    let python = |path: &PathBuf| path.extension().is_some_and(|e| e == "py");
    let settings = |path: &PathBuf| path.extension().is_some_and(|e| e == "json");
    let mut all: Vec<PathBuf> = folders
        .iter()
        .flat_map(|f| inside(f))
        .filter(python)
        .collect();
    all.extend(
        named
            .iter()
            .filter(|path| path.is_dir())
            .flat_map(|f| inside(f))
            .filter(settings),
    );
    all.extend(named.iter().filter(|path| path.is_file()).cloned());
    all.sort();
    all.dedup();
    all.truncate(MOST_FILES);
    all
}

fn inside(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().take(MOST_FILES);
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect()
}

/// What was measured before.
pub fn kept(place: &Path) -> Option<PhantomSummary> {
    serde_json::from_str(&read_text(place, MOST_BYTES).ok()?).ok()
}

/// Keeps what `measure` found of a job, for `plan` and `estimate`; of a command nothing is kept.
pub fn keep_of_job(
    session: &Session,
    (job, asked): (&JobMeasure, &PhantomRun),
    summary: &PhantomSummary,
) -> Result<(), CommandFailure> {
    match job.request {
        Some(_) => keep(&place(session, asked), summary),
        None => Ok(()),
    }
}

/// Keeps a measurement that found out whether the job fits.
pub fn keep(place: &Path, summary: &PhantomSummary) -> Result<(), CommandFailure> {
    if summary.fits.is_none() {
        return Ok(());
    }
    if let Some(folder) = place.parent() {
        make_private_dir(folder)?;
    }
    let text =
        serde_json::to_string(summary).map_err(|e| CommandFailure::refused(e.to_string()))?;
    Ok(write_atomic(place, text.as_bytes(), Access::Private)?)
}
