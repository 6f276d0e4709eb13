//! The same calls through slurmrestd, Slurm's HTTP daemon, for machines without Slurm's commands: submit, find, poll, cancel.
//!
//! What was observed of slurmrestd 22.05.8 and 26.05.3 (tests/slurm starts both) decides here. An answer that complains, is cut or has another
//! shape is no verdict about a job, also where its list of jobs is there and empty: 22.05 answers so to a token that is over.

mod client;
mod description;
mod place;
pub mod reading;
#[cfg(test)]
mod tests;
mod unix_socket;

use super::super::directives::SCRIPT_MAX;
use super::super::{JobSubmission, NoAnswer, SubmitAnswer};
use super::accounts::Accounts;
use super::clients::Deadlines;
use super::ids::NamedJob;
use super::parse::{Control, JobRecord};
use super::refusal::read_words;
use crate::io::files::read_text;
use oomctl_base::job::{JobId, JobRef, Stage};

pub use client::RestClient;
pub use place::{RestAddress, RestPlace};

/// Jobs that are asked for one by one. For more, all jobs of the cluster come in one answer: slurmrestd selects no others.
const ONE_BY_ONE: usize = 8;

impl RestClient {
    /// Submits a job.
    pub(super) fn submit(&self, submission: &JobSubmission, deadlines: Deadlines) -> SubmitAnswer {
        let refused = |reason: String, hint: &str| SubmitAnswer::refused(reason, Some(hint));
        let script = match read_text(&submission.script, SCRIPT_MAX) {
            Ok(script) => script,
            Err(error) => return refused(error.to_string(), "slurmrestd takes text"),
        };
        let unclear = |error: NoAnswer| SubmitAnswer::Unclear {
            detail: error.to_string(),
        };
        let version = match self.version(deadlines.controller) {
            Ok(version) => version.number,
            Err(error) => return unclear(error),
        };
        let request = match description::request(submission, &script, version) {
            Ok(request) => request,
            Err(why) => return refused(why.reason, why.hint),
        };
        let path = ("slurm", "job/submit");
        let answer = match self.ask("POST", path, Some(&request), deadlines.submit) {
            Ok(answer) => answer,
            Err(error) => return unclear(error),
        };
        // A complaint beside an id is a remark: "Job is in held state".
        match answer.body["job_id"].as_u64().filter(|id| *id > 0) {
            Some(id) => SubmitAnswer::Accepted {
                id: JobId(id.to_string()),
                cluster: None,
            },
            None if answer.faults.is_empty() => SubmitAnswer::Unclear {
                detail: "slurmrestd accepted it, but named no job id".to_owned(),
            },
            None => read_words(&answer.words()),
        }
    }

    /// Asks the controller whether it is there, and says what was agreed on.
    ///
    /// # Errors
    /// Why jobs cannot go through this slurmrestd.
    pub fn greet(&self, deadlines: Deadlines) -> Result<String, NoAnswer> {
        let version = self.version(deadlines.controller)?.number;
        let answer = self.ask("GET", ("slurm", "ping"), None, deadlines.controller)?;
        match answer.faults.is_empty() {
            true => Ok(format!("v0.0.{version} at {}", self.place.address)),
            false => Err(self.no_answer(answer.words())),
        }
    }

    /// The refusal of what it has no question for.
    pub(super) fn cannot(&self, what: &str) -> NoAnswer {
        self.no_answer(format!("slurmrestd cannot {what}"))
    }

    /// What the controller knows of these jobs, and maybe of others.
    pub(super) fn queue(
        &self,
        jobs: &[&JobRef],
        deadlines: Deadlines,
    ) -> Result<Vec<JobRecord>, NoAnswer> {
        if jobs.len() > ONE_BY_ONE {
            return self.whole_queue(deadlines);
        }
        let mut records = Vec::new();
        for job in jobs {
            let controls = self.controls(job, deadlines)?;
            records.extend(controls.into_iter().map(|control| control.record));
        }
        Ok(records)
    }

    /// All jobs that the controller knows.
    fn whole_queue(&self, deadlines: Deadlines) -> Result<Vec<JobRecord>, NoAnswer> {
        let answer = self.ask("GET", ("slurm", "jobs"), None, deadlines.controller)?;
        if !answer.faults.is_empty() {
            return Err(self.no_answer(answer.words()));
        }
        reading::queue(&answer.body).map_err(|why| self.no_answer(why))
    }

    /// What the controller knows of a job, or of all tasks of its array; nothing where it does not know it.
    fn controls(&self, job: &JobRef, deadlines: Deadlines) -> Result<Vec<Control>, NoAnswer> {
        let Some(named) = NamedJob::read(&job.id.0) else {
            return Ok(Vec::new());
        };
        let path = format!("job/{}", named.number);
        let answer = self.ask("GET", ("slurm", &path), None, deadlines.controller)?;
        if answer.knows_nothing() {
            return Ok(Vec::new());
        }
        if !answer.faults.is_empty() {
            return Err(self.no_answer(answer.words()));
        }
        reading::controls(&answer.body).map_err(|why| self.no_answer(why))
    }

    /// The controller's record of one job.
    pub(super) fn control(
        &self,
        job: &JobRef,
        deadlines: Deadlines,
    ) -> Result<Option<Control>, NoAnswer> {
        let all = self.controls(job, deadlines)?;
        Ok(all
            .into_iter()
            .find(|c| c.record.has_id(&job.id) || c.record.stands_for(job)))
    }

    /// What the controller shows under these names, and the accounting since a moment.
    pub(super) fn named(
        &self,
        names: &[String],
        since: i64,
        deadlines: Deadlines,
    ) -> Result<(Vec<JobRecord>, Accounts), NoAnswer> {
        let mut queue = self.whole_queue(deadlines)?;
        queue.retain(|record| {
            let comment = record.comment.as_ref();
            names.contains(&record.name) || comment.is_some_and(|c| names.contains(c))
        });
        // By the time of submission: by that of the start a job is left out that was cancelled while it was held (22.05.8).
        let path = format!("jobs?job_name={}&submit_time=uts{since}", names.join("%2C"));
        Ok((queue, self.accounting(&path, deadlines)))
    }

    /// What the accounting knows of these jobs.
    pub(super) fn accounts(&self, jobs: &[&JobRef], deadlines: Deadlines) -> Accounts {
        let mut records = Vec::new();
        for job in jobs {
            let number = NamedJob::read(&job.id.0).map(|named| named.number);
            let Some(number) = number else {
                continue;
            };
            match self.accounting(&format!("job/{number}"), deadlines) {
                Accounts::Answer(more) => records.extend(more),
                other => return other,
            }
        }
        Accounts::Answer(records)
    }

    fn accounting(&self, path: &str, deadlines: Deadlines) -> Accounts {
        let version = match self.version(deadlines.accounting) {
            Ok(version) if !version.accounting => return Accounts::Off,
            Ok(version) => version.number,
            Err(error) => return Accounts::NoAnswer(error),
        };
        let answer = self.ask("GET", ("slurmdb", path), None, deadlines.accounting);
        let records = answer.and_then(|answer| {
            if answer.knows_nothing() {
                return Ok(Vec::new());
            }
            if !answer.faults.is_empty() {
                return Err(self.no_answer(answer.words()));
            }
            reading::accounts(&answer.body, version).map_err(|why| self.no_answer(why))
        });
        records.map_or_else(Accounts::NoAnswer, Accounts::Answer)
    }

    /// Ends a job, if it still lives and is the one that is meant: ids are given out again.
    pub(super) fn cancel(&self, job: &JobRef, deadlines: Deadlines) -> Result<(), NoAnswer> {
        let control = self.control(job, deadlines)?;
        let lives =
            |c: &Control| c.record.is_of(job) && c.record.status.state.stage() != Stage::Ended;
        if !control.as_ref().is_some_and(lives) {
            return Ok(());
        }
        let path = format!("job/{}", job.id.0);
        let answer = self.ask("DELETE", ("slurm", &path), None, deadlines.controller)?;
        match answer.faults.is_empty() || answer.knows_nothing() {
            true => Ok(()),
            false => Err(self.no_answer(answer.words())),
        }
    }
}
