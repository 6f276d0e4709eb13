//! Runs whose first attempts are tasks of one job array: one submission for all of them, and an answer for each.

use std::path::Path;

use jiff::Timestamp;

use super::DriveError;
use super::handle::Handle;
use super::notice::{Notice, Observer};
use super::perform::{SCRIPT_MAX, answered, submission};
use super::record::{Array, SweepRecord};
use super::supervisor::Supervisor;
use crate::core::engine::{Action, Event, RunPhase, due};
use crate::core::render::{directives, dispatcher};
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
}

impl Supervisor {
    /// Takes in the arrays of a sweep whose runs were added.
    pub(super) fn take_arrays(&mut self, project: &Path, record: &SweepRecord) {
        let Ok(folder) = SweepRecord::folder(project, &record.sweep) else {
            return;
        };
        for (number, array) in (1..).zip(&record.arrays) {
            for (index, run) in (0..).zip(&array.runs) {
                if let Some(handle) = self.runs.get_mut(run) {
                    handle.task = Some(array.token.task(index));
                }
            }
            self.arrays.push(Array {
                sweep: record.sweep.clone(),
                folder: folder.join(format!("array-{number}")),
                token: array.token.clone(),
                runs: array.runs.clone(),
                at_once: array.at_once,
            });
        }
    }

    /// Submits the arrays whose tasks are all prepared.
    pub(super) fn submit_arrays(&mut self, observer: &mut dyn Observer) {
        let arrays = std::mem::take(&mut self.arrays);
        for array in &arrays {
            let now = self.now();
            if !self.is_ready(array, now) {
                continue;
            }
            let tasks = self.tasks(array, observer);
            if tasks.is_empty() {
                continue;
            }
            let submission = array.submission(&tasks);
            // The last thing before: writing the script took its time.
            if !self.are_ours(&tasks, observer) {
                continue;
            }
            let answer = match submission {
                Ok(submission) => self.hands.scheduler.submit(&submission, now),
                Err(error) => {
                    let what = format!("the array of sweep {}: {error}", array.sweep);
                    observer.notice(&Notice::Trouble {
                        run: None,
                        what: &what,
                    });
                    SubmitAnswer::Refused {
                        reason: what,
                        hint: None,
                        passing: false,
                    }
                }
            };
            let now = self.now();
            for task in &tasks {
                self.hand_in(&task.run, &of_array(task, &answer, now), now, observer);
            }
        }
        self.arrays = arrays;
    }

    /// Is there something of the array to submit, and nothing whose fate is not known? While one task is
    /// looked for, the others are too: it is one answer that was lost.
    fn is_ready(&self, array: &Array, now: Timestamp) -> bool {
        let open = || {
            let handles = array.runs.iter().filter_map(|name| self.runs.get(name));
            handles.filter(|h| h.is_open() && h.is_task())
        };
        let submits = |h: &Handle| due(&h.run, now).iter().any(is_submit);
        open().any(submits) && !open().any(|h| h.run.phase() == RunPhase::Searching)
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

    /// The tasks that are to be submitted.
    fn tasks(&mut self, array: &Array, observer: &mut dyn Observer) -> Vec<ArrayTask> {
        let now = self.now();
        let mut tasks = Vec::new();
        for (index, name) in (0..).zip(&array.runs) {
            let Some(handle) = self
                .runs
                .get_mut(name)
                .filter(|h| h.is_open() && h.is_task())
            else {
                continue;
            };
            let Some(Action::Submit { attempt, token }) =
                due(&handle.run, now).into_iter().find(is_submit)
            else {
                continue;
            };
            match of_task(handle, token) {
                Ok(submission) => tasks.push(ArrayTask {
                    index,
                    run: name.clone(),
                    attempt,
                    submission,
                }),
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
        return Err(DriveError::Unreadable {
            path: handle.folder.dir().to_owned(),
            why: "there is no attempt to submit".to_owned(),
        });
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
    /// Writes the script of the array and the links to its runs; what is handed to the scheduler.
    fn submission(&self, tasks: &[ArrayTask]) -> Result<JobSubmission, DriveError> {
        let unreadable = |why: String| DriveError::Unreadable {
            path: self.folder.clone(),
            why,
        };
        let Some(first) = tasks.first() else {
            return Err(unreadable("there is no task to submit".to_owned()));
        };
        make_private_dir(&self.folder)?;
        let mut asked: Option<String> = None;
        for task in tasks {
            let script = &task.submission.script;
            let text = read_text(script, SCRIPT_MAX)?;
            let asks = directives(&text).join("\n");
            let same_name = script.file_name() == first.submission.script.file_name();
            if *asked.get_or_insert_with(|| asks.clone()) != asks || !same_name {
                let why = format!("{} requests something else than the others", task.run);
                return Err(unreadable(why));
            }
            let attempt = script.parent().unwrap_or(script);
            link(attempt, &self.folder.join(task.index.to_string()))?;
        }
        let asked = asked.unwrap_or_default();
        let lines: Vec<&str> = asked.lines().collect();
        let name = first.submission.script.file_name().unwrap_or_default();
        let folder = self.folder.display().to_string();
        let text = dispatcher(&self.sweep, &lines, &folder, &name.to_string_lossy());
        let script = self.folder.join("array.sbatch");
        let text = text.map_err(unreadable)?;
        write_atomic(&script, text.as_bytes(), Access::PrivateScript)?;
        let of = |path: &Path| {
            let name = path.file_name().unwrap_or_default();
            self.folder.join(first.index.to_string()).join(name)
        };
        let numbers: Vec<u32> = tasks.iter().map(|t| t.index).collect();
        Ok(JobSubmission {
            script,
            token: self.token.clone(),
            stdout: of(&first.submission.stdout),
            stderr: of(&first.submission.stderr),
            tasks: Some(ArrayTasks {
                indices: indices(&numbers),
                at_once: self.at_once,
                folder: self.folder.clone(),
            }),
            ..first.submission.clone()
        })
    }
}
