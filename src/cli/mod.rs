//! The room that people talk to: what the commands are, and what is asked for.
//!
//! Rule: one file a command in `commands/`; what several commands need hangs on a `Session`, or stands in the room of
//! its subject. No room but `commands/` knows a command.

#![allow(
    clippy::disallowed_methods,
    reason = "reads what the user asked for: arguments, environment, working directory"
)]

mod args;
mod ask;
mod commands;
mod config_files;
mod examples;
mod gpus;
mod help;
mod init;
mod interrupt;
mod launch;
mod logs;
mod measure;
mod overviews;
#[cfg(test)]
#[path = "tests/remedies.rs"]
mod remedies;
mod request;
mod runs;
mod schema;
mod script;
mod session;
mod since;
mod sweep;
mod tune;
mod values;
mod watch;
mod watch_chain;

use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::core::exit::Exit;
use crate::io::scheduler::local;
use crate::view::{CommandFailure, print};
use oomctl_base::nearest;

/// Submits training jobs to Slurm, recognises GPU out-of-memory failures, and resubmits with a
/// configuration that fits.
#[derive(Debug, Parser)]
#[command(
    name = "oomctl",
    version,
    arg_required_else_help = true,
    subcommand_required = true,
    after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}")
)]
struct Cli {
    /// Print only results, warnings, errors and questions
    #[arg(short, long, global = true, display_order = 900)]
    quiet: bool,
    #[command(subcommand)]
    command: CliCommand,
}

const EXAMPLES: &str = "\
Examples:
  oomctl plan my_job.slurm                     what would oomctl change after an out-of-memory?
  oomctl submit -w my_job.slurm                your own script: submit, follow, resubmit smaller
  oomctl watch 4711                            the same for a job that already runs
  oomctl diagnose slurm-4711.err               why did it die?";

/// A shorter beginning of an option may be that of many.
const SHORTEST: usize = 4;

const EXIT_CODES: &str = "\
Exit codes: 0 success, 1 the job failed for another reason, 2 usage,
3 still out of GPU memory, 4 refused by the scheduler, 5 configuration,
6 time limit, preemption or node failure, 7 ledger, 8 budget, 9 cancelled,
129, 130, 143 detached by a signal.";

#[derive(Debug, Subcommand)]
enum CliCommand {
    /// Submit a job script, or the job of the project file
    Submit(commands::submit::SubmitArgs),
    /// Follow runs; after an out-of-memory, shrink and resubmit
    Watch(commands::watch::WatchArgs),
    /// Go on with a run that is over, once its cause is fixed
    Retry(commands::retry::RetryArgs),
    /// Run a program on a free GPU of this machine
    Run(commands::run::RunArgs),
    /// Show runs and their attempts
    Status(commands::status::StatusArgs),
    /// Print the logs of a run, or follow them
    Logs(commands::logs::LogsArgs),
    /// List every attempt with its cause and peak memory
    History(commands::history::HistoryArgs),
    /// Write a page about a run: attempts, memory, cost
    Report(commands::report::ReportArgs),
    /// Cancel runs and their jobs
    Cancel(commands::cancel::CancelArgs),
    /// Remove the folders of runs that are over
    Prune(commands::prune::PruneArgs),
    /// Say why a job died, with the log line that proves it
    Diagnose(commands::diagnose::DiagnoseArgs),
    /// Say what to change after a failure, from its log
    Fix(commands::fix::FixArgs),
    /// Print the files that would be submitted (submit --dry-run)
    Render(commands::render::RenderArgs),
    /// Estimate the GPU memory of a job before it runs
    Estimate(commands::estimate::EstimateArgs),
    /// Measure the memory of a job or program on phantom GPUs
    Measure(commands::measure::MeasureArgs),
    /// Show what would change after each out-of-memory
    #[command(alias = "adopt")]
    Plan(commands::plan::PlanArgs),
    /// Find the cells of a sweep that cannot fit; run the others
    Sweep(commands::sweep::SweepArgs),
    /// Propose the fastest configuration that still fits
    Tune(commands::tune::TuneArgs),
    /// Show where a value comes from, and what it overrides
    Explain(commands::explain::ExplainArgs),
    /// List presets and profiles, or show one
    Presets(commands::presets::PresetsArgs),
    /// Show what GPUs hold and who holds it; wait for a free one
    Gpus(commands::gpus::GpusArgs),
    /// Sample the GPUs of this node into a run's folder
    Probe(commands::probe::ProbeArgs),
    /// Write a job script, or a commented oomctl.yaml
    Init(commands::init::InitArgs),
    /// Check everything that oomctl needs
    Doctor(commands::doctor::DoctorArgs),
    /// Print the JSON Schema of a file
    Schema(commands::schema::SchemaArgs),
    /// Print completions for a shell
    Completions(commands::completions::CompletionsArgs),
    /// Write the manual pages
    Man(commands::man::ManArgs),
}

/// Runs the program with the process's arguments.
pub fn main() -> std::process::ExitCode {
    if let Some(code) = keep_local_job() {
        return code;
    }
    if let Some(code) = commands::completions::answer(command) {
        return code.code().into();
    }
    let done = match answered_at_once() {
        Some(done) => done,
        None => match parsed() {
            Ok(cli) => {
                if cli.quiet {
                    print::be_quiet();
                }
                run(cli.command)
            }
            Err(error) => Ok(print::usage(&error)),
        },
    };
    let exit = done.unwrap_or_else(|failure| failure.report());
    exit.code().into()
}

fn command() -> clap::Command {
    help::grouped(examples::added(Cli::command()))
}

fn parsed() -> Result<Cli, clap::Error> {
    let mut command = command();
    let matches = command.try_get_matches_from_mut(std::env::args_os());
    let takes_sbatch = |error| match std::env::args().nth(1).as_deref() {
        Some("submit" | "plan") => with_sbatch(error),
        _ => error,
    };
    let matches = matches.map_err(|e| with_commands(takes_sbatch(with_nearest(e)), &command))?;
    if asks_for_json(&matches) {
        print::errors_as_json();
    }
    Cli::from_arg_matches(&matches).map_err(|e| e.format(&mut command))
}

/// Whether the command, or the one below it, has `--json`.
fn asks_for_json(matches: &clap::ArgMatches) -> bool {
    let here = matches.try_get_one::<bool>("json").ok().flatten();
    here.copied().unwrap_or_default() || matches.subcommand().is_some_and(|(_, m)| asks_for_json(m))
}

/// Of what clap takes for similar only what is nearest or begins so, and that only where it is near.
fn with_nearest(mut error: clap::Error) -> clap::Error {
    for (typed, alike) in [
        (
            ContextKind::InvalidSubcommand,
            ContextKind::SuggestedSubcommand,
        ),
        (ContextKind::InvalidArg, ContextKind::SuggestedArg),
        (ContextKind::InvalidValue, ContextKind::SuggestedValue),
    ] {
        let names = match error.remove(alike) {
            Some(ContextValue::Strings(names)) => names,
            Some(ContextValue::String(name)) => vec![name],
            _ => continue,
        };
        let Some(ContextValue::String(typed)) = error.get(typed) else {
            continue;
        };
        let begun = |name: &&str| typed.len() > SHORTEST && name.starts_with(&**typed);
        let mut names = names.iter().map(String::as_str);
        if let Some(near) = nearest(typed, names.clone()).or_else(|| names.find(begun)) {
            let near = ContextValue::String(near.to_owned());
            error.insert(alike, near);
        }
    }
    // How to pass an option that is none as a value helps nobody.
    error.remove(ContextKind::Suggested);
    error
}

/// Commands that are named of those that have an option.
const MOST_COMMANDS: usize = 3;

/// Of an option of other commands: which.
fn with_commands(mut error: clap::Error, command: &clap::Command) -> clap::Error {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let name = typed.split('=').next().unwrap_or_default().to_owned();
    let has = |command: &&clap::Command| {
        let mut options = command.get_arguments().filter(|a| !a.is_hide_set());
        options.any(|a| a.get_long().is_some_and(|long| name == format!("--{long}")))
    };
    let commands = command.get_subcommands().filter(has);
    let commands: Vec<_> = commands
        .map(|c| format!("`oomctl {}`", c.get_name()))
        .collect();
    let is_near = error.get(ContextKind::SuggestedArg).is_some();
    if error.kind() == ErrorKind::UnknownArgument && !is_near && !commands.is_empty() {
        let more = if commands.len() > MOST_COMMANDS {
            ", …"
        } else {
            ""
        };
        let named = commands[..commands.len().min(MOST_COMMANDS)].join(", ");
        let tip = format!("{name} is an option of {named}{more}");
        let mut tips = match error.remove(ContextKind::Suggested) {
            Some(ContextValue::StyledStrs(tips)) => tips,
            _ => Vec::new(),
        };
        tips.push(tip.into());
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
    error
}

/// Of an option before a script that is none of ours: how it gets to sbatch.
fn with_sbatch(mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let name = typed.split(['=', ' ']).next().unwrap_or_default();
    let (_, value) = typed.split_once(['=', ' ']).unwrap_or(("", "VALUE"));
    let written = match typed.starts_with("--") {
        true => format!("{name}={value}"),
        false => format!("{name}{value}"),
    };
    let tip = format!(
        "put an option of your program after SCRIPT, and one of sbatch into `--sbatch={written}`, in one word"
    );
    if error.kind() == ErrorKind::UnknownArgument && error.get(ContextKind::SuggestedArg).is_none()
    {
        let tip = ContextValue::StyledStrs(vec![tip.into()]);
        error.insert(ContextKind::Suggested, tip);
    }
    error
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
        CliCommand::Retry(args) => commands::retry::run(&args),
        CliCommand::Run(args) => commands::run::run(&args),
        CliCommand::Status(args) => commands::status::run(&args),
        CliCommand::Logs(args) => commands::logs::run(&args),
        CliCommand::History(args) => commands::history::run(&args),
        CliCommand::Report(args) => commands::report::run(&args),
        CliCommand::Cancel(args) => commands::cancel::run(&args),
        CliCommand::Prune(args) => commands::prune::run(&args),
        CliCommand::Diagnose(args) => commands::diagnose::run(&args),
        CliCommand::Fix(args) => commands::fix::run(&args),
        CliCommand::Render(args) => commands::render::run(&args),
        CliCommand::Estimate(args) => commands::estimate::run(&args),
        CliCommand::Plan(args) => commands::plan::run(&args),
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
