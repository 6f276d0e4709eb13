//! `oomctl watch`: follow, diagnose, escalate, resubmit.

use std::process::ExitCode;

use super::print::run_view::{RunView, list, run_view, summary};
use super::print::story::Story;
use super::print::{self, Failure};
use super::{load, own, relay, runs, sweeps};
use crate::core::supervise::Outcome;
use crate::drive::{End, Handle, Sources, Supervisor, Until, drive};
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
    /// Take this turn of the watch over one run, and send the next (what a watch job runs)
    #[arg(long, value_name = "N", hide = true, conflicts_with_all = ["once", "take_over", "json"])]
    turn: Option<u32>,
    #[command(flatten)]
    job: own::JobArgs,
    /// Print one JSON document at the end
    #[arg(long)]
    json: bool,
}

/// Runs `oomctl watch`.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    if let (Some(number), [run]) = (args.turn, args.runs.as_slice()) {
        return relay::turn(run, args.config.as_deref(), number).map(|()| ExitCode::SUCCESS);
    }
    let project = load::project(args.config.as_deref())?;
    let takeover = if args.take_over {
        Takeover::Forced
    } else {
        Takeover::IfDead
    };
    let mut supervisor: Option<(String, Supervisor)> = None;
    let (names, sweeps) = sweeps::expand(&project.folder, &args.runs)?;
    for wanted in &names {
        let (handle, backend) = own::open(&project, wanted, &args.job, takeover)?;
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
    let sources = Sources::signals()
        .map_err(|e| Failure::new(4, format!("cannot listen for signals: {e}")))?;
    let mut story = Story::new(supervisor.runs().count() > 1);
    let end = drive(&mut supervisor, until, &sources, &mut story);
    story.close();
    if supervisor.is_sweep() {
        let code = result(&supervisor, end, json, &|_| Ok(()))?;
        if !json {
            print::data(&run_list(&supervisor))?;
        }
        return Ok(code);
    }
    result(&supervisor, end, json, &|view| print::data(&view.text()))
}

/// A line for each run, and how many of them ended how.
pub fn run_list(supervisor: &Supervisor) -> String {
    let now = jiff::Timestamp::now();
    let views: Vec<RunView> = supervisor
        .runs()
        .map(|h| run_view(h.history(), now))
        .collect();
    format!("{}{}", list(&views), summary(&views))
}

/// Prints what has become of the runs, and gives the exit code: that of the first run that did not
/// succeed.
pub fn result(
    supervisor: &Supervisor,
    end: End,
    json: bool,
    text: &dyn Fn(&RunView) -> Result<(), Failure>,
) -> Result<ExitCode, Failure> {
    let views: Vec<RunView> = supervisor
        .runs()
        .map(|h| run_view(h.history(), jiff::Timestamp::now()))
        .collect();
    if json {
        print::json(&print::run_view::document(&views))?;
    } else {
        for view in &views {
            text(view)?;
        }
    }
    if let Some(error) = supervisor.runs().find_map(Handle::error) {
        return Err(error.into());
    }
    if let End::Detached { signal } = end {
        let names: Vec<&str> = supervisor.runs().map(Handle::name).collect();
        print::talk(&format!(
            "detached; the jobs go on. `oomctl watch {}` takes up again",
            names.join(" ")
        ));
        return Ok(ExitCode::from(128 + u8::try_from(signal).unwrap_or(2)));
    }
    let codes = supervisor
        .runs()
        .filter_map(|h| h.history().outcome.as_ref())
        .map(Outcome::exit_code);
    Ok(ExitCode::from(
        codes.max_by_key(|c| u8::from(*c != 0)).unwrap_or(0),
    ))
}
