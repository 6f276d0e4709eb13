//! The runs of a project: finding one by name or job id, reading it back.

pub mod asked;
pub mod ended;
pub mod gathered;
pub mod new_run;
pub mod overview;
pub mod projects;
pub mod sweeps;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::core::recipe::meant;
use crate::core::supervise::{History, Inputs, Request, Stacks};
use crate::drive::{RunFolder, Supervisor, history, monotonic_clock};
use crate::io::files::io_error;
use crate::io::scheduler::Scheduler;
use crate::io::scheduler::local::Local;
use crate::io::scheduler::slurm::Slurm;
use crate::view::Failure;

/// Numbers tried for the name of a new run.
const MOST_RUNS: u32 = 100_000;

/// A run on disk.
pub struct Stored {
    /// Its folder.
    pub folder: RunFolder,
    /// What its facts add up to.
    pub history: History,
}

/// `<project>/.oomctl/runs`.
pub fn runs_dir(project: &Path) -> PathBuf {
    project.join(".oomctl/runs")
}

/// Names of the runs of a project, sorted; also of those that may not be read.
pub fn names(project: &Path) -> Result<Vec<String>, Failure> {
    let dir = runs_dir(project);
    let entries = match std::fs::read_dir(&dir) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(io_error("read", &dir))?,
    };
    let mut names: Vec<String> = entries
        .flatten()
        .filter(|e| match e.path().join("inputs.json").metadata() {
            Ok(inputs) => inputs.is_file(),
            Err(e) => e.kind() == ErrorKind::PermissionDenied,
        })
        .filter_map(|e| e.file_name().into_string().ok())
        .collect();
    names.sort();
    Ok(names)
}

/// A name for a new run: `<stem>-<n>` with the first number that is free.
pub fn new_name(project: &Path, stem: &str) -> Result<String, Failure> {
    free_name(stem, |name| runs_dir(project).join(name).exists())
}

/// `<stem>-<n>` with the first number that is not taken.
pub fn free_name(stem: &str, is_taken: impl Fn(&str) -> bool) -> Result<String, Failure> {
    let clean = |c: char| {
        if c.is_ascii_alphanumeric() || "._-".contains(c) {
            c
        } else {
            '-'
        }
    };
    let stem: String = stem.chars().map(clean).take(48).collect();
    (1..MOST_RUNS)
        .map(|n| format!("{stem}-{n}"))
        .find(|name| !is_taken(name))
        .ok_or_else(|| Failure::configuration("too many runs of one name; give one with --run"))
}

/// The run that is meant by its name, or by the id of one of its jobs.
pub fn find(project: &Path, wanted: &str) -> Result<Stored, Failure> {
    // Looked for by its name before the others are listed: there may be thousands, and thousands to be found.
    if RunFolder::of(&runs_dir(project), wanted).is_ok_and(|folder| folder.inputs().is_file()) {
        return open(project, wanted);
    }
    let known = names(project)?;
    let mut latest: Option<Stored> = None;
    for name in &known {
        let stored = open(project, name)?;
        let has_it = |h: &History| {
            h.attempts
                .iter()
                .any(|a| a.job.as_ref().is_some_and(|j| j.id.0 == wanted))
        };
        let newer = latest
            .as_ref()
            .is_none_or(|l| l.history.created <= stored.history.created);
        if has_it(&stored.history) && newer {
            latest = Some(stored);
        }
    }
    latest.ok_or_else(|| unknown(project, wanted, &known))
}

fn unknown(project: &Path, wanted: &str, known: &[String]) -> Failure {
    let what = format!(
        "no run and no job of a run in {} is called {wanted:?}",
        runs_dir(project).display()
    );
    let failure = Failure::usage(what);
    match meant(wanted, known.iter().map(String::as_str)) {
        Some(question) => failure.hint(question),
        None if known.is_empty() => failure.hint("`oomctl submit` starts a run"),
        None => failure.hint("`oomctl status` lists the runs"),
    }
}

/// Reads a run. Root may read those of others.
pub fn open(project: &Path, name: &str) -> Result<Stored, Failure> {
    let folder = RunFolder::of(&runs_dir(project), name)?;
    folder.check_read()?;
    let history = history(folder.dir())?;
    Ok(Stored { folder, history })
}

/// What a run was asked to do.
pub fn request(folder: &RunFolder) -> Result<Request, Failure> {
    sharing(folder, &mut Stacks::new())
}

/// The same, of one of many runs.
pub fn sharing(folder: &RunFolder, stacks: &mut Stacks) -> Result<Request, Failure> {
    let text = folder.read_inputs()?;
    let path = folder.inputs();
    let inputs: Inputs = serde_json::from_str(&text)
        .map_err(|e| Failure::ledger(format!("{}: {e}", path.display())))?;
    Ok(stacks.request(inputs)?)
}

/// The scheduler of a backend.
pub fn scheduler(backend: &str, project: &Path) -> Box<dyn Scheduler> {
    match backend {
        "local" => Box::new(Local::new(project)),
        _ => Box::new(Slurm::new().sharing_answers()),
    }
}

/// A supervisor on a backend, with the system's clock.
pub fn supervisor(backend: &str, project: &Path) -> Supervisor {
    // Processes of one user differ in their ids, those of hosts in when they began.
    let began = u64::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap_or(0);
    let seed = began ^ u64::from(std::process::id()).rotate_left(32);
    Supervisor::new(scheduler(backend, project), monotonic_clock()).paced(seed)
}
