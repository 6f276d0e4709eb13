//! `oomctl watch`: follow, diagnose, escalate, resubmit.

use std::collections::BTreeSet;

use crate::cli::session::Session;
use crate::cli::watch::pipeline::{Flags, Pipeline};
use crate::cli::watch::showing::Showing;
use crate::cli::{measure, script, sweep, watch, watch_chain};
use crate::core::exit::Exit;
use crate::core::request::Stacks;
use crate::drive::{Silent, Supervisor, Until};
use crate::io::files::allow_open;
use crate::io::ledger::Takeover;
use crate::view::{CommandFailure, print};

/// Arguments of `watch`.
#[derive(Debug, clap::Args)]
pub struct WatchArgs {
    /// Runs, by name or job id; the runs of a sweep; or the id of a job that plain sbatch submitted [default: the newest run]
    #[arg(value_name = "JOBID|RUN|SWEEP")]
    runs: Vec<String>,
    /// Project file [default: oomctl.yaml here or above]
    #[arg(short, long, value_name = "FILE")]
    config: Option<std::path::PathBuf>,
    /// Take over from another watch that is certainly gone
    #[arg(long)]
    take_over: bool,
    /// Do what is due now, and end
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    job: script::JobArgs,
    /// Print one JSON document at the end
    #[arg(short, long)]
    json: bool,
    #[command(flatten)]
    showing: Showing,
    #[command(flatten)]
    turns: watch_chain::WatchTurnArgs,
    #[command(flatten)]
    pipeline: Flags,
}

/// Runs `oomctl watch`.
pub fn run(args: &WatchArgs) -> Result<Exit, CommandFailure> {
    if let Some(taken) = args.turns.take(&args.runs, args.config.as_deref()) {
        return taken.map(|()| Exit::Success);
    }
    let session = Session::open(args.config.as_deref())?;
    let takeover = match args.take_over {
        true => Takeover::Forced,
        false => Takeover::IfDead,
    };
    let (mut stacks, mut supervisor) = (Stacks::new(), None::<(String, Supervisor)>);
    let wanted = session.runs.or_newest(&args.runs)?.into_iter();
    let wanted = wanted.map(|wanted| sweep::take_array(&session, wanted, &args.job));
    let wanted = wanted.collect::<Result<Vec<String>, CommandFailure>>()?;
    let (names, sweeps) = session.runs.expand(&wanted)?;
    allow_open(names.len() as u64);
    let mut opened = BTreeSet::new();
    for wanted in &names {
        // Two jobs of one run are watched by one watch.
        if run_of(&session, wanted).is_some_and(|run| !opened.insert(run)) {
            continue;
        }
        let (handle, backend) = script::open(&session, wanted, &args.job, takeover, &mut stacks)?;
        let (of, all) = supervisor.get_or_insert_with(|| {
            let measurer = measure::measurer(args.config.clone());
            (
                backend.clone(),
                session.runs.supervisor(&backend).measuring(measurer),
            )
        });
        if *of != backend {
            let what = format!("{wanted} runs on {backend}, the others on {of}");
            return Err(CommandFailure::usage(what).hint("watch them in two calls"));
        }
        all.add(handle);
    }
    let Some((_, mut supervisor)) = supervisor else {
        return Ok(Exit::Success);
    };
    for sweep in &sweeps {
        supervisor.gather(&session.folder, sweep);
    }
    let patience_s = watch_chain::PATIENCE_S;
    let reached = match args.once {
        true => Until::Settled { patience_s },
        false => Until::Finished,
    };
    let asked = match (supervisor.runs().next(), supervisor.runs().count()) {
        (Some(run), 1) => run.name().to_owned(),
        _ => wanted.join(" "),
    };
    if reached == Until::Finished {
        let by = print::somebody("oomctl watch");
        supervisor.resume(&by, &mut Silent);
    }
    let pipeline = Pipeline {
        flags: &args.pipeline,
        runs: &session.runs,
        asked,
        // Who reads JSON is no person.
        showing: args
            .showing
            .plain_if(args.json || reached != Until::Finished),
    };
    watch::follow(supervisor, reached, args.json, &pipeline)
}

/// The run that is meant by a name or a job's id. Only for an id the runs are read.
fn run_of(session: &Session, wanted: &str) -> Option<String> {
    match session.runs.has(wanted) {
        true => Some(wanted.to_owned()),
        false => Some(session.runs.find(wanted).ok()?.history.run),
    }
}
