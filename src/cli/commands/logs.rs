//! `oomctl logs`: what a job prints, once or as it grows.

use crate::cli::logs::{self, LogGroup, reading};
use crate::cli::session::Session;
use crate::core::exit::Exit;
use crate::view::CommandFailure;

/// Arguments of `logs`.
#[derive(Debug, clap::Args)]
pub struct LogsArgs {
    /// A run of this project, or a job id [default: the newest run]
    #[arg(value_name = "JOBID|RUN")]
    run: Option<String>,
    /// Follow the logs, through all attempts, until the run is over
    #[arg(short, long)]
    follow: bool,
    /// The attempt [default: the newest]
    #[arg(long, value_name = "N", conflicts_with = "follow")]
    attempt: Option<u32>,
    /// Standard error alone
    #[arg(long)]
    err: bool,
    /// Standard output alone
    #[arg(long, conflicts_with = "err")]
    out: bool,
    /// The logs of one node, by name or number from 0 [default: all nodes]
    #[arg(long, value_name = "N", conflicts_with_all = ["err", "out"])]
    node: Option<String>,
    /// Print the paths of the log files
    #[arg(long, conflicts_with = "follow")]
    paths: bool,
    /// Project file [default: oomctl.yaml here or above]
    #[arg(short, long, value_name = "FILE")]
    config: Option<std::path::PathBuf>,
}

/// Runs `oomctl logs`.
pub fn run(args: &LogsArgs) -> Result<Exit, CommandFailure> {
    let runs = &Session::of_runs(args.config.as_deref())?.runs;
    let name = runs.one_or_newest(args.run.as_ref())?;
    let stream = match (args.err, args.out, &args.node) {
        (_, _, Some(node)) => reading::Stream::Node(node.clone()),
        (true, _, _) => reading::Stream::Err,
        (_, true, _) => reading::Stream::Out,
        _ => reading::Stream::Both,
    };
    let stream = &stream;
    if args.follow {
        return reading::follow(runs, &name, stream).map(|()| Exit::Success);
    }
    let groups = logs::meant(runs, &name)?;
    let numbers: Vec<u32> = groups.iter().filter_map(number).collect();
    let wanted = |group: &&LogGroup| args.attempt.is_none() || number(group) == args.attempt;
    let Some(group) = groups.iter().rev().find(wanted) else {
        let what = match args.attempt {
            Some(n) => format!("{name} has no attempt {n}"),
            None => format!("{name} has no attempt yet"),
        };
        let hint = match (numbers.first(), numbers.last()) {
            (Some(first), Some(last)) => format!("its attempts are {first} to {last}"),
            _ => format!("`oomctl status {name}` says what it waits for"),
        };
        return Err(CommandFailure::usage(what).hint(hint));
    };
    match args.paths {
        true => reading::paths(group, stream),
        false => reading::print(group, stream),
    }
    .map(|()| Exit::Success)
}

fn number(group: &LogGroup) -> Option<u32> {
    group.attempt.as_ref().map(|(_, number)| *number)
}
