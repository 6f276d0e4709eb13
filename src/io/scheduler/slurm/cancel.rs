//! Ending jobs, each under its name, so that one that got a reused id is left alone.
//!
//! scancel compares one name a call. Of several jobs, each with a name of its own, those that the queue shows under
//! theirs are told together; the others one by one.

use std::collections::{BTreeMap, BTreeSet};

use super::super::NoAnswer;
use super::super::command::{CommandEnd, CommandOutput};
use super::clients::{no_answer, on_cluster};
use super::parse::is_job_id;
use super::view::IDS_PER_CALL;
use super::{Slurm, record};
use oomctl_base::job::JobRef;

/// What scancel says of a job that is over: no error.
const OVER: [&str; 2] = [
    "already completing or completed",
    "Invalid job id specified",
];

impl Slurm {
    pub(super) fn cancel_one(&self, job: &JobRef) -> Result<(), NoAnswer> {
        if !is_job_id(&job.id.0) {
            let detail = format!("{:?} is no Slurm job id", job.id.0);
            return Err(NoAnswer::of("scancel", detail));
        }
        if let Some(rest) = &self.rest {
            return rest.cancel(job, self.clients.deadlines);
        }
        let token = job.token.as_ref();
        let name = token.map(|token| format!("--name={}", record::job_name(&job.id, token)));
        let words = name.into_iter().chain([job.id.0.clone()]);
        self.scancel(job.cluster.as_deref(), words)
    }

    /// The answers stand in the order of the jobs.
    pub(super) fn cancel_several(&mut self, jobs: &[JobRef]) -> Vec<Result<(), NoAnswer>> {
        if self.rest.is_some() {
            return jobs.iter().map(|job| self.cancel_one(job)).collect();
        }
        let mut answers = BTreeMap::new();
        let clusters: BTreeSet<&Option<String>> = jobs.iter().map(|job| &job.cluster).collect();
        for cluster in clusters {
            let ours = |job: &JobRef| job.cluster == *cluster && job.token.is_some();
            let group = jobs.iter().enumerate().filter(|(_, job)| ours(job));
            let group: Vec<(usize, &JobRef)> =
                group.filter(|(_, job)| is_job_id(&job.id.0)).collect();
            if group.len() < 2 {
                continue;
            }
            let refs: Vec<&JobRef> = group.iter().map(|(_, job)| *job).collect();
            let Ok((queue, _)) = self.view(cluster.as_deref(), &refs) else {
                continue;
            };
            let shown = group.into_iter().filter(|(_, job)| queue.of(job).is_some());
            let shown: Vec<(usize, &JobRef)> = shown.collect();
            for batch in shown.chunks(IDS_PER_CALL) {
                let ids = batch.iter().map(|(_, job)| job.id.0.clone());
                let answer = self.scancel(cluster.as_deref(), ids);
                answers.extend(batch.iter().map(|(at, _)| (*at, answer.clone())));
            }
        }
        let one = |(at, job)| answers.remove(&at).unwrap_or_else(|| self.cancel_one(job));
        jobs.iter().enumerate().map(one).collect()
    }

    fn scancel(
        &self,
        cluster: Option<&str>,
        words: impl Iterator<Item = String>,
    ) -> Result<(), NoAnswer> {
        let mut arguments = on_cluster(cluster);
        arguments.extend(words);
        let answer = self.clients.query("scancel", &arguments);
        match answer.end {
            CommandEnd::Exited(0) => Ok(()),
            CommandEnd::Exited(_) if are_over(&answer) => Ok(()),
            _ => Err(no_answer("scancel", &answer)),
        }
    }
}

/// Is all that it complains of jobs that are over?
fn are_over(answer: &CommandOutput) -> bool {
    let over = |line: &str| OVER.iter().any(|words| line.contains(words));
    let mut lines = answer.stderr.lines().filter(|line| !line.trim().is_empty());
    !answer.stderr.trim().is_empty() && lines.all(over)
}
