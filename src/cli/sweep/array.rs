//! Submitting the job array that a script of the user's own asks for: each of its tasks is a run.

use super::cells::SweepPlan;
use super::go;
use crate::cli::args::{Configuration, SubmitOptions};
use crate::cli::request::learned;
use crate::cli::runs::ended;
use crate::cli::script::{agreed, dry_run, shown_task};
use crate::cli::session::Session;
use crate::cli::watch::pipeline::Pipeline;
use crate::core::adopt::TaskList;
use crate::core::exit::Exit;
use crate::core::request::Request;
use crate::view::run_view::document;
use crate::view::{CommandFailure, print};

/// The request that is shown of a script: of an array, which is told, the first task as it would start.
pub fn shown(
    session: &Session,
    flags: &Configuration,
    request: Request,
) -> Result<Request, CommandFailure> {
    let Some(list) = request.array()? else {
        return Ok(request);
    };
    let memory = learned::memory(session, flags.fresh);
    let plan = SweepPlan::of_array(request.run(), &request, &list, memory.as_ref())?;
    first_task(&plan, &request)
}

/// The first task of an array, which is told. Values of others may differ, which is told too.
fn first_task(plan: &SweepPlan, request: &Request) -> Result<Request, CommandFailure> {
    print::talk(&plan.head());
    plan.told().iter().for_each(|line| print::talk(line));
    let task = shown_task(request)?;
    if task.inputs().layers != request.inputs().layers {
        plan.batches().iter().for_each(|line| print::talk(line));
    }
    Ok(plan.first().cloned().unwrap_or(task))
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
        let first = first_task(&plan, request)?;
        if self.dry_run {
            return dry_run(session, &first, self.json);
        }
        agreed(session, &first, None, self.yes)?;
        go(plan, pipeline, stays, &|supervisor, code| match self.json {
            true => print::json(&document(&ended::views(supervisor), Some(code))),
            false => print::data(&ended::run_list(supervisor)),
        })
    }
}
