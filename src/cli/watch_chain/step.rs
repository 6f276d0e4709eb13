//! What one turn does for a run.

use crate::cli::interrupt;
use crate::core::engine::{History, NextLook, next_look};
use crate::core::request::Request;
use crate::drive::{
    DriveEnd, DriveError, Handle, RunFolder, Supervisor, Until, drive, monotonic_clock,
};
use crate::io::ledger::{LedgerError, Takeover};
use crate::io::scheduler::Scheduler;
use crate::view::story::Story;
use crate::view::{CommandFailure, print};

/// Does what is due for a run, unless somebody else is at it. `None` where a signal came in between.
pub fn step(
    request: Request,
    folder: RunFolder,
    scheduler: Box<dyn Scheduler>,
    patience_s: u64,
) -> Result<Option<History>, CommandFailure> {
    let now = jiff::Timestamp::now();
    let run = folder.clone();
    let handle = match Handle::open(folder, request, Takeover::IfDead, now) {
        Err(DriveError::Ledger(owned @ LedgerError::Owned { .. })) => {
            print::talk(&owned.to_string());
            return watched_elsewhere(&run).map(Some);
        }
        handle => handle?,
    };
    let mut supervisor = Supervisor::new(scheduler, monotonic_clock());
    supervisor.add(handle);
    let sources = interrupt::listen_quietly()?;
    let until = Until::Settled { patience_s };
    let mut story = Story::new(false);
    let end = drive(&mut supervisor, until, &sources, &mut story);
    story.close();
    let handle = supervisor.runs().next();
    if let Some(error) = handle.and_then(Handle::error) {
        return Err(error.into());
    }
    Ok(match end {
        DriveEnd::Detached { .. } | DriveEnd::LetGo { .. } => None,
        DriveEnd::Reached | DriveEnd::OutOfPatience => {
            handle.map(|handle| handle.history().clone())
        }
    })
}

/// Another process looks after the run: what it does is not ours to foresee, so it is looked at again later.
fn watched_elsewhere(folder: &RunFolder) -> Result<History, CommandFailure> {
    let history = crate::drive::history(folder.dir())?;
    match next_look(&history) {
        NextLook::Never => Ok(history),
        _ => Ok(History::default()),
    }
}
