//! Where a simulation takes the place of the world: of the file system's bad days, of Slurm's commands,
//! of processes and their hosts. One simulation a thread; none unless a test begins one.

use std::cell::RefCell;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use super::disk::DiskChange;
use super::ledger::LedgerOwner;
use super::scheduler::command::{CommandCall, CommandOutput};

/// A world that takes the place of ours.
pub(crate) trait Trial {
    /// Asked before a change: how many bytes there is room for, or why it fails. It may not return.
    fn change(&self, change: DiskChange<'_>) -> io::Result<usize>;
    /// What a process sees of the length of a file.
    fn length(&self, _: &Path, real: u64) -> u64 {
        real
    }
    /// Whether a process sees a name.
    fn is_there(&self, _: &Path, real: bool) -> bool {
        real
    }
    /// What a process sees of the names in a folder.
    fn names(&self, _: &Path, real: &[OsString]) -> Vec<OsString> {
        real.to_vec()
    }
    /// The file system's clock.
    fn file_time(&self) -> io::Result<SystemTime>;
    /// How long the present host has been up.
    fn uptime(&self) -> Duration;
    /// The process that runs now, as an owner.
    fn process(&self) -> LedgerOwner;
    /// When a process of the present host started; `None` when there is none.
    fn started(&self, pid: u32) -> Option<u64>;
    /// Random bytes.
    fn random(&self) -> [u8; 4];
    /// Runs a command of the scheduler. It may not return.
    fn call(&self, call: &CommandCall) -> CommandOutput;
}

thread_local! {
    static TRIAL: RefCell<Option<Rc<dyn Trial>>> = const { RefCell::new(None) };
}

/// Begins a simulation in this thread, or ends it.
pub(crate) fn set(trial: Option<Rc<dyn Trial>>) {
    TRIAL.with(|t| *t.borrow_mut() = trial);
}

/// Asks the simulation of this thread, where there is one.
pub(crate) fn with<T>(ask: impl FnOnce(&dyn Trial) -> T) -> Option<T> {
    let trial = TRIAL.with(|t| t.borrow().clone());
    trial.map(|t| ask(&*t))
}
