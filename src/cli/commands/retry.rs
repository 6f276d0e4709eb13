//! `oomctl retry`: a run that is over continues, once its cause is fixed.

use std::path::Path;

use crate::cli::measure;
use crate::cli::request::checkpoint;
use crate::cli::runs::{PROGRAM, Stored};
use crate::cli::script::{as_submitted, something_changed};
use crate::cli::session::Session;
use crate::cli::watch::pipeline::{Flags, Pipeline};
use crate::cli::watch::showing::Showing;
use crate::cli::watch::{self, once};
use crate::cli::watch_chain::{self, Supervise};
use crate::core::engine::{Outcome, RunPhase};
use crate::core::exit::Exit;
use crate::drive::{Handle, Silent, Until};
use crate::io::ledger::Takeover;
use crate::view::{CommandFailure, print};

/// Arguments of `retry`.
#[derive(Debug, clap::Args)]
pub struct RetryArgs {
    /// The run, by name or job id [default: the newest run]
    #[arg(value_name = "JOBID|RUN")]
    run: Option<String>,
    /// Stay, follow the logs, and resubmit on GPU OOM
    #[arg(short, long)]
    watch: bool,
    /// Who resubmits: here (this process), job (small jobs)
    #[arg(
        long,
        value_name = "WHO",
        value_enum,
        hide_possible_values = true,
        conflicts_with = "watch"
    )]
    supervise: Option<Supervise>,
    /// Run the script as it was submitted, although it changed since
    #[arg(long)]
    as_submitted: bool,
    /// Project file [default: oomctl.yaml here or above]
    #[arg(short, long, value_name = "FILE")]
    config: Option<std::path::PathBuf>,
    /// Print one JSON document
    #[arg(short, long)]
    json: bool,
    #[command(flatten)]
    showing: Showing,
    #[command(flatten)]
    pipeline: Flags,
}

/// Runs `oomctl retry`: the configuration and the files are those of the run's last attempt.
pub fn run(args: &RetryArgs) -> Result<Exit, CommandFailure> {
    let stays = args.watch || args.supervise == Some(Supervise::Here);
    if !stays {
        args.pipeline.without_watch()?;
    }
    let session = Session::open(args.config.as_deref())?;
    let name = session.runs.one_or_newest(args.run.as_ref())?;
    let stored = session.runs.find(&name)?;
    let name = stored.history.run.clone();
    match &stored.history.outcome {
        None => return Err(not_over(&name, stored.history.phase())),
        Some(Outcome::Succeeded) => return Err(succeeded(&session, &stored)),
        Some(_) => {}
    }
    let request = stored.request()?;
    if request.inputs().backend == PROGRAM {
        let what = format!("{name} was a program of `oomctl run`, and not a job");
        return Err(CommandFailure::usage(what).hint("call `oomctl run` again"));
    }
    if !args.as_submitted {
        as_submitted(&name, &request)?;
        something_changed(&stored.history, &request)?;
    }
    if let Some(supervise) = args.supervise {
        supervise.check_retry(&request)?;
    }
    checkpoint::tell(&request);
    let (folder, again) = (stored.folder.clone(), request.clone());
    let supervisor = session.runs.supervisor(&request.inputs().backend);
    let mut supervisor = supervisor.measuring(measure::measurer(args.config.clone()));
    let handle = Handle::open(stored.folder, request, Takeover::IfDead, session.now)?;
    supervisor.add(handle);
    let by = print::somebody("oomctl retry");
    if supervisor.retry(&by, &mut Silent).is_empty() {
        // It was over a moment ago: another process has reopened it, or its ledger cannot be written.
        let failed = supervisor.runs().find_map(Handle::error);
        return Err(failed.map_or_else(|| not_over(&name, RunPhase::Live), Into::into));
    }
    let pipeline = Pipeline {
        flags: &args.pipeline,
        runs: &session.runs,
        asked: name,
        showing: args.showing.plain_if(args.json),
    };
    if stays {
        return watch::follow(supervisor, Until::Finished, args.json, &pipeline);
    }
    // The run is open again: whatever happens to this process, the watch job goes on with it.
    let watched = match args.supervise {
        Some(_) => watch_chain::begin(&again, &folder, args.config.as_deref())?,
        None => None,
    };
    let watched = watched.as_ref().zip(args.supervise);
    once::submit_once(supervisor, &pipeline, args.json, watched)
}

fn not_over(name: &str, phase: RunPhase) -> CommandFailure {
    let (what, hint) = match phase {
        RunPhase::Refused => (
            "is not over",
            "submits it as soon as the scheduler takes it",
        ),
        RunPhase::Draining | RunPhase::Judging | RunPhase::Closing => (
            "has ended, and waits for `oomctl watch` to go on",
            "reads that, and resubmits or ends the run",
        ),
        _ => ("is not over", "follows it and resubmits"),
    };
    CommandFailure::usage(format!("{name} {what}")).hint(format!("`oomctl watch {name}` {hint}"))
}

fn succeeded(session: &Session, stored: &Stored) -> CommandFailure {
    let name = &stored.history.run;
    let failure = CommandFailure::usage(format!("{name} succeeded: nothing is left to do"));
    let Ok(request) = stored.request() else {
        return failure;
    };
    let scripts = request.inputs().scripts.as_ref();
    let script = scripts.map_or_else(String::new, |s| format!(" {}", s.command()));
    let hint = match checkpoint::resuming_from(&session.runs, request, Path::new(name)) {
        Ok(_) => format!(
            "`oomctl submit --resume-from {name}{script}` continues training from its newest checkpoint"
        ),
        Err(_) => format!("`oomctl submit{script}` runs it again from its beginning"),
    };
    failure.hint(hint)
}
