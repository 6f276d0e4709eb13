//! Runs whose attempts are tasks of a job array: one submission for all that ask for the same, and an answer for each.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::DriveError;
use super::handle::Handle;
use super::notice::Observer;
use super::perform::{SCRIPT_MAX, answered, submission};
use super::record::{Array, SweepRecord, TaskPlace};
use super::supervisor::Supervisor;
use super::turn::tell;
use crate::core::adopt::is_array;
use crate::core::engine::{Action, Event, RunPhase, due};
use crate::core::render::dispatcher;
use crate::core::sweep::indices;
use crate::io::files::{Access, link, make_private_dir, read_text, write_atomic};
use crate::io::scheduler::{ArrayTasks, JobSubmission, SubmitAnswer};
use oomctl_base::job::{JobId, Token};

/// A task that is to be submitted.
struct ArrayTask {
    index: u32,
    run: String,
    attempt: u32,
    submission: JobSubmission,
    /// The script of the array that would have it as a task.
    dispatcher: String,
}

impl ArrayTask {
    /// Can both be tasks of one array?
    fn is_like(&self, other: &Self) -> bool {
        let (ours, theirs) = (&self.submission, &other.submission);
        self.dispatcher == other.dispatcher
            && ours.stderr.file_name() == theirs.stderr.file_name()
            && ours.options == theirs.options
            && ours.arguments == theirs.arguments
            && ours.environment == theirs.environment
    }
}

impl Supervisor {
    /// Takes in the arrays of a sweep whose runs were added.
    pub(super) fn take_arrays(&mut self, project: &Path, record: &SweepRecord) {
        let Ok(folder) = SweepRecord::folder(project, &record.sweep) else {
            return;
        };
        for (number, array) in (1..).zip(&record.arrays) {
            let tasks = array.tasks();
            for (index, run) in &tasks {
                if let Some(handle) = self.runs.get_mut(run) {
                    handle.task = Some(TaskPlace {
                        array: array.token.clone(),
                        index: *index,
                        always: !array.indices.is_empty(),
                    });
                }
            }
            self.arrays.push(Array {
                sweep: record.sweep.clone(),
                folder: folder.join(format!("array-{number}")),
                token: array.token.clone(),
                tasks,
                at_once: array.at_once,
            });
        }
    }

    /// Submits the arrays whose tasks are all prepared, each attempt by itself: tasks that ask for the same in one.
    pub(super) fn submit_arrays(&mut self, observer: &mut dyn Observer) {
        let arrays = std::mem::take(&mut self.arrays);
        for array in &arrays {
            for attempt in self.ready(array) {
                let mut tasks = self.tasks(array, attempt, observer);
                while !tasks.is_empty() {
                    let first = tasks.swap_remove(0);
                    let (mut alike, others) = tasks.into_iter().partition(|t| t.is_like(&first));
                    tasks = others;
                    alike.push(first);
                    alike.sort_by_key(|t: &ArrayTask| t.index);
                    self.submit_alike(array, attempt, &alike, observer);
                }
            }
        }
        self.arrays = arrays;
    }

    /// Submits tasks that ask for the same.
    fn submit_alike(
        &mut self,
        array: &Array,
        attempt: u32,
        tasks: &[ArrayTask],
        observer: &mut dyn Observer,
    ) {
        let submission = array.submission(attempt, tasks);
        // The last thing before: writing the script took its time.
        if !self.are_ours(tasks, observer) {
            return;
        }
        let now = self.now();
        let answer = match submission {
            Ok(submission) => self.hands.scheduler.submit(&submission, now),
            Err(error) => {
                let what = format!("the array of {}: {error}", array.sweep);
                observer.trouble(None, &what);
                SubmitAnswer::refused(what, None)
            }
        };
        let now = self.now();
        for task in tasks {
            let event = of_array(task, &answer, now);
            self.hand_in(&task.run, &event, now, observer);
            if let Some(handle) = self.runs.get(&task.run) {
                let hands = &mut self.hands;
                tell(
                    handle,
                    &event,
                    hands.scheduler.as_mut(),
                    &hands.clock,
                    observer,
                );
            }
        }
    }

    /// The attempts of which something is to be submitted, and nothing has a fate that is not known. While one task is
    /// looked for, the others are too: it is one answer that was lost.
    fn ready(&self, array: &Array) -> BTreeSet<u32> {
        let now = self.now();
        let open = || {
            let handles = array.tasks.iter().filter_map(|(_, run)| self.runs.get(run));
            handles.filter(|h| h.is_open() && h.is_task())
        };
        let number = |h: &Handle| h.run.history.attempt().map(|a| a.number);
        let submits = |h: &&Handle| due(&h.run, now).iter().any(is_submit);
        let ready: BTreeSet<u32> = open().filter(submits).filter_map(number).collect();
        let searched = open().filter(|h| h.run.phase() == RunPhase::Searching);
        &ready - &searched.filter_map(number).collect()
    }

    /// Is each run still ours? One that is not is set aside, and the others are submitted in the next turn.
    fn are_ours(&mut self, tasks: &[ArrayTask], observer: &mut dyn Observer) -> bool {
        let mut all = true;
        for task in tasks {
            let Some(handle) = self.runs.get_mut(&task.run) else {
                continue;
            };
            if let Err(error) = handle.ledger.still_ours() {
                super::supervisor::set_aside(handle, error.into(), observer);
                all = false;
            }
        }
        all
    }

    /// The tasks whose attempt of this number is to be submitted.
    fn tasks(
        &mut self,
        array: &Array,
        attempt: u32,
        observer: &mut dyn Observer,
    ) -> Vec<ArrayTask> {
        let now = self.now();
        let mut tasks = Vec::new();
        for (index, name) in &array.tasks {
            let Some(handle) = self
                .runs
                .get_mut(name)
                .filter(|h| h.is_open() && h.is_task())
            else {
                continue;
            };
            let submits = due(&handle.run, now).into_iter().find(is_submit);
            let Some(Action::Submit { attempt: n, token }) = submits else {
                continue;
            };
            if n != attempt {
                continue;
            }
            let made = of_task(handle, token)
                .and_then(|submission| array.task(*index, name, attempt, submission));
            match made {
                Ok(task) => tasks.push(task),
                Err(error) => super::supervisor::set_aside(handle, error, observer),
            }
        }
        tasks
    }
}

fn is_submit(action: &Action) -> bool {
    matches!(action, Action::Submit { .. })
}

/// What would be handed to the scheduler for a task alone.
fn of_task(handle: &Handle, token: Token) -> Result<JobSubmission, DriveError> {
    let Some(attempt) = handle.run.history.attempt() else {
        return Err(DriveError::unreadable(
            handle.folder.dir().to_owned(),
            "there is no attempt to submit",
        ));
    };
    submission(&handle.run, &handle.folder, attempt, token)
}

/// What the answer to the array means for one task.
fn of_array(task: &ArrayTask, answer: &SubmitAnswer, now: Timestamp) -> Event {
    let mut answer = answer.clone();
    if let SubmitAnswer::Accepted { id, .. } = &mut answer {
        *id = JobId(format!("{id}_{}", task.index));
    }
    answered(task.attempt, answer, now)
}

impl Array {
    /// Where the script of an attempt is, and a link for each task: tasks of earlier attempts may still wait for theirs.
    fn folder(&self, attempt: u32) -> PathBuf {
        match attempt {
            1 => self.folder.clone(),
            later => self.folder.with_extension(format!("attempt-{later}")),
        }
    }

    fn unreadable(&self, why: &str) -> DriveError {
        DriveError::unreadable(self.folder.clone(), why.to_owned())
    }

    /// A task with the script of the array that it can be in.
    fn task(
        &self,
        index: u32,
        run: &str,
        attempt: u32,
        mut submission: JobSubmission,
    ) -> Result<ArrayTask, DriveError> {
        submission.options.retain(|o| !is_array(o));
        let text = read_text(&submission.script, SCRIPT_MAX)?;
        let name = submission.script.file_name().unwrap_or_default();
        let folder = self.folder(attempt).display().to_string();
        let dispatcher = dispatcher(&self.sweep, &text, &folder, &name.to_string_lossy());
        Ok(ArrayTask {
            index,
            run: run.to_owned(),
            attempt,
            submission,
            dispatcher: dispatcher.map_err(|why| self.unreadable(&why))?,
        })
    }

    /// Writes the script of the array and the links to its runs; what is handed to the scheduler.
    fn submission(&self, attempt: u32, tasks: &[ArrayTask]) -> Result<JobSubmission, DriveError> {
        let Some(first) = tasks.first() else {
            return Err(self.unreadable("there is no task to submit"));
        };
        let folder = self.folder(attempt);
        make_private_dir(&folder)?;
        for task in tasks {
            let script = &task.submission.script;
            let attempt = script.parent().unwrap_or(script);
            link(attempt, &folder.join(task.index.to_string()))?;
        }
        let script = folder.join("array.sbatch");
        write_atomic(&script, first.dispatcher.as_bytes(), Access::PrivateScript)?;
        let of = |path: &Path| {
            let name = path.file_name().unwrap_or_default();
            folder.join(first.index.to_string()).join(name)
        };
        let numbers: Vec<u32> = tasks.iter().map(|t| t.index).collect();
        Ok(JobSubmission {
            script,
            token: self.token.at_attempt(attempt),
            stdout: of(&first.submission.stdout),
            stderr: of(&first.submission.stderr),
            tasks: Some(ArrayTasks {
                indices: indices(&numbers),
                at_once: self.at_once,
                folder,
            }),
            ..first.submission.clone()
        })
    }
}
