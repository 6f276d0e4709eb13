//! The turn that a job takes at the end of its own script (`submit --supervise script`).

use super::super::print::Failure;
use super::super::runs;
use super::jobs::{begun, dismiss, note, send, watch_job};
use super::step::step;
use super::{BREATH_S, CONFIGURATION};
use crate::core::job::JobId;
use crate::core::supervise::{History, NextLook, Turn, next_look};
use crate::io::scheduler::ending::Ending;
use crate::io::scheduler::slurm::{Slurm, Start};

/// Seconds for such a turn: its job still holds its GPUs.
const PATIENCE_S: u64 = 30;
/// From this exit code on a signal ended the program, or the script itself.
const BY_SIGNAL: i32 = 128;

/// Does what is due for a run whose job ends with exit code `code`, from within that job. A watch job stands ready
/// meanwhile, and takes the turn where this one does not come to its end, or cannot know how the job ended.
pub fn turn_at_end(wanted: &str, code: i32) -> Result<(), Failure> {
    let Some(job) = own_job(&|name| std::env::var(name).ok()) else {
        let what = "--ended is for the end of a job's script, and this is no job of Slurm's";
        return Err(Failure::new(2, what).hint(format!("`oomctl watch {wanted}`")));
    };
    let here = std::env::current_dir()
        .map_err(|e| Failure::new(5, format!("cannot tell the working directory: {e}")))?;
    let stored = runs::find(&here, wanted)?;
    if next_look(&stored.history) == NextLook::Never {
        return Ok(());
    }
    let folder = stored.folder;
    let request = runs::request(&folder)?;
    let me = Turn {
        number: begun(&folder).map_or(1, |last| last.number.saturating_add(1)),
        job,
        done: false,
    };
    let next = watch_job(&request, &folder, me.number.saturating_add(1), 0, None)?;
    let start = Start {
        after: Some(me.job.clone()),
        in_s: if code < BY_SIGNAL { BREATH_S } else { 0 },
    };
    let refused = |why: String| Failure::new(4, why);
    let sent = send(&next, &start);
    if code >= BY_SIGNAL {
        // A time limit, a preemption, a cancellation, host memory: the scheduler says which, afterwards.
        return sent.map(drop).map_err(refused);
    }
    note(&folder, &me)?;
    let scheduler = Ending::new(Slurm::new(), me.job.clone(), code);
    let told = step(request, folder, Box::new(scheduler), PATIENCE_S);
    match (told, sent) {
        (Ok(Some(history)), Ok(ready)) if is_seen_to(&history, &me.job) => dismiss(&ready),
        (Ok(Some(history)), Err(_)) if is_seen_to(&history, &me.job) => {}
        (Err(failure), Ok(ready)) if failure.code() == CONFIGURATION => {
            dismiss(&ready);
            return Err(failure);
        }
        (Ok(_), Ok(_)) => {}
        (Err(failure), _) => return Err(failure),
        (Ok(_), Err(_)) => drop(send(&next, &start).map_err(refused)?),
    }
    Ok(())
}

/// The job that this process is part of. A task of an array is known by the array and its number.
fn own_job(variable: &dyn Fn(&str) -> Option<String>) -> Option<JobId> {
    let array = variable("SLURM_ARRAY_JOB_ID").zip(variable("SLURM_ARRAY_TASK_ID"));
    let task = array.map(|(array, task)| format!("{array}_{task}"));
    task.or_else(|| variable("SLURM_JOB_ID"))
        .filter(|id| !id.is_empty())
        .map(JobId)
}

/// Is the run over, or is there another job of it, whose script takes the next turn?
fn is_seen_to(history: &History, me: &JobId) -> bool {
    match next_look(history) {
        NextLook::Never => true,
        NextLook::After(job) => job.id != *me,
        NextLook::Later => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_of_an_array_is_named_as_the_ledger_names_it() {
        let own = |pairs: &[(&str, &str)]| {
            own_job(&|name| {
                let pair = pairs.iter().find(|(n, _)| *n == name);
                pair.map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(own(&[("SLURM_JOB_ID", "12")]), Some(JobId("12".into())));
        let task = [
            ("SLURM_JOB_ID", "14"),
            ("SLURM_ARRAY_JOB_ID", "12"),
            ("SLURM_ARRAY_TASK_ID", "1"),
        ];
        assert_eq!(own(&task), Some(JobId("12_1".into())));
        assert_eq!(own(&[]), None);
        assert_eq!(own(&[("SLURM_JOB_ID", "")]), None);
    }
}
