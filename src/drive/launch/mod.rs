//! A program on this machine, in the foreground: a GPU is found and claimed before it starts, and from there on its run is
//! like any other.
//!
//! Rule: nothing is decided here but which GPU is free, and nothing is printed: a `LaunchListener` is told.

mod foreground;
mod minder;
mod place;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::notice::{Notice, Observer};
use super::{Handle, Supervisor, Until, WakeSources, drive, monotonic_clock};
use crate::core::engine::{History, Outcome};
use crate::core::exit::Exit;
use crate::core::ladder::Step;
use crate::io::files::FileError;
use crate::io::program::{Ears, Outputs};
use oomctl_base::Refusal;
use oomctl_base::job::{ExitStatus, GpuUsed, JobRef, JobState};
use oomctl_base::units::Bytes;
use oomctl_diagnose::{Class, Incident};
use oomctl_gpu::nvml::GpuError;

pub use foreground::Foreground;
pub use place::{LaunchPlace, MachineGpus};

/// The longest wait for a program that runs on while nothing can be written down of it any more.
const LONG: Duration = Duration::from_secs(3_600);

/// A program cannot be run at all.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The configuration is not legal.
    #[error("{0}")]
    Refused(Refusal),
    /// NVML is there and refuses.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// Claims cannot be written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The program could not be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// The program.
        program: String,
        /// What the operating system said.
        source: std::io::Error,
    },
}

impl LaunchError {
    /// The exit code; of a program that cannot be started that of a shell.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Refused(_) => Exit::Configuration,
            Self::Gpu(_) | Self::File(_) => Exit::Failed,
            Self::Start { source, .. } => match source.kind() {
                std::io::ErrorKind::NotFound => Exit::NotFound,
                _ => Exit::NotExecutable,
            },
        }
    }
}

impl From<Refusal> for LaunchError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// How a program ended the last time that it was to run.
#[derive(Debug, Default)]
pub enum ProgramResult {
    /// It has not ended.
    #[default]
    Runs,
    /// It ended by itself, or because somebody ended it.
    Exited(ExitStatus),
    /// It could not be started.
    NotStarted(LaunchError),
    /// No GPU was to be had, and the CPU is not allowed.
    NoGpu {
        /// Why.
        why: String,
        /// The code for that.
        exit: Exit,
    },
    /// A signal came while a GPU was waited for.
    Signalled(i32),
    /// Somebody cancelled the run while a GPU was waited for.
    Cancelled,
}

impl ProgramResult {
    /// The exit code that a shell gives: the program's own, or 128 and the signal.
    pub fn exit(&self) -> Exit {
        let code = match self {
            Self::Runs => return Exit::Failed,
            Self::NoGpu { exit, .. } => return *exit,
            Self::NotStarted(error) => return error.exit(),
            Self::Cancelled => return Exit::Cancelled,
            Self::Signalled(signal) => 128 + signal,
            Self::Exited(exit) if exit.signal != 0 => 128 + exit.signal,
            Self::Exited(exit) => exit.code,
        };
        Exit::Program(u8::try_from(code & 0xff).unwrap_or(1))
    }
}

/// Something to tell besides what happens to the run.
#[derive(Debug)]
pub enum LaunchNews<'a> {
    /// A remark.
    Remark(&'a str),
    /// No GPU has enough memory available for now.
    Waiting {
        /// Bytes that are wanted.
        need: Bytes,
        /// Bytes that are available on the best.
        best: Bytes,
        /// How long it has been waited.
        waited: Duration,
        /// How long it will be.
        limit: Duration,
    },
    /// Where it starts after what earlier runs taught.
    Start(&'a str),
    /// No GPU was to be had.
    NoGpu {
        /// Why.
        why: &'a str,
    },
    /// Rungs are taken before the first attempt.
    Climbing(&'a [Step]),
    /// An attempt starts.
    Started {
        /// From 1.
        number: &'a str,
        /// The program and its arguments.
        command: &'a [String],
        /// Its GPU.
        gpu: Option<&'a GpuUsed>,
    },
    /// The memory of the dead program is waited for.
    Settling {
        /// Bytes in use that were not before the attempt.
        held: Bytes,
    },
}

/// Whoever listens.
pub trait LaunchListener: Observer + Send {
    /// Takes news.
    fn news(&mut self, news: &LaunchNews<'_>);
}

/// A listener that the loop and the program's start tell.
pub type SharedListener = Arc<Mutex<dyn LaunchListener>>;

/// What a program is run with.
pub struct Launch {
    /// Where its output goes besides the logs of the attempt, made anew for each attempt.
    pub outputs: Box<dyn Fn() -> Outputs + Send>,
    /// What tells of signals.
    pub ears: Ears,
    /// The GPUs of this machine.
    pub machine: Arc<MachineGpus>,
    /// What was found for the first attempt.
    pub first: LaunchPlace,
    /// Who is told.
    pub listener: SharedListener,
}

/// What has become of a program.
pub struct Launched {
    /// The facts of its run.
    pub history: History,
    /// How it ended the last time.
    pub result: ProgramResult,
    /// Where its run lies.
    pub folder: PathBuf,
}

impl Launched {
    /// Of a program of which no run was begun.
    pub fn nothing(result: ProgramResult) -> Self {
        Self {
            history: History::default(),
            result,
            folder: PathBuf::new(),
        }
    }
}

/// Runs a program to its end, however many attempts that takes.
pub fn launch(handle: Handle, launch: Launch) -> Launched {
    let (wake, sources) = WakeSources::channel();
    let mut observer = Listening(Arc::clone(&launch.listener));
    let result = Arc::new(Mutex::new(ProgramResult::Runs));
    let foreground = Foreground::new(launch, wake, Arc::clone(&result));
    let mut supervisor = Supervisor::new(Box::new(foreground), monotonic_clock());
    supervisor.add(handle);
    drive(&mut supervisor, Until::Finished, &sources, &mut observer);
    // Where its facts cannot be written down any more the program itself runs on.
    while supervisor.runs().any(is_left) && matches!(*locked(&result), ProgramResult::Runs) {
        let _ = sources.wait(LONG);
    }
    // What it left running holds memory that somebody else may want.
    let left = supervisor.runs().find_map(|h| died_of_memory(h.history()));
    if let Some(job) = left {
        let _ = supervisor.hands.scheduler.cancel(&job);
    }
    let handles = supervisor.into_handles();
    let handle = handles.into_iter().next();
    let mut launched = Launched::nothing(std::mem::take(&mut *locked(&result)));
    if let Some(handle) = handle {
        launched.history = handle.history().clone();
        let history = &launched.history;
        let waited = history.attempt().is_some_and(|a| a.job.is_none());
        let cancelled = matches!(history.outcome, Some(Outcome::Cancelled { .. }));
        if waited && cancelled && !matches!(launched.result, ProgramResult::Signalled(_)) {
            launched.result = ProgramResult::Cancelled;
        }
        handle.folder().dir().clone_into(&mut launched.folder);
    }
    launched
}

/// The last job of a run, where that failed of memory.
fn died_of_memory(history: &History) -> Option<JobRef> {
    let attempt = history.attempt()?;
    let failed = attempt.status.as_ref()?.state == JobState::Failed;
    let of_memory = |i: &Incident| i.fatal && i.class != Class::NotOom;
    let died = failed && attempt.incident.as_ref().is_some_and(of_memory);
    attempt.job.clone().filter(|_| died)
}

/// Has it a job that runs, and is it not worked on any more?
fn is_left(handle: &Handle) -> bool {
    let attempt = handle.history().attempt();
    let runs = attempt.is_some_and(|a| a.job.is_some() && a.ended_at.is_none());
    handle.error().is_some() && runs
}

fn locked<T: ?Sized>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Hands on what the loop tells.
struct Listening(SharedListener);

impl Observer for Listening {
    fn notice(&mut self, notice: &Notice<'_>) {
        locked(&*self.0).notice(notice);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_is_that_of_a_shell() {
        let exited = |code, signal| ProgramResult::Exited(ExitStatus::of(code, signal));
        let codes = [exited(3, 0), exited(0, 15), exited(0, 0)].map(|r| r.exit().code());
        assert_eq!(codes, [3, 143, 0]);
        assert_eq!(ProgramResult::Signalled(2).exit().code(), 130);
    }
}
