//! The only loop: wait for an event or the next due time, hand it in, do what comes out.
//!
//! Rule: it decides nothing and prints nothing; it tells an `Observer`.

#![allow(
    clippy::disallowed_methods,
    reason = "the loop reads the clock and starts the threads that feed it"
)]

mod arrays;
mod cancel;
mod explain;
mod folder;
pub mod gpus;
mod handle;
pub mod launch;
mod learned;
mod log_links;
mod logs;
mod look;
mod measuring;
mod monotonic_clock;
mod news;
mod notice;
mod notifier;
mod perform;
mod prepare;
mod queue;
mod record;
mod sources;
mod steer;
mod supervisor;
mod sweep_group;
mod turn;

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;

use crate::core::engine::{AttemptEvent, Event, PhantomMeasurement, RunPhase};
use crate::core::exit::Exit;
use crate::io::files::FileError;
use crate::io::ledger::{LedgerError, LedgerOwner, owner};

pub use cancel::end_jobs;
pub use explain::explained;
pub use folder::{Environment, RunFolder};
pub use handle::{Handle, attempt_logs, history};
pub use log_links::{remove_links, run_links};
pub use measuring::Measurer;
pub use monotonic_clock::{TimeSource, monotonic_clock};
pub use notice::{Notice, Observer, Silent};
pub use prepare::sha256;
pub use queue::QueueQuestion;
pub use record::{ArrayRecord, SweepRecord};
pub use sources::{Asker, Wake, WakeSources};
pub use steer::SteerRequest;
pub use supervisor::Supervisor;

/// Longest wait of the loop, so that requests from outside are seen.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// Shortest wait of the loop, so that a thing that stays due does not burn a core.
const WAIT_MIN: Duration = Duration::from_millis(20);
/// The same for each run: a turn looks at all of them (some 5 µs each), and thousands are due at thousands of moments.
/// Logs that grow are read meanwhile.
const WAIT_PER_RUN: Duration = Duration::from_micros(100);
/// However many there are, they are looked at so often.
const WAIT_FOR_ALL: Duration = Duration::from_secs(1);

impl Supervisor {
    /// Measures on phantom GPUs for the runs that ask for it.
    pub fn measuring(mut self, measurer: Measurer) -> Self {
        self.hands.measurements.measurer = Some(measurer);
        self
    }
}

impl Handle {
    /// Takes in what was measured of its first attempt before the run was made.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    pub fn measured_before(
        &mut self,
        measurements: Vec<PhantomMeasurement>,
        now: Timestamp,
        observer: &mut dyn Observer,
    ) -> Result<(), DriveError> {
        for measurement in measurements {
            let event = AttemptEvent::PhantomMeasured(Box::new(measurement));
            self.feed(&Event::Attempt(1, event), now, observer)?;
        }
        Ok(())
    }
}

/// This process cannot go on with a run.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// The ledger is locked, damaged, newer, or cannot be written.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// Another file of the run cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// There is a run of that name.
    #[error("a run `{run}` already exists")]
    RunExists {
        /// Its name.
        run: String,
    },
    /// A file of the run is not what it should be.
    #[error("{}: {why}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Secrets that the job needs are not set here.
    #[error(
        "the job needs {} from the environment, which {} not set here; oomctl never stores their values",
        names.join(", "),
        if names.len() == 1 { "is" } else { "are" }
    )]
    MissingSecrets {
        /// Their names.
        names: Vec<String>,
    },
    /// The script of an intended attempt was edited.
    #[error("{} was changed after its attempt was recorded, so it is not submitted", path.display())]
    ScriptChanged {
        /// The script.
        path: PathBuf,
    },
}

impl DriveError {
    /// A file of a run that is not what it should be.
    fn unreadable(path: impl Into<PathBuf>, why: impl ToString) -> Self {
        Self::Unreadable {
            path: path.into(),
            why: why.to_string(),
        }
    }

    /// How a command ends that ends with this.
    pub fn exit(&self) -> Exit {
        match self {
            Self::RunExists { .. } | Self::File(FileError::Name { .. }) => Exit::Usage,
            Self::Ledger(_) | Self::File(_) => Exit::Ledger,
            Self::Unreadable { .. } | Self::MissingSecrets { .. } | Self::ScriptChanged { .. } => {
                Exit::Configuration
            }
        }
    }
}

/// Until when the loop runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Every run is over.
    Finished,
    /// Every run has a job, is over, or waits for others of its sweep; or this long after the start, for a scheduler that does not
    /// say whether it accepted.
    Submitted {
        /// Seconds.
        patience_s: u64,
    },
    /// Every run is over, or waits for a job that was seen not to be over; or this long after the start.
    Settled {
        /// Seconds.
        patience_s: u64,
    },
    /// Every run is over, or the scheduler was told to end its job; or this long after the start.
    LetGo {
        /// Seconds.
        patience_s: u64,
    },
}

impl Until {
    /// After how many seconds the loop ends in any case.
    fn patience_s(self) -> Option<u64> {
        match self {
            Self::Finished => None,
            Self::Submitted { patience_s }
            | Self::Settled { patience_s }
            | Self::LetGo { patience_s } => Some(patience_s),
        }
    }
}

/// Why the loop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriveEnd {
    /// What was waited for has come, or cannot come in this process.
    Reached,
    /// It did not come in time.
    OutOfPatience,
    /// A signal; the runs go on without us. Exit code 128 plus its number.
    Detached {
        /// Its number.
        signal: i32,
    },
    /// A signal, with which the runs were to end too. Exit code 128 plus its number.
    LetGo {
        /// Its number.
        signal: i32,
        /// Is every run over, or was its job told to end? Else that is asked for on disk alone.
        all: bool,
    },
}

/// Runs the loop. The runs stay with the supervisor: what has become of them is in their histories,
/// and dropping it gives them back.
pub fn drive(
    supervisor: &mut Supervisor,
    until: Until,
    sources: &WakeSources,
    observer: &mut dyn Observer,
) -> DriveEnd {
    let end = turns(supervisor, until, sources, observer);
    supervisor.save(observer);
    // After a signal there are seconds to live; what was not told is told by whoever takes the runs up.
    if !matches!(
        (end, until),
        (DriveEnd::Detached { .. }, _) | (_, Until::LetGo { .. })
    ) {
        supervisor.tell_the_rest(observer);
    }
    end
}

/// Ends the runs as well as can be in so many seconds, after a signal at which their end was asked for on disk.
pub fn cancel_all(
    supervisor: &mut Supervisor,
    signal: i32,
    patience_s: u64,
    sources: &WakeSources,
    observer: &mut dyn Observer,
) -> DriveEnd {
    for handle in supervisor.runs.values_mut() {
        // The next turn looks for the request, however short a while ago the last one did.
        handle.mailbox = None;
    }
    let end = drive(supervisor, Until::LetGo { patience_s }, sources, observer);
    DriveEnd::LetGo {
        signal,
        all: end == DriveEnd::Reached,
    }
}

fn turns(
    supervisor: &mut Supervisor,
    until: Until,
    sources: &WakeSources,
    observer: &mut dyn Observer,
) -> DriveEnd {
    let start = supervisor.now();
    let _logs = supervisor.log_waiter().map(|waiter| sources.logs(waiter));
    loop {
        let next = supervisor.cycle(observer);
        supervisor.tell_news(observer);
        observer.turn(
            supervisor.now(),
            &mut supervisor.runs().map(Handle::history),
        );
        let (Some(next), false) = (next, reached(supervisor, until)) else {
            return DriveEnd::Reached;
        };
        let now = supervisor.now();
        if let Some(patience_s) = until.patience_s()
            && now.duration_since(start).unsigned_abs() > Duration::from_secs(patience_s)
        {
            return DriveEnd::OutOfPatience;
        }
        if let Some(signal) = wait(
            supervisor,
            sources,
            pause(now, next, supervisor.runs().count()),
            observer,
        ) {
            return DriveEnd::Detached { signal };
        }
    }
}

/// Waits until something is due, and reads logs that grow meanwhile. Returns a signal, if one came.
fn wait(
    supervisor: &mut Supervisor,
    sources: &WakeSources,
    at_most: Duration,
    observer: &mut dyn Observer,
) -> Option<i32> {
    let start = supervisor.now();
    let mut left = at_most;
    loop {
        let behind = supervisor.is_behind();
        match sources.wait(if behind { Duration::ZERO } else { left }) {
            Some(Wake::Signal(signal)) => return Some(signal),
            Some(Wake::Asked(asked)) => {
                supervisor.asked(&asked, observer);
                return None;
            }
            Some(Wake::Jobs) => {
                supervisor
                    .runs
                    .values_mut()
                    .for_each(|h| h.run.look_again());
                supervisor.poll(true, observer);
                return None;
            }
            None if !behind => return None,
            Some(Wake::Logs) | None => {}
        }
        let due = supervisor.logs_grew(observer);
        let now = supervisor.now();
        let waited = Duration::try_from(now.duration_since(start)).unwrap_or_default();
        left = at_most.saturating_sub(waited);
        if due.is_some_and(|due| due <= now) || left.is_zero() {
            return None;
        }
    }
}

fn reached(supervisor: &Supervisor, until: Until) -> bool {
    match until {
        Until::Finished => supervisor.runs().all(|h| !h.is_open()),
        Until::Submitted { .. } => supervisor.runs().all(|h| !h.is_open() || h.is_under_way()),
        Until::Settled { .. } => supervisor.runs().all(Handle::is_settled),
        Until::LetGo { .. } => supervisor.runs().all(Handle::is_let_go),
    }
}

fn pause(now: Timestamp, next: Timestamp, runs: usize) -> Duration {
    let until = next.duration_since(now);
    let runs = u32::try_from(runs).unwrap_or(u32::MAX);
    let least = WAIT_PER_RUN
        .saturating_mul(runs)
        .clamp(WAIT_MIN, WAIT_FOR_ALL);
    Duration::try_from(until)
        .unwrap_or_default()
        .clamp(least, WAIT_MAX)
}

/// What came of a request to end a run.
#[derive(Debug)]
pub enum CancelAnswer {
    /// It has already ended.
    Over,
    /// Its owner will do it.
    LeftTo(Box<LedgerOwner>),
    /// Nobody supervises it: open it and drive it to its end.
    Unattended,
}

/// Asks for the end of a run. The request outlives this process: whoever supervises the run, now or
/// later, carries it out.
///
/// # Errors
/// When the ledger cannot be read, or the request cannot be written.
pub fn request_cancel(folder: &RunFolder, by: &str) -> Result<CancelAnswer, DriveError> {
    folder.check()?;
    if history(folder.dir())?.phase() == RunPhase::Finished {
        return Ok(CancelAnswer::Over);
    }
    folder.request_cancel(by)?;
    Ok(match owner(folder.dir())? {
        Some(owner) => CancelAnswer::LeftTo(Box::new(owner)),
        None => CancelAnswer::Unattended,
    })
}

#[cfg(test)]
mod tests;
