//! The turn that a job takes at the end of its own script (`submit --supervise script`).

use crate::core::engine::{History, NextLook, WatchTurn, next_look};
use std::path::PathBuf;

use super::BREATH_S;
use crate::cli::runs::Runs;
use crate::cli::session::working_directory;
use crate::cli::watch_chain::jobs::{aim, begun, dismiss, note, send, watch_job};
use crate::cli::watch_chain::step::step;
use crate::core::exit::Exit;
use crate::drive::attempt_logs;
use crate::io::files::read_end;
use crate::io::scheduler::ending::EndingJobScheduler;
use crate::io::scheduler::slurm::{Slurm, WatchStart};
use crate::view::CommandFailure;
use oomctl_base::job::JobId;
use oomctl_diagnose::Scanner;

/// Seconds for such a turn: its job still holds its GPUs.
const PATIENCE_S: u64 = 30;
/// Bytes at the end of a log that are read for how the program ended.
const LOG_END: u64 = 256 << 10;
/// From this exit code on a signal ended the program, or the script itself.
const BY_SIGNAL: i32 = 128;

/// Does what is due for a run whose job ends with exit code `code`, from within that job. A watch job stands ready
/// all the time, and takes the turn where this one is not begun, does not come to its end, or cannot know how the job ended.
pub fn turn_at_end(wanted: &str, code: i32) -> Result<(), CommandFailure> {
    let Some(job) = own_job(&|name| std::env::var(name).ok()) else {
        let what = "--ended belongs at the end of a job's script, and this is not a Slurm job";
        return Err(CommandFailure::usage(what).hint(format!("`oomctl watch {wanted}`")));
    };
    let stored = Runs::of(&working_directory()?).find(wanted)?;
    if next_look(&stored.history) == NextLook::Never {
        return Ok(());
    }
    let request = stored.request()?;
    let folder = stored.folder;
    let scanner = Scanner::new(request.progress()).knowing(&request.inputs().signatures);
    let logs = stored.history.attempt().map(|a| attempt_logs(&folder, a));
    let killed = code != 0 && is_bare_kill(scanner, &logs.unwrap_or_default());
    let unknown = code >= BY_SIGNAL || killed;
    let last = begun(&folder);
    let standing = last.as_ref().and_then(|last| last.ready.clone());
    let number = last.map_or(1, |last| last.number.saturating_add(1));
    if unknown && standing.is_some() {
        // A time limit, a preemption, a cancellation, host memory: the scheduler says which, afterwards, to the watch job
        // that waits for the end of this one.
        return Ok(());
    }
    let next = watch_job(&request, &folder, number.saturating_add(1), 0, None)?;
    let start = WatchStart {
        after: Some(job.clone()),
        in_s: if unknown { 0 } else { BREATH_S },
    };
    let refused = |why: String| CommandFailure::refused(why);
    let sent = send(&next, &start);
    if unknown {
        return sent.map(drop).map_err(refused);
    }
    let me = WatchTurn {
        number,
        job,
        done: false,
        ready: sent.as_ref().ok().cloned(),
    };
    note(&folder, &me)?;
    // The one that stood ready until now finds this turn taken.
    if let (Some(standing), Ok(_)) = (standing, &sent) {
        dismiss(&standing);
    }
    let scheduler = EndingJobScheduler::new(Slurm::new(), me.job.clone(), code);
    let told = step(request, folder, Box::new(scheduler), PATIENCE_S);
    match (told, sent) {
        // The next job has somebody behind it from its first second on.
        (Ok(Some(history)), Ok(ready)) if is_seen_to(&history, &me.job) => aim(&ready, &history),
        (Ok(Some(history)), Err(_)) if is_seen_to(&history, &me.job) => {}
        (Err(failure), Ok(ready)) if failure.exit() == Exit::Configuration => {
            dismiss(&ready);
            return Err(failure);
        }
        (Ok(_), Ok(_)) => {}
        (Err(failure), _) => return Err(failure),
        (Ok(_), Err(_)) => drop(send(&next, &start).map_err(refused)?),
    }
    Ok(())
}

/// Do the logs end with a process that was killed, and not with why? A launcher that lost one ends with a code of its own,
/// and whether memory was short only the accounting of the job says, which is written after its end.
fn is_bare_kill(mut scanner: Scanner, logs: &[PathBuf]) -> bool {
    for log in logs {
        let Ok((_, text)) = read_end(log, LOG_END) else {
            continue;
        };
        let source = scanner.source("");
        scanner.feed(source, 0, &text);
        scanner.finish_source(source);
    }
    scanner.verdict(None).is_bare_kill()
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

    #[test]
    fn a_kill_without_a_witness_is_left_to_the_accounting_and_a_known_failure_is_not() {
        // What torchrun says of a rank that is gone (torch.distributed.elastic, 2.x), and Slurm of a kill for memory.
        let killed = "E0302 10:13:05.000000 4711 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -9) local_rank: 0 (pid: 4712) of binary: /usr/bin/python3\n";
        let witness = "slurmstepd-node1: error: Detected 1 oom-kill event(s) in StepId=7.batch. Some of your processes may have been killed by the cgroup out-of-memory handler.\n";
        let gpu = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.18 GiB of which 1.00 GiB is free.\n";
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("slurm.err");
        let long = "step 1\n".repeat(100_000);
        for (text, left) in [
            (killed.to_owned(), true),
            (format!("{long}{killed}"), true),
            (format!("{killed}{witness}"), false),
            (format!("{gpu}{killed}"), false),
            (String::new(), false),
        ] {
            std::fs::write(&log, &text).unwrap();
            assert_eq!(
                is_bare_kill(scanner(), std::slice::from_ref(&log)),
                left,
                "{text:.300}"
            );
        }
    }

    fn scanner() -> Scanner {
        Scanner::new(&[])
    }
}
