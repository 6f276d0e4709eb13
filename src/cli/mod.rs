//! The room that talks: arguments in, text or JSON out.
//!
//! Rule: one file per subcommand, one view per command with a text and a JSON rendering; only
//! `print/` writes to the terminal.

#![allow(
    clippy::disallowed_methods,
    reason = "reads what the user asked for: arguments, environment, working directory"
)]

mod adopt;
mod args;
mod cancel;
mod checkpoint;
mod climbing;
mod completions;
mod copied;
mod diagnose;
mod died;
mod doctor;
mod ended;
mod estimate;
mod explain;
mod fix;
mod gpus;
mod history;
mod init;
mod interrupt;
mod known;
mod launching;
mod learned;
mod load;
mod logs;
mod man;
mod new_run;
mod overview;
mod own;
mod packages;
mod pipeline;
mod plan;
mod plan_after;
mod presets;
mod print;
mod probe;
#[cfg(test)]
#[path = "tests/remedies.rs"]
mod remedies;
mod render;
mod report;
mod run;
mod run_queue;
mod runs;
mod schema;
mod sections;
mod showing;
mod signatures;
mod status;
mod submit;
mod sweep;
mod sweep_source;
mod sweeps;
mod tune;
mod watch;
mod watch_chain;
mod yaml_lint;

use std::path::Path;

use clap::{CommandFactory, Parser, Subcommand};

use crate::core::exit::Exit;
use crate::io::scheduler::local;
use print::Failure;
pub use print::IncidentView;

/// Submits training jobs to Slurm, recognises GPU out-of-memory failures, and resubmits with a
/// configuration that fits.
#[derive(Debug, Parser)]
#[command(
    name = "oomctl",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    subcommand_required = true,
    after_help = AFTER_HELP
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  oomctl init                                  write a commented oomctl.yaml
  oomctl submit --dataset diamonds-seed0       render, submit, print the job id (like sbatch)
  oomctl watch 4711                            follow, diagnose, escalate, resubmit
  oomctl plan                                  the ladder from here, rung by rung

Exit codes: 0 success, 1 the job failed for another reason, 2 usage,
3 still out of GPU memory, 4 refused by the scheduler, 5 configuration,
6 time limit, preemption or node failure, 7 ledger, 8 budget, 9 cancelled,
129, 130, 143 detached by a signal.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Render, submit, print the job id
    Submit(submit::Args),
    /// Follow runs, diagnose, escalate and resubmit until they end
    Watch(watch::Args),
    /// Run a program on a free GPU of this machine, again and smaller when it runs out of memory
    Run(run::Args),
    /// Show runs and their attempts
    Status(status::Args),
    /// List every attempt, here or below folders, with its cause and the memory that it used
    History(history::Args),
    /// Make a page about runs: what happened, memory over time, what it cost
    Report(report::Args),
    /// End runs and their jobs
    Cancel(cancel::Args),
    /// Say what killed a job, with the line of its log that proves it
    Diagnose(diagnose::Args),
    /// Say what to change after a failure, from a log: as a diff of its job script, or in its framework's words
    Fix(fix::Args),
    /// Print the exact files that would be submitted
    Render(render::Args),
    /// Say how much GPU memory a job needs, before it runs
    Estimate(estimate::Args),
    /// Show the ladder from here, rung by rung, with what each would change
    Plan(plan::Args),
    /// Show what is understood of a job script of your own, and the patch that the first rung would be
    Adopt(adopt::Args),
    /// Check, mend and run a sweep: which cells cannot fit, and the others each as a run
    Sweep(sweep::Args),
    /// From a run that fits, propose the fastest configuration that still does
    Tune(tune::Args),
    /// Show where a value came from, and what it beat
    Explain(explain::Args),
    /// List presets and profiles, or show one
    Presets(presets::Args),
    /// Show what GPUs hold, who holds it, and what helps; wait for a free one
    Gpus(gpus::Args),
    /// Sample the GPUs of this node into a run's folder, as the job scripts do
    Probe(probe::Args),
    /// Write a commented starter oomctl.yaml
    Init(init::Args),
    /// Look whether everything that oomctl needs is there and works, and say what to do
    Doctor(doctor::Args),
    /// Print the JSON Schema of a file, for editors
    Schema(schema::Args),
    /// Print the script that completes commands, flags and names in a shell
    Completions(completions::Args),
    /// Write the manual pages
    Man(man::Args),
}

/// Runs the program with the process's arguments.
#[must_use]
pub fn main() -> std::process::ExitCode {
    if let Some(code) = keep_local_job() {
        return code;
    }
    if let Some(code) = completions::answer(Cli::command) {
        return code.code().into();
    }
    let done = match answered_at_once() {
        Some(done) => done,
        None => match Cli::try_parse() {
            Ok(cli) => run(cli.command),
            Err(error) => Ok(print::usage(&error)),
        },
    };
    let exit = done.unwrap_or_else(|failure| failure.report());
    exit.code().into()
}

/// What shells and scripts ask for when they start needs none of the tree of commands, which takes longer to build than
/// the answer.
fn answered_at_once() -> Option<Result<Exit, Failure>> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let words: Option<Vec<&str>> = arguments.iter().map(|word| word.to_str()).collect();
    match words?[..] {
        ["--version" | "-V"] => {
            let version = concat!("oomctl ", env!("CARGO_PKG_VERSION"));
            Some(print::data(version).map(|()| Exit::Success))
        }
        ["completions", shell] => completions::of(shell),
        _ => None,
    }
}

/// The local backend runs each job under a keeper, which is this program with a hidden argument.
fn keep_local_job() -> Option<std::process::ExitCode> {
    let arguments: Vec<_> = std::env::args_os().collect();
    let [_, word, folder] = &arguments[..] else {
        return None;
    };
    (word == local::KEEP_ARGUMENT).then(|| local::keep(Path::new(folder)))
}

fn run(command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Submit(args) => submit::run(&args),
        Command::Watch(args) => watch::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Status(args) => status::run(&args),
        Command::History(args) => history::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Cancel(args) => cancel::run(&args),
        Command::Diagnose(args) => diagnose::run(&args),
        Command::Fix(args) => fix::run(&args),
        Command::Render(args) => render::run(&args),
        Command::Estimate(args) => estimate::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Adopt(args) => adopt::run(&args),
        Command::Sweep(args) => sweep::run(&args),
        Command::Tune(args) => tune::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Presets(args) => presets::run(&args),
        Command::Gpus(args) => gpus::run(&args),
        Command::Probe(args) => probe::run(&args),
        Command::Init(args) => init::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Schema(args) => schema::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    }
}
