//! When the scheduler would start what answers a failure: each answer is rendered into a folder of its own, asked about and
//! removed. Nothing is submitted.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};

use super::DriveError;
use super::handle::Handle;
use super::perform::environment;
use super::prepare::new_token;
use crate::core::recipe::Layer;
use crate::core::render::AttemptPlace;
use crate::core::request::{Alternative, QueueStart, Request, StartForecast};
use crate::io::files::{Access, make_private_dir, write_atomic};
use crate::io::sampler::program;
use crate::io::scheduler::{JobSubmission, NoAnswer, Scheduler};
use oomctl_base::job::Token;

/// How long what the scheduler said of a task holds for the others of its array.
const SHARED: SignedDuration = SignedDuration::from_mins(1);

/// What the scheduler is asked about.
pub struct QueueQuestion<'a> {
    /// The job.
    pub request: &'a Request,
    /// The rungs that it has already.
    pub rungs: &'a [Layer],
    /// The answers.
    pub alternatives: &'a [Alternative],
    /// The environment of the job.
    pub environment: BTreeMap<String, String>,
}

/// What the scheduler said of one task of a job array. It holds for all tasks that ask the same, for thousands may die at once.
pub(super) struct AskedForTask {
    array: Token,
    starts: Vec<QueueStart>,
    at: Timestamp,
}

impl AskedForTask {
    fn answers(&self, array: &Token, alternatives: &[Alternative]) -> bool {
        let asked = self.starts.iter().map(|s| (s.rungs.clone(), s.gpus));
        self.array == *array && asked.eq(alternatives.iter().map(|a| (a.rungs(), a.gpus)))
    }
}

impl Handle {
    /// Asks when each answer to the failure of the present attempt would start. `known` is what was said of other tasks.
    pub(super) fn ask_queue(
        &self,
        scheduler: &mut dyn Scheduler,
        known: &mut Vec<AskedForTask>,
        now: Timestamp,
    ) -> Vec<QueueStart> {
        let (run, rungs) = (&self.run, self.run.history.rungs());
        let Ok(environment) = environment(&self.folder) else {
            return Vec::new();
        };
        let alternatives = &run.queue_question();
        let array = self.task.as_ref().map(|task| &task.array);
        known.retain(|k| now.duration_since(k.at) < SHARED);
        let said = |array| known.iter().find(|k| k.answers(array, alternatives));
        if let Some(said) = array.and_then(said) {
            return said.starts.clone();
        }
        let question = QueueQuestion {
            request: &run.request,
            rungs: &rungs,
            alternatives,
            environment,
        };
        let starts = question.ask(&self.folder.dir().join("queue"), scheduler);
        known.extend(array.map(|array| AskedForTask {
            array: array.clone(),
            starts: starts.clone(),
            at: now,
        }));
        starts
    }
}

impl QueueQuestion<'_> {
    /// Asks about one answer after the other, in files below `dir`, which is removed. Once the scheduler does not answer it
    /// is not asked again.
    pub fn ask(&self, dir: &Path, scheduler: &mut dyn Scheduler) -> Vec<QueueStart> {
        let mut starts = Vec::new();
        let mut answers = true;
        for alternative in self.alternatives {
            let start = match answers.then(|| self.start(alternative, dir, scheduler)) {
                Some(Ok(Ok(start))) => start,
                Some(Ok(Err(_))) => {
                    answers = false;
                    None
                }
                Some(Err(_)) | None => None,
            };
            starts.push(QueueStart {
                rungs: alternative.rungs(),
                gpus: alternative.gpus,
                start,
            });
        }
        std::fs::remove_dir_all(dir).ok();
        starts
    }

    /// Asks about one answer.
    fn start(
        &self,
        alternative: &Alternative,
        dir: &Path,
        scheduler: &mut dyn Scheduler,
    ) -> Result<Result<Option<StartForecast>, NoAnswer>, DriveError> {
        let steps = alternative.steps.iter().map(|s| &s.layer);
        let rungs: Vec<Layer> = self.rungs.iter().chain(steps).cloned().collect();
        Ok(match self.submission(&rungs, dir, scheduler.name())? {
            Some(submission) => scheduler.forecast(&submission),
            None => Ok(None),
        })
    }

    /// The submission with these rungs; `None` where it is no legal one.
    fn submission(
        &self,
        rungs: &[Layer],
        dir: &Path,
        backend: &str,
    ) -> Result<Option<JobSubmission>, DriveError> {
        make_private_dir(dir)?;
        let run = &self.request.inputs().run;
        let token = new_token(run, 1)?;
        let text = dir.to_string_lossy().into_owned();
        let place = AttemptPlace {
            run: run.clone(),
            number: 1,
            token: token.0.clone(),
            dir: text.clone(),
            workdir: self.request.workdir().to_string_lossy().into_owned(),
            backend: backend.to_owned(),
            program: program(),
        };
        let rendered = self.request.render(rungs, &place);
        let (Ok(files), Ok(handed)) = (rendered, self.request.handed(rungs, &text)) else {
            return Ok(None);
        };
        let Some(entry) = files.iter().find(|f| f.entry) else {
            return Ok(None);
        };
        let script = dir.join(&entry.name);
        write_atomic(&script, entry.text.as_bytes(), Access::PrivateScript)?;
        let mut environment = self.environment.clone();
        environment.extend(handed.variables);
        Ok(Some(JobSubmission {
            script,
            token,
            workdir: self.request.workdir().to_owned(),
            stdout: dir.join("out"),
            stderr: dir.join("err"),
            environment,
            options: handed.options,
            arguments: handed.arguments,
            export: handed.export,
            time_limit_s: None,
            tasks: None,
            gpu: None,
        }))
    }
}
