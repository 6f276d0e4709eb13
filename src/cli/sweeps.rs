//! Sweeps that were submitted: their runs, by the name of the sweep.

use std::collections::BTreeSet;
use std::path::Path;

use super::print::Failure;
use super::runs;
use crate::core::supervise::Phase;
use crate::drive::{Handle, Supervisor, SweepRecord};
use crate::io::scheduler::tasks_named;

/// What is meant, each once: names of sweeps and ids of job arrays are replaced by the names of their runs. And the sweeps.
pub fn expand(
    project: &Path,
    wanted: &[String],
) -> Result<(Vec<String>, Vec<SweepRecord>), Failure> {
    let (mut names, mut sweeps) = (Vec::new(), Vec::new());
    for name in wanted {
        if let Some(record) = SweepRecord::read(project, name)? {
            names.extend(record.flock.runs.iter().cloned());
            sweeps.push(record);
            continue;
        }
        let tasks = of_tasks(project, name);
        match tasks.is_empty() {
            true => names.push(name.clone()),
            false => names.extend(tasks),
        }
    }
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    Ok((names, sweeps))
}

/// The runs whose jobs are tasks of the array that is meant by its id, or by a list of its tasks.
fn of_tasks(project: &Path, wanted: &str) -> Vec<String> {
    let Some(is_meant) = tasks_named(wanted) else {
        return Vec::new();
    };
    let has_one = |name: &String| {
        runs::open(project, name).is_ok_and(|stored| {
            let mut jobs = stored
                .history
                .attempts
                .iter()
                .filter_map(|a| a.job.as_ref());
            jobs.any(|job| is_meant(&job.id))
        })
    };
    runs::names(project).into_iter().filter(has_one).collect()
}

/// The next command after a sweep was submitted.
pub fn next_step(supervisor: &Supervisor, sweep: &str) -> String {
    let waiting = |h: &&Handle| h.history().phase() == Phase::Preparing(1);
    match supervisor.runs().filter(waiting).count() {
        0 => format!("sweep {sweep}; next: oomctl watch {sweep}"),
        n => format!(
            "sweep {sweep}; {n} of its runs begin as others end, while `oomctl watch {sweep}` runs"
        ),
    }
}

/// Is there a sweep or a run of this name?
pub fn is_taken(project: &Path, name: &str) -> bool {
    let folder = SweepRecord::folder(project, name);
    folder.is_ok_and(|f| f.exists()) || runs::runs_dir(project).join(name).exists()
}
