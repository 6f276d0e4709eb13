//! A job array that was submitted with plain sbatch: each of its tasks is the first attempt of a run.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::cells::check_count;
use crate::cli::args::{Backend, Configuration};
use crate::cli::runs::is_job_id;
use crate::cli::script::{
    JobArgs, Shelves, created, free, logs, ours, outputs_of, read, request, told,
};
use crate::cli::session::Session;
use crate::core::adopt::TaskList;
use crate::core::engine::SweepGroup;
use crate::core::request::{Adopts, Request};
use crate::core::sweep::indices;
use crate::drive::{ArrayRecord, SweepRecord};
use crate::io::scheduler::slurm::{self, Foreign, Slurm};
use crate::view::{CommandFailure, print};
use oomctl_base::job::{JobId, JobRef};

/// Takes over all tasks of a job array, those that live and those that ended. The name by which its runs are known, or
/// what was wanted where that is no such array. A take-over that was cut short goes on.
pub fn take_array(
    session: &Session,
    wanted: String,
    taking: &JobArgs,
) -> Result<String, CommandFailure> {
    let name = format!("job-{wanted}");
    let record = match is_job_id(&wanted) && !wanted.contains(['_', '+']) && slurm::available() {
        true => SweepRecord::read(&session.folder, &name)?,
        false => return Ok(wanted),
    };
    let exists = |run: &str| session.runs.dir().join(run).join("inputs.json").exists();
    match &record {
        Some(record) if record.sweep_group.runs.iter().all(|run| exists(run)) => return Ok(name),
        None if is_known(session, &wanted)? => return Ok(wanted),
        _ => {}
    }
    let slurm = Slurm::new();
    let tasks = slurm.tasks(&job(&wanted));
    let tasks = tasks.map_err(|e| CommandFailure::refused(format!("job {wanted}: {e}")))?;
    let Some(first) = tasks.values().next() else {
        return Ok(wanted);
    };
    check_count(tasks.len(), "tasks")?;
    let Some(foreign) = told(&slurm, &job(&first.id.0))? else {
        return Ok(wanted);
    };
    ours(&foreign)?;
    free(&foreign, taking)?;
    let whole = Foreign {
        id: JobId(wanted.clone()),
        ..foreign
    };
    let base = base(session, &slurm, &whole, &name, taking)?;
    let list = base.array()?;
    let record = match record {
        Some(record) => record,
        None => written(session, &name, list.as_ref(), &tasks)?,
    };
    let submitted = whole.submitted.unwrap_or_else(Timestamp::now);
    for (index, task) in &tasks {
        let run = format!("{name}_{index}");
        if exists(&run) || !record.sweep_group.runs.contains(&run) {
            continue;
        }
        let request = base.task(&run, *index, list.as_ref());
        let adopts = Adopts {
            job: JobRef {
                submitted: task.submitted.unwrap_or(submitted),
                ..job(&task.id.0)
            },
            gpus: task.gpus,
            logs: logs(task, &request),
            outputs: outputs_of(task, &request),
        };
        created(session, &run, request, adopts)?;
    }
    print::talk(&format!(
        "the {} tasks of job array {wanted} are the first attempts of the runs {name}_{}",
        tasks.len(),
        indices(&tasks.keys().copied().collect::<Vec<u32>>())
    ));
    Ok(name)
}

fn job(id: &str) -> JobRef {
    JobRef::foreign(id, Timestamp::now())
}

/// Is it, or one of its tasks, a job of a run that was not taken over task by task?
fn is_known(session: &Session, wanted: &str) -> Result<bool, CommandFailure> {
    let (names, _) = session.runs.expand(&[wanted.to_owned()])?;
    let alone = format!("job-{wanted}_");
    Ok(match names.as_slice() {
        [same] if same == wanted => session.runs.find(wanted).is_ok(),
        names => !names.iter().all(|name| name.starts_with(&alone)),
    })
}

/// The request that all tasks have in common, as it is agreed to.
fn base(
    session: &Session,
    slurm: &Slurm,
    array: &Foreign,
    name: &str,
    taking: &JobArgs,
) -> Result<Request, CommandFailure> {
    let flags = Configuration {
        backend: Some(Backend::Slurm),
        ..Configuration::default()
    };
    let shelves = Shelves::of_project(session, taking.preset())?;
    let (read, known) = read(slurm, array, taking, &shelves)?;
    let request = request(session, &flags, name, &read, &shelves)?;
    taking.agreed(session, request, known, &array.id.0)
}

/// Writes down which runs there are to be, before the first of them is made.
fn written(
    session: &Session,
    name: &str,
    list: Option<&TaskList>,
    tasks: &BTreeMap<u32, Foreign>,
) -> Result<SweepRecord, CommandFailure> {
    let all = list.map_or(&[][..], |l| &l.indices);
    let forgotten: Vec<u32> = all
        .iter()
        .filter(|i| !tasks.contains_key(i))
        .copied()
        .collect();
    if !forgotten.is_empty() {
        print::talk(&format!(
            "Slurm has forgotten the tasks {}; they are left out",
            indices(&forgotten)
        ));
    }
    let at_once = list.and_then(|l| usize::try_from(l.at_once?).ok());
    let runs: Vec<String> = tasks
        .keys()
        .map(|index| format!("{name}_{index}"))
        .collect();
    let array = ArrayRecord::new(name, runs.clone(), at_once)?;
    let group = SweepGroup {
        runs,
        at_once,
        is_array: true,
    };
    let array = array.with_indices(tasks.keys().copied().collect());
    let record = SweepRecord::new(name, group, vec![array]);
    record.write(&session.folder)?;
    Ok(record)
}
