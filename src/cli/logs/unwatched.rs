//! What happened to a job that nobody watches: the scheduler is asked, and its cause is read, when somebody looks.

use jiff::Timestamp;

use super::targets::of_run;
use crate::cli::runs::present::ask;
use crate::cli::runs::{Runs, Stored};
use crate::core::engine::RunPhase;
use crate::io::ledger::owner;
use crate::view::CommandFailure;
use oomctl_base::job::Stage;
use oomctl_diagnose::ProjectFailures;

/// Puts what the scheduler says now, and why jobs ended that nobody watches, into the histories in memory. The ledgers stay
/// as they are.
pub fn read(runs: &Runs, stored: &mut [Stored], now: Timestamp) -> Result<(), CommandFailure> {
    ask(runs, stored, now)?;
    stored.iter_mut().for_each(judge);
    Ok(())
}

/// Puts the cause into the history in memory, where the job is over and nobody works on the run: what a watch would read.
pub fn judge(stored: &mut Stored) {
    let history = &stored.history;
    let status = history.attempt().and_then(|a| a.status.as_ref());
    let over = status.is_some_and(|s| s.state.stage() == Stage::Ended);
    let unwatched = || matches!(owner(stored.folder.dir()), Ok(None));
    let unread = matches!(history.phase(), RunPhase::Live | RunPhase::Draining);
    if !unread || !over || !unwatched() {
        return;
    }
    let own = stored.request().map(|request| ProjectFailures {
        signatures: request.inputs().signatures.clone(),
        bugs: request.inputs().bugs.clone(),
    });
    let logs = of_run(stored, &history.run).pop();
    let incident = logs.and_then(|logs| logs.diagnose(&own.unwrap_or_default()).ok());
    if let Some(attempt) = stored.history.attempts.last_mut() {
        attempt.incident = incident;
    }
}
