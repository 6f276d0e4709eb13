//! The runs of a project: finding one by name or job id, reading it back.

pub mod asked;
pub mod ended;
mod newest;
pub mod overview;
pub mod present;
pub mod projects;
pub mod sharing;
pub mod sweeps;

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::core::engine::History;
use crate::core::request::{Inputs, Request, Stacks};
use crate::drive::launch::Foreground;
use crate::drive::{RunFolder, Supervisor, history, monotonic_clock};
use crate::io::disk::make_dir;
use crate::io::files::{io_error, make_private_dir};
use crate::io::scheduler::Scheduler;
use crate::io::scheduler::flux::Flux;
use crate::io::scheduler::local::Local;
use crate::io::scheduler::pbs::Pbs;
use crate::io::scheduler::slurm::{self, ClusterPartition, RestPlace, Slurm};
use crate::view::{CommandFailure, print};
use oomctl_base::job::JobRef;
use oomctl_base::meant;

/// Numbers tried for the name of a new run.
const MOST_RUNS: u32 = 100_000;

/// The backends that a run's record may name. Its jobs are never asked for anywhere else.
const BACKENDS: [&str; 5] = ["slurm", "flux", "pbs", "local", PROGRAM];
/// The one of `oomctl run`.
pub const PROGRAM: &str = "program";

/// The runs of a project, each a folder.
#[derive(Debug, Clone)]
pub struct Runs {
    project: PathBuf,
    /// Where slurmrestd is, where it is to be asked in place of Slurm's commands.
    rest: Option<RestPlace>,
    partitions: OnceLock<Result<Vec<ClusterPartition>, String>>,
}

/// A run on disk.
#[derive(Clone)]
pub struct Stored {
    /// Its folder.
    pub folder: RunFolder,
    /// What its facts add up to.
    pub history: History,
}

/// Whether commands of Slurm failed for another reason than that this machine belongs to no cluster.
fn is_of_a_cluster(why: &str) -> bool {
    !why.contains("configuration source")
}

impl Runs {
    /// Those of the project in a folder.
    pub fn of(project: &Path) -> Self {
        Self {
            project: project.to_owned(),
            rest: None,
            partitions: OnceLock::new(),
        }
    }

    /// The same, whose jobs go through slurmrestd where there is one.
    pub fn through(self, rest: Option<RestPlace>) -> Self {
        Self { rest, ..self }
    }

    /// Is there a way to Slurm: its commands, or slurmrestd?
    pub fn reach_slurm(&self) -> bool {
        self.rest.is_some() || slurm::available()
    }

    /// What Slurm says of its partitions, asked once; nothing where it does not answer.
    pub fn partitions(&self) -> &[ClusterPartition] {
        let ask = || {
            let answer = match slurm::available() {
                true => Slurm::new().partitions(),
                false => Ok(Vec::new()),
            };
            if let Some(why) = answer.as_ref().err().filter(|why| is_of_a_cluster(why)) {
                print::warn(&format!("{why}. What the nodes have is unknown"));
            }
            answer
        };
        let answer = self.partitions.get_or_init(ask);
        answer.as_deref().unwrap_or_default()
    }

    /// Slurm was asked for its partitions and did not answer: it will not answer the next question either.
    pub fn is_slurm_silent(&self) -> bool {
        let answer = self
            .partitions
            .get()
            .and_then(|answer| answer.as_ref().err());
        answer.is_some_and(|why| is_of_a_cluster(why))
    }

    /// Where slurmrestd is, where it is asked.
    pub fn rest(&self) -> Option<&RestPlace> {
        self.rest.as_ref()
    }

    fn slurm(&self) -> Slurm {
        Slurm::new().through(self.rest.clone())
    }

    /// The project's folder.
    pub fn project(&self) -> &Path {
        &self.project
    }

    /// `<project>/.oomctl/runs`.
    pub fn dir(&self) -> PathBuf {
        self.project.join(".oomctl/runs")
    }

    /// The folder of a run of this name.
    pub fn folder(&self, name: &str) -> Result<RunFolder, CommandFailure> {
        Ok(RunFolder::of(&self.dir(), name)?)
    }

    /// Their names, sorted; also of those that may not be read.
    pub fn names(&self) -> Result<Vec<String>, CommandFailure> {
        let dir = self.dir();
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

    /// Is there a run of this name? Who may not list the runs plans without them.
    pub fn has(&self, name: &str) -> bool {
        self.folder(name).is_ok_and(|f| f.inputs().is_file())
    }

    /// A name for a new run: `<stem>-<n>` with the first number that is free.
    pub fn new_name(&self, stem: &str) -> Result<String, CommandFailure> {
        free_name(stem, |name| self.is_taken(name))
    }

    /// A name for a new run with a folder that no other process gets.
    pub fn new_folder(&self, stem: &str) -> Result<String, CommandFailure> {
        make_private_dir(&self.dir())?;
        let is_taken = |name: &str| {
            let made = make_dir(&self.dir().join(name));
            made.is_err_and(|e| e.kind() == ErrorKind::AlreadyExists)
        };
        free_name(stem, is_taken)
    }

    /// The run that is meant by its name, or by the id of one of its jobs.
    pub fn find(&self, wanted: &str) -> Result<Stored, CommandFailure> {
        // As Flux prints the ids of its jobs where the locale has this letter.
        let wanted = wanted.replacen('ƒ', "f", 1);
        let wanted = wanted.as_str();
        // Looked for by its name before the others are listed: there may be thousands, and thousands to be found.
        if self.has(wanted) {
            return self.open(wanted);
        }
        let known = self.names()?;
        let mut latest: Option<Stored> = None;
        for name in &known {
            let stored = self.open(name)?;
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
        latest.ok_or_else(|| self.unknown(wanted, &known))
    }

    fn unknown(&self, wanted: &str, known: &[String]) -> CommandFailure {
        if is_spelled_as_job(wanted) && !is_job_id(wanted) {
            let failure = CommandFailure::usage(format!("no job {wanted}: the first has the id 1"));
            return failure
                .hint("is a variable in the command empty? `oomctl status` lists the runs");
        }
        let what = format!("no run or job named {wanted:?} in {}", self.dir().display());
        let failure = CommandFailure::usage(what);
        match meant(wanted, known.iter().map(String::as_str)) {
            Some(question) => failure.hint(question),
            None if is_number(wanted) && !slurm::available() => failure.hint(
                "Slurm's commands are not on PATH here, so oomctl cannot ask Slurm for a job; `oomctl diagnose LOG` reads a log",
            ),
            None if let Some(folder) = self.elsewhere(wanted) => failure.hint(format!(
                "it is a job of a run in {0}: `cd {0}`, then `oomctl status {wanted}`",
                folder.display()
            )),
            None if is_number(wanted) => failure.hint(format!(
                "`oomctl watch {wanted}` takes over a job of Slurm; `oomctl diagnose {wanted}` only reads its logs"
            )),
            None if known.is_empty() => {
                failure.hint("`oomctl submit` starts a run; a log file needs its path")
            }
            None => failure.hint("`oomctl status` lists the runs"),
        }
    }

    /// The project of another folder of which Slurm has this job.
    fn elsewhere(&self, id: &str) -> Option<PathBuf> {
        let job = is_number(id).then(|| JobRef::foreign(id, jiff::Timestamp::now()))?;
        self.slurm().foreign(&job).ok()??.project()
    }

    /// Reads a run. Root may read those of others.
    pub fn open(&self, name: &str) -> Result<Stored, CommandFailure> {
        let folder = self.folder(name)?;
        folder.check_read()?;
        let history = history(folder.dir())?;
        Ok(Stored { folder, history })
    }

    /// The same to ask about jobs of other users.
    pub fn scheduler_of_others(&self, backend: &str) -> Box<dyn Scheduler> {
        match backend {
            "slurm" => Box::new(self.slurm().of_others()),
            other => self.scheduler(other),
        }
    }

    /// The scheduler of a backend.
    pub fn scheduler(&self, backend: &str) -> Box<dyn Scheduler> {
        match backend {
            "flux" => Box::new(Flux::new(&self.project)),
            "pbs" => Box::new(Pbs::new(&self.project)),
            "local" => Box::new(Local::new(&self.project)),
            PROGRAM => Box::new(Foreground::absent()),
            _ => Box::new(self.slurm().sharing_answers()),
        }
    }

    /// A supervisor on a backend, with the system's clock.
    pub fn supervisor(&self, backend: &str) -> Supervisor {
        // Processes of one user differ in their ids, those of hosts in when they began.
        let began = u64::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap_or(0);
        let seed = began ^ u64::from(std::process::id()).rotate_left(32);
        Supervisor::new(self.scheduler(backend), monotonic_clock()).paced(seed)
    }
}

impl Stored {
    /// Who owns its folder; none where that cannot be seen.
    pub fn owner(&self) -> Option<u32> {
        owner(self.folder.dir())
    }

    /// Is it the run of whoever runs this program?
    pub fn is_ours(&self) -> bool {
        self.owner() == Some(rustix::process::geteuid().as_raw())
    }

    /// What the run was asked to do, its scripts read for the version of their framework that its logs showed.
    pub fn request(&self) -> Result<Request, CommandFailure> {
        let asked = self.sharing(&mut Stacks::new())?;
        let shown = self.history.version.as_ref();
        let shown = shown.and_then(|found| asked.for_version(found));
        Ok(shown.unwrap_or(asked))
    }

    /// What it was asked to do, of one of many runs, as it was submitted.
    pub fn sharing(&self, stacks: &mut Stacks) -> Result<Request, CommandFailure> {
        let text = self.folder.read_inputs()?;
        let path = self.folder.inputs();
        let inputs: Inputs = serde_json::from_str(&text)
            .map_err(|e| CommandFailure::ledger(format!("{}: {e}", path.display())))?;
        if !BACKENDS.contains(&inputs.backend.as_str()) {
            let what = format!("{}: unknown backend {:?}", path.display(), inputs.backend);
            let hint = "a newer oomctl may have begun this run: use that one";
            return Err(CommandFailure::ledger(what).hint(hint));
        }
        Ok(stacks.request(inputs)?)
    }
}

/// Who owns a file or a folder; none where that cannot be seen.
pub fn owner(path: &Path) -> Option<u32> {
    Some(path.symlink_metadata().ok()?.uid())
}

/// `<stem>-<n>` with the first number that is not taken.
pub fn free_name(stem: &str, is_taken: impl Fn(&str) -> bool) -> Result<String, CommandFailure> {
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
        .ok_or_else(|| {
            CommandFailure::configuration("too many runs with this name; choose one with --run")
        })
}

/// Whether this can be the id of a job: `4711`, `4711_3`, `4711+1`.
pub fn is_job_id(text: &str) -> bool {
    let number = text.trim_start_matches('0');
    is_spelled_as_job(text) && number.starts_with(|c: char| c.is_ascii_digit())
}

fn is_spelled_as_job(text: &str) -> bool {
    let is_of_id = |c: char| c.is_ascii_digit() || matches!(c, '_' | '+');
    text.starts_with(|c: char| c.is_ascii_digit()) && text.chars().all(is_of_id)
}

/// Whether it can only be the id of a job.
fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::is_job_id;

    #[test]
    fn a_job_id_is_a_number_from_1_on_and_an_index() {
        for id in ["4711", "4711_3", "4711+1", "10"] {
            assert!(is_job_id(id), "{id}");
        }
        for other in ["grpo-1", "_3", "4711.out", "", "0", "00", "0_1"] {
            assert!(!is_job_id(other), "{other}");
        }
    }
}
