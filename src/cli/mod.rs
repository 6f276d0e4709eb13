//! The room that people talk to: what the commands are, and what is asked for.
//!
//! Rule: one file a command in `commands/`; what several commands need hangs on a `Session`, or stands in the room of
//! its subject. No room but `commands/` knows a command.

#![allow(
    clippy::disallowed_methods,
    reason = "reads what the user asked for: arguments, environment, working directory"
)]

mod args;
mod commands;
mod gpus;
mod init;
mod interrupt;
mod launch;
mod logs;
#[cfg(test)]
#[path = "tests/remedies.rs"]
mod remedies;
mod request;
mod runs;
mod schema;
mod script;
mod session;
mod sweep;
mod tune;
mod values;
mod watch;
mod watch_chain;

use std::path::Path;

use clap::{CommandFactory, Parser, Subcommand};

use crate::core::exit::Exit;
use crate::io::scheduler::local;
use crate::view::{CommandFailure, print};

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
    command: CliCommand,
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
enum CliCommand {
    /// Render, submit, print the job id
    Submit(commands::submit::SubmitArgs),
    /// Follow runs, diagnose, escalate and resubmit until they end
    Watch(commands::watch::WatchArgs),
    /// Run a program on a free GPU of this machine, again and smaller when it runs out of memory
    Run(commands::run::RunArgs),
    /// Show runs and their attempts
    Status(commands::status::StatusArgs),
    /// List every attempt, here or below folders, with its cause and the memory that it used
    History(commands::history::HistoryArgs),
    /// Make a page about runs: what happened, memory over time, what it cost
    Report(commands::report::ReportArgs),
    /// End runs and their jobs
    Cancel(commands::cancel::CancelArgs),
    /// Say what killed a job, with the line of its log that proves it
    Diagnose(commands::diagnose::DiagnoseArgs),
    /// Say what to change after a failure, from a log: as a diff of its job script, or in its framework's words
    Fix(commands::fix::FixArgs),
    /// Print the exact files that would be submitted
    Render(commands::render::RenderArgs),
    /// Say how much GPU memory a job needs, before it runs
    Estimate(commands::estimate::EstimateArgs),
    /// Run a program of your own for a few steps on phantom GPUs, which need no GPU, and say what memory it asked for
    Measure(commands::measure::MeasureArgs),
    /// Show the ladder from here, rung by rung, with what each would change
    Plan(commands::plan::PlanArgs),
    /// Show what is understood of a job script of your own, and the patch that the first rung would be
    Adopt(commands::adopt::AdoptArgs),
    /// Check, fix and submit a sweep: find the cells that cannot fit, run the others
    Sweep(commands::sweep::SweepArgs),
    /// From a run that fits, propose the fastest configuration that still does
    Tune(commands::tune::TuneArgs),
    /// Show where a value came from, and what it beat
    Explain(commands::explain::ExplainArgs),
    /// List presets and profiles, or show one
    Presets(commands::presets::PresetsArgs),
    /// Show what GPUs hold, who holds it, and what helps; wait for a free one
    Gpus(commands::gpus::GpusArgs),
    /// Sample the GPUs of this node into a run's folder, as the job scripts do
    Probe(commands::probe::ProbeArgs),
    /// Write a commented starter oomctl.yaml
    Init(commands::init::InitArgs),
    /// Check everything that oomctl needs, and say what to fix
    Doctor(commands::doctor::DoctorArgs),
    /// Print the JSON Schema of a file, for editors
    Schema(commands::schema::SchemaArgs),
    /// Print the script that completes commands, flags and names in a shell
    Completions(commands::completions::CompletionsArgs),
    /// Write the manual pages
    Man(commands::man::ManArgs),
}

/// Runs the program with the process's arguments.
#[must_use]
pub fn main() -> std::process::ExitCode {
    if let Some(code) = keep_local_job() {
        return code;
    }
    if let Some(code) = commands::completions::answer(Cli::command) {
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
fn answered_at_once() -> Option<Result<Exit, CommandFailure>> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let words: Option<Vec<&str>> = arguments.iter().map(|word| word.to_str()).collect();
    match words?[..] {
        ["--version" | "-V"] => {
            let version = concat!("oomctl ", env!("CARGO_PKG_VERSION"));
            Some(print::data(version).map(|()| Exit::Success))
        }
        ["completions", shell] => commands::completions::of(shell),
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

fn run(command: CliCommand) -> Result<Exit, CommandFailure> {
    match command {
        CliCommand::Submit(args) => commands::submit::run(&args),
        CliCommand::Watch(args) => commands::watch::run(&args),
        CliCommand::Run(args) => commands::run::run(&args),
        CliCommand::Status(args) => commands::status::run(&args),
        CliCommand::History(args) => commands::history::run(&args),
        CliCommand::Report(args) => commands::report::run(&args),
        CliCommand::Cancel(args) => commands::cancel::run(&args),
        CliCommand::Diagnose(args) => commands::diagnose::run(&args),
        CliCommand::Fix(args) => commands::fix::run(&args),
        CliCommand::Render(args) => commands::render::run(&args),
        CliCommand::Estimate(args) => commands::estimate::run(&args),
        CliCommand::Plan(args) => commands::plan::run(&args),
        CliCommand::Adopt(args) => commands::adopt::run(&args),
        CliCommand::Sweep(args) => commands::sweep::run(&args),
        CliCommand::Tune(args) => commands::tune::run(&args),
        CliCommand::Explain(args) => commands::explain::run(&args),
        CliCommand::Presets(args) => commands::presets::run(&args),
        CliCommand::Measure(args) => commands::measure::run(&args),
        CliCommand::Gpus(args) => commands::gpus::run(&args),
        CliCommand::Probe(args) => commands::probe::run(&args),
        CliCommand::Init(args) => commands::init::run(&args),
        CliCommand::Doctor(args) => commands::doctor::run(&args),
        CliCommand::Schema(args) => commands::schema::run(&args),
        CliCommand::Completions(args) => commands::completions::run(&args),
        CliCommand::Man(args) => commands::man::run(&args),
    }
}
