//! A program on this machine, without a scheduler: wait for a GPU, run it there, and when it died of memory
//! run it again as the ladder says.
//!
//! Rule: as in all of this room nothing is decided and nothing is printed here: `core/launch` says what
//! follows, a `LaunchListener` is told.

mod attempt;
mod place;
mod queue;
mod record;

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use crate::core::exit::Exit;
use crate::core::ladder::{Decision, Skipped, Step};
use crate::core::launch::{Ended, Launch, NextLaunch, only_moves_away};
use crate::core::measure::Figure;
use crate::core::recipe::Layer;
use crate::io::files::FileError;
use crate::io::program::{Ears, Inbox, Outputs};
use oomctl_base::Refusal;
use oomctl_base::job::ExitStatus;
use oomctl_base::units::Bytes;
use oomctl_diagnose::Incident;
use oomctl_gpu::nvml::GpuError;

pub use place::MachineGpus;
use place::{ClaimedGpu, LaunchPlace};
pub use queue::{QueueEntry, queue};

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

impl From<Refusal> for LaunchError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// The GPU that an attempt had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GpuUsed {
    /// NVML's index; of a MIG device that of its GPU.
    pub index: u32,
    /// UUID, as in `CUDA_VISIBLE_DEVICES`.
    pub uuid: String,
    /// Product name.
    pub name: String,
    /// Capacity.
    pub total_bytes: Bytes,
    /// Bytes that were free at the start.
    pub free_bytes: Bytes,
    /// Most bytes in use at any look, everybody's.
    pub peak_bytes: Option<Bytes>,
    /// Most bytes of the program's own processes, where the driver tells.
    pub own_peak_bytes: Option<Bytes>,
}

/// One attempt, as it is recorded.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LaunchAttempt {
    /// From 1.
    pub number: u32,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Its GPU; none on the CPU.
    pub gpu: Option<GpuUsed>,
    /// When it started.
    pub started: Timestamp,
    /// How long it ran.
    pub seconds: f64,
    /// Exit code and signal.
    pub exit: ExitStatus,
    /// Why it failed; none where it did not.
    pub incident: Option<Incident>,
    /// Figures of memory that it printed.
    pub figures: Vec<Figure>,
    /// Rungs that were taken after it.
    pub rungs: Vec<Step>,
}

/// How it went on to the end.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LaunchOutcome {
    /// The program ended in success.
    Succeeded,
    /// It failed, and not of memory.
    Failed,
    /// It died of memory, and nothing is left to try.
    Exhausted {
        /// Every rung with its reason.
        skipped: Vec<Skipped>,
    },
    /// Somebody ended it.
    Signalled,
    /// The program could not be started.
    NotStarted {
        /// Why.
        why: String,
    },
    /// No GPU was to be had, and the CPU is not allowed.
    NoGpu {
        /// Why.
        why: String,
    },
}

/// What came of a program.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// How it ended.
    pub outcome: LaunchOutcome,
    /// The program's exit code, as a shell gives it.
    pub exit_code: u8,
    /// Its attempts.
    pub attempts: Vec<LaunchAttempt>,
}

/// Something to tell.
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
    /// No GPU was to be had.
    NoGpu {
        /// Why.
        why: &'a str,
    },
    /// An attempt starts.
    Started {
        /// From 1.
        number: u32,
        /// The program and its arguments.
        command: &'a [String],
        /// Its GPU.
        gpu: Option<&'a GpuUsed>,
    },
    /// An attempt ended.
    Ended(&'a LaunchAttempt),
    /// Rungs are taken.
    Climbing(&'a [Step]),
    /// The memory of the dead program is waited for.
    Settling {
        /// Bytes in use that were not before the attempt.
        held: Bytes,
    },
}

/// Whoever listens.
pub trait LaunchListener: Send {
    /// Takes news.
    fn news(&mut self, news: &LaunchNews<'_>);
}

/// One program to be run.
pub struct LaunchJob<'a> {
    /// Its command and its ladder.
    pub launch: &'a Launch,
    /// Where its output goes, made anew for each attempt.
    pub outputs: &'a (dyn Fn() -> Outputs + Sync),
    /// Where its attempts are recorded.
    pub records: Option<PathBuf>,
    /// What tells of signals.
    pub ears: &'a Ears,
}

/// Runs a program to its end, however many attempts that takes.
///
/// # Errors
/// When it cannot be started, or the machine cannot be looked at.
pub fn launch(
    job: &LaunchJob<'_>,
    machine: &mut MachineGpus,
    listener: &mut dyn LaunchListener,
) -> Result<Summary, LaunchError> {
    AttemptLoop::new(job).run(machine, None, listener)
}

/// The attempts of one program.
struct AttemptLoop<'a> {
    job: &'a LaunchJob<'a>,
    rungs: Vec<Layer>,
    attempts: Vec<LaunchAttempt>,
    /// Bytes that the next attempt needs at least, because the last one died with the same values.
    needed: Option<Bytes>,
}

impl<'a> AttemptLoop<'a> {
    fn new(job: &'a LaunchJob<'a>) -> Self {
        Self {
            job,
            rungs: Vec::new(),
            attempts: Vec::new(),
            needed: None,
        }
    }

    /// Attempts until it is over. The ladder ends, and with it this. `first` is what was found for the first
    /// attempt, where that was looked for already.
    fn run(
        mut self,
        machine: &mut MachineGpus,
        mut first: Option<LaunchPlace>,
        listener: &mut dyn LaunchListener,
    ) -> Result<Summary, LaunchError> {
        let mut held: Option<ClaimedGpu> = None;
        loop {
            let mut attempt = self.job.launch.attempt(&self.rungs)?;
            attempt.need = attempt.need.max(self.needed.unwrap_or_default());
            let place = match first.take() {
                Some(place) => place,
                None => machine.place(&attempt, held.take(), self.job.ears, listener)?,
            };
            match place {
                LaunchPlace::Signal(number) => {
                    let code = u8::try_from(128 + number).unwrap_or(1);
                    return Ok(self.over(LaunchOutcome::Signalled, code));
                }
                LaunchPlace::Nowhere { why } => {
                    listener.news(&LaunchNews::NoGpu { why: &why });
                    if !self.leave_the_gpu(listener)? {
                        return Ok(self.over(LaunchOutcome::NoGpu { why }, NO_GPU.code()));
                    }
                    continue;
                }
                LaunchPlace::Cpu => {}
                LaunchPlace::Gpu(found) => held = Some(found),
            }
            // A signal that came while a GPU was looked for must not be lost: `ending` is set before anybody is
            // told, so from here on it is seen or heard.
            let inbox = Inbox::default();
            self.job.ears.add(&inbox);
            if let Some(signal) = self.job.ears.ending() {
                let code = u8::try_from(128 + signal).unwrap_or(1);
                return Ok(self.over(LaunchOutcome::Signalled, code));
            }
            let number = self.number();
            let held_now = held.as_mut();
            let ended = attempt::run(
                self.job, &attempt, number, held_now, machine, listener, &inbox,
            )?;
            let (ended, tried) = ended;
            self.attempts.push(tried);
            let gpu = held.as_ref().map(|h| h.claim.uuid.clone());
            let gpus = if ended.of_memory() {
                let left: Vec<String> = attempt.excluded_gpus.iter().chain(&gpu).cloned().collect();
                machine.usable(attempt.need.max(ended.needed().unwrap_or_default()), &left)
            } else {
                0
            };
            let place = (gpu.as_deref(), gpus);
            let next = self.job.launch.after(&ended, &self.rungs, number, place)?;
            if let Some(outcome) = self.take(&ended, next, listener) {
                return Ok(self.over(outcome, ended.code()));
            }
        }
    }

    fn number(&self) -> u32 {
        u32::try_from(self.attempts.len() + 1).unwrap_or(u32::MAX)
    }

    /// Takes the rungs of what is next, or says how it ended. The attempt is told and recorded with them.
    fn take(
        &mut self,
        ended: &Ended,
        next: NextLaunch,
        listener: &mut dyn LaunchListener,
    ) -> Option<LaunchOutcome> {
        let (outcome, steps) = match next {
            NextLaunch::Again { steps } => (None, steps),
            NextLaunch::Exhausted { skipped } => {
                (Some(LaunchOutcome::Exhausted { skipped }), Vec::new())
            }
            NextLaunch::Over if ended.told => (Some(LaunchOutcome::Signalled), Vec::new()),
            NextLaunch::Over if ended.code() == 0 => (Some(LaunchOutcome::Succeeded), Vec::new()),
            NextLaunch::Over => (Some(LaunchOutcome::Failed), Vec::new()),
        };
        self.needed = match only_moves_away(&steps) {
            true => self.needed.max(ended.needed()),
            false => None,
        };
        if let Some(tried) = self.attempts.last_mut() {
            tried.rungs.clone_from(&steps);
            listener.news(&LaunchNews::Ended(tried));
            record::write(self.job.records.as_deref(), tried, listener);
        }
        if outcome.is_none() {
            listener.news(&LaunchNews::Climbing(&steps));
        }
        self.rungs.extend(steps.into_iter().map(|s| s.layer));
        outcome
    }

    /// Takes the rung to the CPU for want of a GPU; false where there is none.
    fn leave_the_gpu(&mut self, listener: &mut dyn LaunchListener) -> Result<bool, LaunchError> {
        let decision = self.job.launch.without_gpu(&self.rungs, self.number())?;
        let Decision::Climb { steps, .. } = decision else {
            return Ok(false);
        };
        listener.news(&LaunchNews::Climbing(&steps));
        self.rungs.extend(steps.into_iter().map(|s| s.layer));
        Ok(true)
    }

    fn over(self, outcome: LaunchOutcome, exit_code: u8) -> Summary {
        Summary {
            outcome,
            exit_code,
            attempts: self.attempts,
        }
    }
}

/// The exit code where no GPU was to be had in time: a budget that is spent.
const NO_GPU: Exit = Exit::BudgetSpent;
