//! `oomctl watch`: follow, diagnose, escalate, resubmit.

use std::process::ExitCode;

use super::print::live::{self, Live};
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
    showing: Showing,
    #[command(flatten)]
    turns: relay::Turns,
}

/// How a watch is shown.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct Showing {
    /// Tell in lines what happens, where the terminal could show the live view
    #[arg(long)]
    plain: bool,
    /// Draw the live view in ASCII characters
    #[arg(long)]
    ascii: bool,
}

impl Showing {
    /// In lines, if that is so.
    pub fn plain_if(self, plain: bool) -> Self {
        Self {
            plain: self.plain || plain,
            ..self
        }
    }
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
    until(supervisor, reached, args.json, args.showing)
}

/// Drives all runs to their end, telling the story as it goes.
pub fn follow(supervisor: Supervisor, json: bool, showing: Showing) -> Result<ExitCode, Failure> {
    until(supervisor, Until::Finished, json, showing)
}

fn until(
    mut supervisor: Supervisor,
    until: Until,
    json: bool,
    showing: Showing,
) -> Result<ExitCode, Failure> {
    // Who reads JSON is no person.
    let showing = showing.plain_if(json || until != Until::Finished);
    let end = told(&mut supervisor, until, showing)?;
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
pub fn told(supervisor: &mut Supervisor, until: Until, showing: Showing) -> Result<End, Failure> {
    let sources = Sources::signals()
        .map_err(|e| Failure::new(4, format!("cannot listen for signals: {e}")))?;
    if !showing.plain && live::is_possible() {
        // A terminal that cannot be had is no reason not to watch.
        if let Ok(mut live) = Live::open(supervisor, &sources, showing.ascii) {
            let end = drive(supervisor, until, &sources, &mut live);
            live.close();
            return Ok(end);
        }
    }
    let mut story = Story::new(supervisor.runs().count() > 1);
    let end = drive(supervisor, until, &sources, &mut story);
    story.close();
    Ok(end)
}
