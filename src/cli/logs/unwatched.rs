//! The end of a job that nobody watches: its cause is read when somebody looks.

use super::targets::of_run;
use crate::cli::runs::Stored;
use crate::core::engine::RunPhase;
use crate::io::ledger::owner;
use oomctl_base::job::Stage;
use oomctl_diagnose::ProjectFailures;

/// Puts the cause into the history in memory, where the job is over and nobody works on the run. The ledger stays as it is.
pub fn judge(stored: &mut Stored, own: &ProjectFailures) {
    let history = &stored.history;
    let status = history.attempt().and_then(|a| a.status.as_ref());
    let over = status.is_some_and(|s| s.state.stage() == Stage::Ended);
    let unwatched = || matches!(owner(stored.folder.dir()), Ok(None));
    if history.phase() != RunPhase::Live || !over || !unwatched() {
        return;
    }
    let logs = of_run(stored, &history.run).pop();
    let incident = logs.and_then(|logs| logs.diagnose(own).ok());
    if let Some(attempt) = stored.history.attempts.last_mut() {
        attempt.incident = incident;
    }
}
