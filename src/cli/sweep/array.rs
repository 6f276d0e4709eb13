//! Submitting the job array that a script of the user's own asks for: each of its tasks is a run.

use super::cells::{SweepPlan, array_head};
use super::go;
use crate::cli::args::SubmitOptions;
use crate::cli::runs::ended;
use crate::cli::script::{agreed, dry_run};
use crate::cli::session::Session;
use crate::cli::watch::pipeline::Pipeline;
use crate::core::adopt::TaskList;
use crate::core::exit::Exit;
use crate::core::request::Request;
use crate::view::run_view::document;
use crate::view::{CommandFailure, print};

/// The request that is shown of a script: of an array, which is told, the first task.
pub fn shown(request: &Request) -> Result<Request, CommandFailure> {
    if let Some(list) = request.array()? {
        let at_once = list.at_once.and_then(|n| usize::try_from(n).ok());
        print::talk(&array_head(&request.inputs().run, &list.indices, at_once));
    }
    first_task(request)
}

/// The first task of an array. Values of others may differ, which is told.
fn first_task(request: &Request) -> Result<Request, CommandFailure> {
    let task = request.first_task()?;
    if task.inputs().layers != request.inputs().layers {
        print::talk(
            "the script computes values from the index of the task; shown is the first task",
        );
    }
    Ok(task)
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
        let first = first_task(request)?;
        if self.dry_run {
            dry_run(session, &first, self.json)?;
            return Ok(Exit::Success);
        }
        agreed(session, &first, None, self.yes)?;
        go(plan, pipeline, stays, &|supervisor, code| match self.json {
            true => print::json(&document(&ended::views(supervisor), Some(code))),
            false => print::data(&ended::run_list(supervisor)),
        })
    }
}
