//! How a script or a template is submitted, and the job array that a script of the user's own asks for: each of its
//! tasks is a run.

use std::path::PathBuf;

use crate::cli::args::sbatch_option;
use crate::cli::runs::ended;
use crate::cli::script::submit::{agreed, dry_run};
use crate::cli::session::Session;
use crate::cli::sweep::{cells::SweepPlan, go};
use crate::cli::watch::pipeline::Pipeline;
use crate::core::adopt::TaskList;
use crate::core::exit::Exit;
use crate::core::request::Request;
use crate::view::run_view::document;
use crate::view::{CommandFailure, print};

/// How something is submitted.
#[derive(Debug, clap::Args)]
pub struct SubmitOptions {
    /// Measure on phantom GPUs first, take rungs until it fits there
    #[arg(long)]
    pub measure: bool,
    /// Show what would be submitted, and submit nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Option for sbatch (repeatable): --sbatch=--qos=high
    #[arg(long, value_name = "OPT", allow_hyphen_values = true, value_parser = sbatch_option)]
    pub sbatch: Vec<String>,
    /// Attempts in all, the first included
    #[arg(long, value_name = "N", hide_short_help = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub attempts: Option<u32>,
    /// Begin with a checkpoint: its folder, or the newest of a run
    #[arg(long, value_name = "FOLDER|RUN", hide_short_help = true)]
    pub resume_from: Option<PathBuf>,
    /// Do not ask before a script of your own is submitted
    #[arg(short, long)]
    pub yes: bool,
    /// Print one JSON document
    #[arg(short, long)]
    pub json: bool,
}

impl SubmitOptions {
    /// Refuses what is for one job, where an array is asked for.
    pub fn is_for_many(&self, list: &TaskList, supervised: bool) -> Result<(), CommandFailure> {
        let alone = [
            ("--supervise", supervised),
            ("--resume-from", self.resume_from.is_some()),
            ("--measure", self.measure),
        ];
        let Some((option, _)) = alone.iter().find(|(_, given)| *given) else {
            return Ok(());
        };
        let count = list.indices.len();
        let what = format!("{option} is for one job, and the script asks for {count} tasks");
        let hint = "leave it out, or choose one task with --sbatch=--array=INDEX";
        Err(CommandFailure::usage(what).hint(hint))
    }

    /// Shows what would be done of an array, asks, and does it.
    pub fn submit_array(
        &self,
        plan: SweepPlan,
        session: &Session,
        request: &Request,
        pipeline: &Pipeline<'_>,
        stays: bool,
    ) -> Result<Exit, CommandFailure> {
        print::talk(&plan.head());
        plan.told().iter().for_each(|line| print::talk(line));
        if self.dry_run {
            dry_run(session, request, self.json)?;
            return Ok(Exit::Success);
        }
        agreed(request, None, self.yes)?;
        go(plan, pipeline, stays, &|supervisor, code| match self.json {
            true => print::json(&document(&ended::views(supervisor), Some(code))),
            false => print::data(&ended::run_list(supervisor)),
        })
    }
}
