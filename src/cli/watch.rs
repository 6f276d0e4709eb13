//! `oomctl watch`: follow, diagnose, escalate, resubmit.

use std::process::ExitCode;

use super::print::story::Story;
use super::print::{self, Failure};
use super::{ended, load, own, relay, runs, sweeps};
use crate::core::supervise::Stacks;
use crate::drive::{End, Sources, Supervisor, Until, drive};
use crate::io::files::allow_open;
use crate::io::ledger::Takeover;

/// Arguments of `watch`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Runs, by name, by the id of one of their jobs, or all of a sweep by its name; or the id of a job that was
    /// submitted with plain sbatch, which becomes a run
    #[arg(required = true, value_name = "JOBID|RUN|SWEEP")]
    runs: Vec<String>,
    /// Project file; by default the nearest oomctl.yaml, walking up from here
    #[arg(long, value_name = "FILE")]
    config: Option<std::path::PathBuf>,
    /// Take the run over from a supervisor that is gone but cannot be told to be
    #[arg(long)]
    take_over: bool,
    /// Do what is due and end, rather than stay until the runs are over
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    job: own::JobArgs,
    /// Print one JSON document at the end
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    turns: relay::Turns,
}

/// Runs `oomctl watch`.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    if let Some(taken) = args.turns.take(&args.runs, args.config.as_deref()) {
        return taken.map(|()| ExitCode::SUCCESS);
    }
    let project = load::project(args.config.as_deref())?;
    let takeover = match args.take_over {
        true => Takeover::Forced,
        false => Takeover::IfDead,
    };
    let (mut stacks, mut supervisor) = (Stacks::new(), None::<(String, Supervisor)>);
    let (names, sweeps) = sweeps::expand(&project.folder, &args.runs)?;
    allow_open(names.len() as u64);
    for wanted in &names {
        let (handle, backend) = own::open(&project, wanted, &args.job, takeover, &mut stacks)?;
        let (of, all) = supervisor
            .get_or_insert_with(|| (backend.clone(), runs::supervisor(&backend, &project.folder)));
        if *of != backend {
            let what = format!("{wanted} runs on {backend}, the others on {of}");
            return Err(Failure::new(2, what).hint("watch them in two calls"));
        }
        all.add(handle);
    }
    let Some((_, mut supervisor)) = supervisor else {
        return Ok(ExitCode::SUCCESS);
    };
    for sweep in &sweeps {
        supervisor.gather(&project.folder, sweep);
    }
    let patience_s = relay::PATIENCE_S;
    let reached = match args.once {
        true => Until::Settled { patience_s },
        false => Until::Finished,
    };
    until(supervisor, reached, args.json)
}

/// Drives all runs to their end, telling the story as it goes.
pub fn follow(supervisor: Supervisor, json: bool) -> Result<ExitCode, Failure> {
    until(supervisor, Until::Finished, json)
}

fn until(mut supervisor: Supervisor, until: Until, json: bool) -> Result<ExitCode, Failure> {
    let end = told(&mut supervisor, until)?;
    let is_sweep = supervisor.is_sweep();
    let code = ended::result(&supervisor, end, json, &|view| match is_sweep {
        true => Ok(()),
        false => print::data(&view.text()),
    });
    if is_sweep && !json {
        print::data(&ended::run_list(&supervisor))?;
    }
    code
}

/// Drives all runs, telling the story as it goes.
pub fn told(supervisor: &mut Supervisor, until: Until) -> Result<End, Failure> {
    let sources = Sources::signals()
        .map_err(|e| Failure::new(4, format!("cannot listen for signals: {e}")))?;
    let mut story = Story::new(supervisor.runs().count() > 1);
    let end = drive(supervisor, until, &sources, &mut story);
    story.close();
    Ok(end)
}
