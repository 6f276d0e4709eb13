//! What an argument means: a file, standard input, a run of this project, or any job of Slurm.

use crate::core::engine::{Attempt, History, Outcome};
use std::collections::HashMap;
use std::path::PathBuf;

use jiff::Timestamp;

use super::absent::with_logs_there;
use super::{LogGroup, OutputPart, STDIN, Unread, cannot};
use crate::cli::runs::present::ask;
use crate::cli::runs::{self, Runs, Stored, is_job_id};
use crate::cli::script::foreign_outputs;
use crate::drive::attempt_logs;
use crate::io::program_logs::is_of_another;
use crate::io::scheduler::slurm::{self, Foreign, Slurm};
use crate::io::scheduler::{Scheduler, tasks_named};
use crate::view::outcome::{hint, reason};
use crate::view::{CommandFailure, print};
use oomctl_base::job::{JobId, JobRef, JobState, Stage};

/// Runs or tasks that are named in one line.
const MOST_NAMED: usize = 8;

/// What an argument means. Files go before runs and jobs of the same name.
pub fn meant(runs: &Runs, argument: &str) -> Result<Vec<LogGroup>, CommandFailure> {
    groups(runs, argument, false)
}

/// The same with what the scheduler says now of the job of a run.
pub fn asked(runs: &Runs, argument: &str) -> Result<Vec<LogGroup>, CommandFailure> {
    groups(runs, argument, true)
}

fn groups(runs: &Runs, argument: &str, asks: bool) -> Result<Vec<LogGroup>, CommandFailure> {
    let path = PathBuf::from(argument);
    if argument == STDIN {
        return Ok(vec![LogGroup::of_files(vec![path])]);
    }
    let is_path =
        argument.contains(['/', '\\']) || path.extension().is_some() && !is_job_id(argument);
    match path.metadata() {
        Ok(_) => return Ok(vec![LogGroup::of_files(vec![path])]),
        Err(missing) if is_path => {
            let failure = cannot(&path, &Unread::Failed(missing));
            return Err(with_logs_there(&path, failure));
        }
        Err(_) => {}
    }
    let of_run = |stored: Stored| {
        let mut stored = [stored];
        if asks {
            ask(runs, &mut stored, Timestamp::now())?;
        }
        Ok(of_run(&stored[0], argument))
    };
    let failure = match runs.find(argument) {
        Ok(stored) => {
            had_a_job(&stored)?;
            return of_run(stored);
        }
        Err(failure) => failure,
    };
    if let Some(run) = run_of_many(runs, argument)? {
        return of_run(runs.open(&run)?);
    }
    let may_be_a_job = is_job_id(argument);
    if may_be_a_job && slurm::available() {
        return Ok(vec![of_job(&task_of_array(argument)?)?]);
    }
    match !may_be_a_job && runs.names()?.is_empty() {
        true => Err(with_logs_there(&path, failure)),
        false => Err(failure),
    }
}

/// The run that is meant by the name of a sweep or the id of an array: the first that died.
fn run_of_many(runs: &Runs, argument: &str) -> Result<Option<String>, CommandFailure> {
    let (names, _) = runs.expand(&[argument.to_owned()])?;
    if names.iter().any(|name| name == argument) {
        return Ok(None);
    }
    let (mut died, mut recovered) = (Vec::new(), 0);
    for name in &names {
        let Ok(stored) = runs.open(name) else {
            continue;
        };
        let attempts = attempts(&stored.history, argument);
        if attempts
            .iter()
            .any(|a| a.incident.as_ref().is_some_and(|i| i.fatal))
        {
            recovered += usize::from(stored.history.outcome == Some(Outcome::Succeeded));
            died.push(name);
        }
    }
    let then = match recovered {
        0 => String::new(),
        n if n == died.len() => " at first".to_owned(),
        n => format!(", {n} at first only"),
    };
    Ok(Some(first_died(argument, "runs", &names, (&died, &then))))
}

/// The job that is meant by the id of an array: its first task that failed. Slurm itself takes the id for the last task.
fn task_of_array(id: &str) -> Result<String, CommandFailure> {
    let (now, mut slurm) = (Timestamp::now(), Slurm::new());
    let job = |id: &str| JobRef::foreign(id, now);
    let failure = |e| CommandFailure::refused(format!("Slurm does not report job {id}: {e}"));
    let tasks = match id.contains(['_', '+']) {
        true => return Ok(id.to_owned()),
        false => slurm.tasks(&job(id)).map_err(failure)?,
    };
    if tasks.is_empty() {
        return Ok(id.to_owned());
    }
    let names: Vec<String> = tasks.into_values().map(|task| task.id.0).collect();
    let jobs: Vec<JobRef> = names.iter().map(|name| job(name)).collect();
    let poll = slurm.poll(&jobs, now).map_err(failure)?;
    let failed = |name: &&String| {
        let mut all = poll.jobs.iter();
        all.any(|s| s.id.0 == **name && s.state.stage() == Stage::Ended && !is_no_failure(&s.state))
    };
    let failed: Vec<&String> = names.iter().filter(failed).collect();
    Ok(first_died(id, "tasks", &names, (&failed, "")))
}

fn is_no_failure(state: &JobState) -> bool {
    matches!(state, JobState::Completed | JobState::Cancelled)
}

/// The first of those that died, else the first of all; which of how many it is is told, and for how many that was not the end.
fn first_died(
    argument: &str,
    what: &str,
    all: &[String],
    (died, then): (&[&String], &str),
) -> String {
    let died: Vec<&str> = died.iter().map(|name| name.as_str()).collect();
    let shown = died.iter().take(MOST_NAMED).copied().collect::<Vec<_>>();
    let (shown, more) = (shown.join(", "), died.len().saturating_sub(MOST_NAMED));
    let more = match more {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    let first = died.first().copied().or(all.first().map(String::as_str));
    let first = first.unwrap_or(argument);
    let died = match died.len() {
        0 => "none of them failed".to_owned(),
        n => format!("{n} of them failed{then} ({shown}{more})"),
    };
    print::talk(&format!(
        "{argument} has {} {what}, and {died}; this is about {first}",
        all.len()
    ));
    first.to_owned()
}

/// A run of which the scheduler took no job has no log to look at.
fn had_a_job(stored: &runs::Stored) -> Result<(), CommandFailure> {
    let history = &stored.history;
    let refused = history.outcome.as_ref().filter(|outcome| {
        matches!(outcome, Outcome::Refused { .. })
            && history.attempts.iter().all(|a| a.job.is_none())
    });
    let Some(outcome) = refused else {
        return Ok(());
    };
    let why = reason(outcome).unwrap_or_default();
    let failure = CommandFailure::refused(format!("{} has no log: {why}", history.run));
    Err(match hint(outcome, history) {
        Some(hint) => failure.hint(hint),
        None => failure,
    })
}

/// The attempts that are meant by the id of their job, or of the array with it; by any other name all of the run.
fn attempts<'h>(history: &'h History, wanted: &str) -> Vec<&'h Attempt> {
    let is_task = tasks_named(wanted);
    let is_meant = |id: &JobId| id.0 == wanted || is_task.as_ref().is_some_and(|is| is(id));
    let of_job = |a: &&Attempt| a.job.as_ref().is_some_and(|job| is_meant(&job.id));
    let named: Vec<&Attempt> = history.attempts.iter().filter(of_job).collect();
    match history.run == wanted || named.is_empty() {
        true => history.attempts.iter().collect(),
        false => named,
    }
}

/// All attempts of a run, or those with the job.
pub fn of_run(stored: &runs::Stored, wanted: &str) -> Vec<LogGroup> {
    let history = &stored.history;
    let request = stored.request();
    let of_program = request.map(|request| LogGroup::default().of_request(&request));
    let of_program = of_program.unwrap_or_default();
    let group = |a: &Attempt| {
        let (program, overwritten) = program_logs(history, a);
        let own = attempt_logs(&stored.folder, a).into_iter();
        let printed = a.program_logs();
        let own = own.filter(|path| !printed.iter().any(|log| log.path == *path));
        LogGroup {
            files: own.collect(),
            attempt: Some((history.run.clone(), a.number)),
            status: a.status.clone(),
            starts: a.log_starts.clone(),
            overwritten,
            ..of_program.clone()
        }
        .with_program(program)
    };
    attempts(history, wanted).into_iter().map(group).collect()
}

/// The files that the program of an attempt has printed into, each up to where a later attempt goes on; and those that a later
/// one began anew.
fn program_logs(history: &History, attempt: &Attempt) -> (Vec<OutputPart>, Vec<PathBuf>) {
    let (mut texts, mut overwritten) = (Vec::new(), Vec::new());
    let logs = attempt.program_logs().into_iter();
    for log in logs.filter(|log| !is_of_another(log, attempt.status.as_ref())) {
        let starts = attempt.starts();
        let start = starts.iter().find(|start| start.path == log.path);
        let start = start.map_or(0, |start| start.offset);
        let later = history
            .attempts
            .iter()
            .filter(|a| a.number > attempt.number);
        let mut later = later.flat_map(|a| a.program_logs().into_iter().map(move |log| (a, log)));
        let next = later.find(|(_, next)| next.path == log.path);
        let end = match &next {
            Some((later, next)) if next.stale.is_some() => {
                if !is_of_another(next, later.status.as_ref()) {
                    overwritten.push(log.path);
                    continue;
                }
                None
            }
            Some((_, next)) => Some(next.offset),
            None => None,
        };
        texts.push(OutputPart {
            path: log.path,
            start,
            end,
        });
    }
    (texts, overwritten)
}

/// A job of Slurm that is no run of this project.
fn of_job(id: &str) -> Result<LogGroup, CommandFailure> {
    let now = Timestamp::now();
    let job = JobRef::foreign(id, now);
    let mut slurm = Slurm::new();
    let poll = slurm
        .poll(std::slice::from_ref(&job), now)
        .map_err(|e| CommandFailure::refused(format!("Slurm does not report job {id}: {e}")))?;
    let status = poll.jobs.into_iter().next();
    let files = match slurm.log_paths(&job) {
        Some((out, err)) if out == err => vec![out],
        Some((out, err)) => vec![err, out],
        None => Vec::new(),
    };
    let program = foreign_outputs(&slurm, &job, status.as_ref()).into_iter();
    let program = program.filter(|log| !is_of_another(log, status.as_ref()));
    let program: Vec<OutputPart> = program.map(OutputPart::from).collect();
    if files.is_empty() && program.is_empty() {
        let what = match &status {
            Some(status) => format!(
                "job {id} is {}, and Slurm no longer reports where its logs are",
                status.state.word()
            ),
            None => format!("Slurm knows no job {id}"),
        };
        let foreign = slurm.foreign(&job).ok().flatten();
        return Err(CommandFailure::usage(what).hint(
            match foreign.as_ref().and_then(Foreign::project) {
                Some(folder) => format!("`cd {}`, then `oomctl diagnose {id}`", folder.display()),
                None => "give the paths of its logs".to_owned(),
            },
        ));
    }
    let group = LogGroup {
        files,
        status,
        ..LogGroup::default()
    };
    Ok(group.with_program(program))
}

/// Puts the files of one job together: `slurm-7.out` and `slurm-7.err`.
pub fn paired(groups: Vec<LogGroup>) -> Vec<LogGroup> {
    let mut paired: Vec<LogGroup> = Vec::with_capacity(groups.len());
    let mut places: HashMap<PathBuf, usize> = HashMap::new();
    for group in groups {
        let place = stem(&group).map(|job| *places.entry(job).or_insert(paired.len()));
        match place.and_then(|place| paired.get_mut(place)) {
            Some(other) => other.files.extend(group.files),
            None => paired.push(group),
        }
    }
    paired
}

/// What the two logs of one job have in common: the path without `.out` or `.err`.
fn stem(group: &LogGroup) -> Option<PathBuf> {
    let first = group.files.first().filter(|_| group.attempt.is_none())?;
    let ending = first.extension()?.to_str()?;
    ["out", "err", "stdout", "stderr", "o", "e"]
        .contains(&ending)
        .then(|| first.with_extension(""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use oomctl_base::word_list;

    #[test]
    fn the_two_logs_of_a_job_belong_together() {
        let groups = word_list::<5>("a/slurm-7.err b/slurm-7.out a/slurm-7.out x.log y.log")
            .map(|f| LogGroup::of_files(vec![f.into()]));
        let files: Vec<usize> = paired(groups.into())
            .iter()
            .map(|g| g.files.len())
            .collect();
        assert_eq!(files, [2, 1, 1, 1]);
    }
}
