//! `oomctl status`: every run and attempt.

use crate::core::engine::RunPhase;
use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::cli::logs::unwatched;
use crate::cli::runs::Runs;
use crate::cli::runs::Stored;
use crate::cli::session::Session;
use crate::core::exit::Exit;
use crate::core::measure::Measured;
use crate::io::sampler::peaks;
use crate::view::row::list;
use crate::view::run_view::{RunView, document, run_view};
use crate::view::{CommandFailure, print};
use oomctl_base::job::{JobRef, JobStatus};

/// Arguments of `status`.
#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    /// Runs, by name, by the id of one of their jobs, or all of a sweep by its name; by default a line for each run, and the
    /// newest in full
    #[arg(value_name = "JOBID|RUN|SWEEP")]
    runs: Vec<String>,
    /// Project file [default: oomctl.yaml here or above]
    #[arg(short, long, value_name = "FILE")]
    config: Option<std::path::PathBuf>,
    /// Print one JSON document
    #[arg(short, long)]
    json: bool,
}

/// Runs `oomctl status`: what the ledgers say, and for jobs that are not over what the scheduler says
/// now, in one question a backend. No ledger is written.
pub fn run(args: &StatusArgs) -> Result<Exit, CommandFailure> {
    let session = Session::open(args.config.as_deref())?;
    let (runs, now) = (&session.runs, session.now);
    let names = match args.runs.is_empty() {
        true => runs.names()?,
        false => runs.expand(&args.runs)?.0,
    };
    let at_a_glance = args.runs.is_empty() || names.len() > args.runs.len();
    if at_a_glance && !args.json {
        return glance(&session, &names, args.runs.is_empty());
    }
    let (mut stored, mut damaged) = (Vec::new(), None);
    for name in &names {
        match runs.find(name) {
            Ok(run) => stored.push(run),
            Err(failure) if args.runs.is_empty() => damaged = Some(failure),
            Err(failure) => return Err(failure),
        }
    }
    ask(runs, &mut stored, now)?;
    judge(&session, &mut stored);
    let views: Vec<RunView> = stored.iter().map(|s| run_view(&s.history, now)).collect();
    if args.json {
        print::json(&document(&views, None))?;
    } else {
        for view in &views {
            print::prose(&view.text())?;
        }
    }
    damaged.map_or(Ok(Exit::Success), Err)
}

/// A line a run, and the newest in full.
fn glance(session: &Session, names: &[String], newest: bool) -> Result<Exit, CommandFailure> {
    let (runs, now) = (&session.runs, session.now);
    let mut found = runs.overview(names, now);
    ask(runs, &mut found.open, now)?;
    judge(session, &mut found.open);
    let damaged = found.damaged.pop();
    let last = found.newest().filter(|_| newest);
    let open = found
        .open
        .iter()
        .find(|run| Some(&run.history.run) == last.as_ref());
    let open = open.map(|run| run_view(&run.history, now).text());
    let in_full = match (open, last) {
        (None, Some(over)) => Some(run_view(&runs.open(&over)?.history, now).text()),
        (open, _) => open,
    };
    let rows = found.rows(names, now);
    if !rows.is_empty() || names.is_empty() {
        print::data(&list(&rows))?;
    }
    if let Some(text) = in_full {
        print::data(&format!("\n{text}"))?;
    }
    damaged.map_or(Ok(Exit::Success), |(_, failure)| Err(failure))
}

/// Why jobs ended that nobody watches.
fn judge(session: &Session, stored: &mut [Stored]) {
    // Signatures of the project that cannot be read are the business of who diagnoses.
    let own = session.own_failures().unwrap_or_default();
    stored
        .iter_mut()
        .for_each(|run| unwatched::judge(run, &own));
}

/// Puts the scheduler's present word on live jobs, and what their samplers saw, into the histories in memory.
pub fn ask(runs: &Runs, stored: &mut [Stored], now: Timestamp) -> Result<(), CommandFailure> {
    let mut by_backend: BTreeMap<String, Vec<JobRef>> = BTreeMap::new();
    for run in stored
        .iter()
        .filter(|s| s.history.phase() == RunPhase::Live)
    {
        let backend = run.request()?.inputs().backend.clone();
        let job = run.history.attempt().and_then(|a| a.job.clone());
        by_backend.entry(backend).or_default().extend(job);
    }
    for (backend, jobs) in by_backend {
        match runs.scheduler(&backend).poll(&jobs, now) {
            Ok(poll) => poll.jobs.iter().for_each(|status| update(stored, status)),
            Err(e) => print::talk(&format!(
                "no answer from {e}; showing the last known states"
            )),
        }
    }
    stored.iter_mut().for_each(look);
    Ok(())
}

/// Puts what the samplers of a job have seen so far into its history in memory.
fn look(run: &mut Stored) {
    if run.history.phase() != RunPhase::Live {
        return;
    }
    if let Some(attempt) = run.history.attempts.last_mut() {
        let gpus = peaks(&run.folder.attempt(attempt.number));
        attempt.measured = Measured::new(gpus, Vec::new());
    }
}

fn update(stored: &mut [Stored], status: &JobStatus) {
    let attempts = stored
        .iter_mut()
        .filter_map(|s| s.history.attempts.last_mut());
    for attempt in attempts {
        if attempt.job.as_ref().is_some_and(|j| j.id == status.id) {
            attempt.status = Some(status.clone());
        }
    }
}
