//! What of the watch in turns can be asked for on the command line.

use std::path::Path;

use super::{turn, turn_at_end};
use crate::core::request::Request;
use crate::view::CommandFailure;

/// Who looks after a run once it is submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Supervise {
    /// This process, until the run is over: the same as --watch
    Here,
    /// Small jobs, one after each attempt: no process stays on the login node
    Job,
    /// Each job itself, at the end of its script: where sites allow sbatch on compute nodes
    Script,
}

impl Supervise {
    /// Knobs that it sets, as `--set` takes them.
    pub fn knobs(self) -> Option<&'static str> {
        (self == Self::Script).then_some("turn_at_end=true")
    }

    /// The same for a run whose scripts exist: they take no turns at their end unless they were made to.
    pub fn check_retry(self, request: &Request) -> Result<(), CommandFailure> {
        if self == Self::Script {
            let what =
                "retry keeps the scripts of the run, and they decide about --supervise script";
            return Err(CommandFailure::usage(what).hint("--supervise job, or --watch"));
        }
        self.check(request)
    }

    /// Refuses what needs Slurm where there is none, before anything is written.
    pub fn check(self, request: &Request) -> Result<(), CommandFailure> {
        let how = match self {
            Self::Job => "job",
            Self::Script => "script",
            Self::Here => return Ok(()),
        };
        if self == Self::Script && request.inputs().scripts.is_some() {
            let what = "--supervise script works only with scripts made from a template";
            return Err(CommandFailure::usage(what).hint("--supervise job, or --watch"));
        }
        if request.inputs().backend == "slurm" {
            return Ok(());
        }
        let what = format!("--supervise {how} needs the backend slurm");
        Err(CommandFailure::usage(what)
            .hint("on this machine: `oomctl submit --watch`, under nohup or tmux"))
    }
}

/// Turns of the watch, as watch jobs and the scripts of jobs ask for them.
#[derive(Debug, clap::Args)]
pub struct WatchTurnArgs {
    /// Take this turn of the watch over one run, and send the next (what a watch job runs)
    #[arg(long, value_name = "N", hide = true, conflicts_with_all = ["once", "take_over", "json"])]
    turn: Option<u32>,
    /// Turns in a row that did nothing before it
    #[arg(long, value_name = "N", hide = true, requires = "turn")]
    in_vain: Option<u32>,
    /// Take a turn at the end of this job's script, which ends with this exit code (what the script runs)
    #[arg(long, value_name = "CODE", hide = true, conflicts_with_all = ["once", "take_over", "json", "turn"])]
    ended: Option<i32>,
}

impl WatchTurnArgs {
    /// Takes the turn that is asked for, if one is.
    pub fn take(
        &self,
        runs: &[String],
        config: Option<&Path>,
    ) -> Option<Result<(), CommandFailure>> {
        match (self.turn, self.ended, runs) {
            (Some(number), _, [run]) => Some(turn(run, config, number, self.in_vain.unwrap_or(0))),
            (_, Some(code), [run]) => Some(turn_at_end(run, code)),
            _ => None,
        }
    }
}
