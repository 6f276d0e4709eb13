//! What has become of runs that were watched: what is printed of them, and the exit code.

use crate::core::engine::{Outcome, RunPhase};
use crate::core::exit::Exit;
use crate::drive::{DriveEnd, Handle, Supervisor};
use crate::view::row::{RunField, RunRow, list, totals};
use crate::view::run_view::{RunView, document, run_view};
use crate::view::training::unequal;
use crate::view::{CommandFailure, print};

/// The runs as they stand now.
pub fn views(supervisor: &Supervisor) -> Vec<RunView> {
    let runs = supervisor.runs();
    runs.map(|h| run_view(h.history(), supervisor.now()))
        .collect()
}

/// A line for each run, and how many of them ended how.
pub fn run_list(supervisor: &Supervisor) -> String {
    let rows: Vec<RunRow> = views(supervisor).iter().map(RunRow::of).collect();
    let tasks = supervisor.runs().filter(|h| h.request().is_task());
    let trained = tasks.map(|h| h.request().other_training(h.history().steps()));
    let unequal = unequal(&trained.collect::<Vec<_>>());
    format!(
        "{}{}{}",
        list(&rows, &RunField::USUAL, true),
        totals(&rows),
        unequal.unwrap_or_default()
    )
}

/// Prints what has become of the runs, and gives the exit code.
pub fn result(
    supervisor: &Supervisor,
    end: DriveEnd,
    json: bool,
    text: &dyn Fn(&RunView) -> Result<(), CommandFailure>,
) -> Result<Exit, CommandFailure> {
    let views = views(supervisor);
    if json {
        print::json(&document(&views, Some(exit_code(supervisor, end))))?;
    } else {
        for view in &views {
            text(view)?;
        }
    }
    code(supervisor, end)
}

/// The exit code: of an error for which a run was set aside, or else that of the run that ended most gravely.
pub fn exit_code(supervisor: &Supervisor, end: DriveEnd) -> Exit {
    if let Some(error) = supervisor.runs().find_map(Handle::error) {
        return error.exit();
    }
    if let DriveEnd::Detached { signal } | DriveEnd::LetGo { signal, .. } = end {
        return Exit::Signal(signal);
    }
    let outcomes = supervisor.runs();
    let outcomes = outcomes.filter_map(|h| h.history().outcome.as_ref());
    let code = Outcome::gravest(outcomes).map_or(Exit::Success, Outcome::exit);
    let mut waiting = supervisor.runs().filter(|h| h.is_open());
    let unaccepted = [RunPhase::Refused, RunPhase::Searching];
    match waiting.any(|h| unaccepted.contains(&h.history().phase())) {
        // Nothing is known to be accepted, and this process does not wait for it.
        true if code == Exit::Success => Exit::Refused,
        _ => code,
    }
}

/// Ends with that exit code.
pub fn code(supervisor: &Supervisor, end: DriveEnd) -> Result<Exit, CommandFailure> {
    if let Some(error) = supervisor.runs().find_map(Handle::error) {
        return Err(error.into());
    }
    let names = supervisor.names().join(" ");
    match end {
        DriveEnd::Detached { .. } => {
            let open = || supervisor.runs().filter(|h| h.is_open());
            let has_job = |h: &Handle| h.history().attempt().is_some_and(|a| a.job.is_some());
            let jobs = match open().any(has_job) {
                true => "The jobs go on",
                false => "No job is known",
            };
            print::talk(&match open().next() {
                Some(_) => format!("Detached. {jobs}; `oomctl watch {names}` continues."),
                None => "Detached.".to_owned(),
            });
        }
        DriveEnd::LetGo { all: true, .. } => {
            print::talk("interrupted; the jobs are being cancelled")
        }
        DriveEnd::LetGo { all: false, .. } => print::talk(&format!(
            "interrupted; the runs are recorded as ended, but not all jobs could be cancelled in time. Run `oomctl cancel {names}`"
        )),
        DriveEnd::Reached | DriveEnd::OutOfPatience => {}
    }
    Ok(exit_code(supervisor, end))
}
