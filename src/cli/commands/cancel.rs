//! `oomctl cancel`: end runs and their jobs.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::cli::interrupt;
use crate::cli::runs::{self, Runs, ended};
use crate::cli::session::Session;
use crate::core::engine::Outcome;
use crate::core::exit::Exit;
use crate::core::request::{Request, Stacks};
use crate::drive::{CancelAnswer, DriveEnd, Handle, Until, drive, end_jobs, request_cancel};
use crate::io::files::allow_open;
use crate::io::ledger::Takeover;
use crate::view::story::Story;
use crate::view::{CommandFailure, print};

/// Arguments of `cancel`.
#[derive(Debug, clap::Args)]
pub struct CancelArgs {
    /// Runs, by name or job id, or the runs of a sweep [default: asks for the newest that has not ended]
    #[arg(value_name = "JOBID|RUN|SWEEP")]
    runs: Vec<String>,
    /// Ask no question
    #[arg(short, long)]
    yes: bool,
    /// Project file [default: oomctl.yaml here or above]
    #[arg(short, long, value_name = "FILE")]
    config: Option<std::path::PathBuf>,
}

/// Runs `oomctl cancel`. What cannot be cancelled keeps none of the others, and all that nobody supervises ends together.
pub fn run(args: &CancelArgs) -> Result<Exit, CommandFailure> {
    let runs = &Session::of_runs(args.config.as_deref())?.runs;
    let Some(wanted) = runs.or_newest_open_if("Cancel", args.yes, &args.runs)? else {
        return Ok(Exit::Success);
    };
    let (names, _) = runs.expand(&wanted)?;
    allow_open(names.len() as u64);
    let mut asking = Asking::default();
    for wanted in &names {
        if let Err(failure) = asking.ask(runs, wanted) {
            asking.fails(failure);
        }
    }
    for (backend, alone) in std::mem::take(&mut asking.alone) {
        if let Some(interrupted) = asking.end(runs, &backend, alone)? {
            return Ok(interrupted);
        }
    }
    asking.failure.map_or(Ok(Exit::Success), Err)
}

/// Runs whose end is asked for.
#[derive(Default)]
struct Asking {
    stacks: Stacks,
    /// Their names: a run can be meant by its name and by the ids of its jobs.
    met: BTreeSet<String>,
    /// Those that nobody supervises, by backend: this process does, to their end.
    alone: BTreeMap<String, Vec<(runs::Stored, Request)>>,
    failure: Option<CommandFailure>,
}

impl Asking {
    fn fails(&mut self, failure: CommandFailure) {
        let first = self.failure.take().into_iter();
        self.failure = Some(first.fold(failure, |later, first| first.and(later)));
    }

    fn ask(&mut self, runs: &Runs, wanted: &str) -> Result<(), CommandFailure> {
        let stored = runs.find(wanted)?;
        let name = stored.history.run.clone();
        if !self.met.insert(name.clone()) {
            return Ok(());
        }
        let by = print::somebody("oomctl cancel");
        match request_cancel(&stored.folder, &by)? {
            CancelAnswer::Over => print::talk(&format!("{name} has already ended")),
            CancelAnswer::LeftTo(owner) => {
                let (host, pid) = (&owner.host, owner.pid);
                print::talk(&format!(
                    "{name}: its watch (pid {pid} on {host}) is cancelling it"
                ));
            }
            CancelAnswer::Unattended => {
                let request = stored.sharing(&mut self.stacks)?;
                let backend = request.inputs().backend.clone();
                self.alone
                    .entry(backend)
                    .or_default()
                    .push((stored, request));
            }
        }
        Ok(())
    }

    /// Drives runs to their end; with an exit code where a signal came first.
    fn end(
        &mut self,
        runs: &Runs,
        backend: &str,
        alone: Vec<(runs::Stored, Request)>,
    ) -> Result<Option<Exit>, CommandFailure> {
        let what = match alone.as_slice() {
            [(one, _)] => one.history.run.clone(),
            all => format!("{} runs", all.len()),
        };
        print::talk(&format!("cancelling {what} and waiting for the end"));
        let mut story = Story::quiet();
        // Before any ledger is opened: for many of them that takes long, and their jobs hold GPUs meanwhile.
        let histories = alone.iter().map(|(stored, _)| &stored.history);
        let taken = end_jobs(runs.scheduler(backend).as_mut(), histories);
        let mut supervisor = runs.supervisor(backend);
        supervisor.has_ended(taken);
        for (stored, request) in alone {
            let now = Timestamp::now();
            match Handle::open(stored.folder, request, Takeover::IfDead, now) {
                Ok(handle) => supervisor.add(handle),
                Err(error) => self.fails(error.into()),
            }
        }
        let sources = interrupt::listen()?;
        let end = drive(&mut supervisor, Until::Finished, &sources, &mut story);
        story.close();
        for handle in supervisor.runs() {
            let name = handle.name();
            match (handle.error(), &handle.history().outcome) {
                (Some(error), _) => self.fails(error.into()),
                (None, Some(Outcome::Cancelled { .. })) => {
                    print::talk(&format!("{name} is cancelled"));
                }
                (None, Some(outcome)) => {
                    let word = outcome.word();
                    print::talk(&format!(
                        "{name} ended before it could be cancelled: {word}"
                    ));
                }
                (None, None) => {}
            }
        }
        let DriveEnd::Detached { signal } = end else {
            return Ok(None);
        };
        let all = supervisor.runs().all(Handle::is_let_go);
        ended::code(&supervisor, DriveEnd::LetGo { signal, all }).map(Some)
    }
}
