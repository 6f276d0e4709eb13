//! One job as squeue, sacct or scontrol shows it, and whose it is.

use jiff::Timestamp;

use super::ids::{JobIdPart, NamedJob};
use oomctl_base::job::{JobId, JobRef, JobStatus, Stage, Token};

/// One job as one of the three commands shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRecord {
    /// The id as people write it (`17_3`, `28+0`) is in `status`; this is the raw number.
    pub raw_id: String,
    /// What is known of the job.
    pub status: JobStatus,
    /// Submit time; moves when the job is requeued.
    pub submitted: Option<Timestamp>,
    /// Job name.
    pub name: String,
    /// Comment, where the command shows it.
    pub comment: Option<String>,
}

impl JobRecord {
    /// The same with the number in its status, of a task that has one: those that wait share the array's.
    pub fn numbered(mut self) -> Self {
        let own = self.raw_id != self.status.id.0 && self.status.state.stage() != Stage::Waiting;
        self.status.number = own.then(|| self.raw_id.clone());
        self
    }

    /// True when the record has this id in either way of writing it.
    pub fn has_id(&self, id: &JobId) -> bool {
        self.status.id == *id || self.raw_id == id.0
    }

    /// True when the job carries the token as its name or its comment.
    pub fn carries(&self, token: &Token) -> bool {
        self.has(token) || array_of(&self.status.id, token).is_some_and(|array| self.has(&array))
    }

    fn has(&self, token: &Token) -> bool {
        self.name == token.0 || self.comment.as_deref() == Some(token.0.as_str())
    }

    /// True when this is the one record of several tasks of an array that wait, and the job is one of them.
    pub fn stands_for(&self, job: &JobRef) -> bool {
        let (Some(shared), Some(one)) =
            (NamedJob::read(&self.status.id.0), NamedJob::read(&job.id.0))
        else {
            return false;
        };
        let array = |token: &Token| array_of(&job.id, token).is_some_and(|array| self.has(&array));
        shared.stands_for(&one) && job.token.as_ref().is_none_or(array)
    }

    /// The id of the task with this token, when this is the one record of several that wait.
    pub fn waiting_task(&self, token: &Token) -> Option<JobId> {
        let (array, index) = token.array()?;
        let shared = NamedJob::read(&self.status.id.0)?;
        let one = NamedJob {
            number: shared.number,
            part: JobIdPart::Task(index),
        };
        let known = shared.stands_for(&one) && self.has(&array);
        known.then(|| JobId(format!("{}_{index}", shared.number)))
    }

    /// A record is a job's when the id fits and, for a job of ours, the token does too: ids are given out again after a
    /// crash of the controller.
    pub fn is_of(&self, job: &JobRef) -> bool {
        let carries = |token: &Token| self.carries(token);
        (self.has_id(&job.id) && job.token.as_ref().is_none_or(carries)) || self.stands_for(job)
    }
}

/// The token under which a task of an array travels, for the id and the token of that task.
fn array_of(id: &JobId, token: &Token) -> Option<Token> {
    let (array, index) = token.array()?;
    let named = NamedJob::read(&id.0)?;
    (named.part == JobIdPart::Task(index)).then_some(array)
}

/// The name of the job with this id and this token.
pub(super) fn job_name(id: &JobId, token: &Token) -> Token {
    array_of(id, token).unwrap_or_else(|| token.clone())
}
