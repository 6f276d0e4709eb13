//! Jobs by their token: the queue knows a job as soon as it is accepted, accounting longer than the
//! queue.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::super::{FoundJob, NoAnswer};
use super::Slurm;
use super::accounts::Accounts;
use super::clients::on_cluster;
use super::parse::{JobRecord, read_squeue};
use super::view::question;
use oomctl_base::job::{JobState, Token};

/// Tokens in one call.
const TOKENS_PER_CALL: usize = 200;
/// `find` looks this much further back than asked, for clocks that differ.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_secs(3_600);
/// Every state that sacct can be asked for.
const EVERY_STATE: &str = "BF,CA,CD,DL,F,NF,OOM,PD,PR,R,RQ,RS,RV,S,TO";

impl Slurm {
    pub(super) fn find_tokens(
        &mut self,
        tokens: &[Token],
        since: Timestamp,
    ) -> Result<Vec<FoundJob>, NoAnswer> {
        let mut found: Vec<FoundJob> = Vec::new();
        for cluster in self.clusters.clone() {
            for batch in tokens.chunks(TOKENS_PER_CALL) {
                let records = self.records_of(cluster.as_deref(), batch, since)?;
                for (record, token) in bearers(&records, batch) {
                    // A token is one job's, by whichever name its cluster was asked.
                    let known = |other: &FoundJob| {
                        other.status.id == record.status.id && other.token == *token
                    };
                    if !found.iter().any(known) {
                        found.push(as_found(token, record, cluster.clone()));
                    }
                }
            }
        }
        Ok(found)
    }

    /// Records of jobs with these names, the queue's before the accounting's.
    fn records_of(
        &mut self,
        cluster: Option<&str>,
        tokens: &[Token],
        since: Timestamp,
    ) -> Result<Vec<JobRecord>, NoAnswer> {
        // A task of an array is found under the array's name, or its own where it was submitted alone.
        let arrays = tokens
            .iter()
            .filter_map(Token::array)
            .map(|(array, _)| array);
        let names: BTreeSet<String> = tokens.iter().cloned().chain(arrays).map(|t| t.0).collect();
        let names: Vec<String> = names.into_iter().collect();
        let start = since.checked_sub(CLOCK_SKEW).unwrap_or(since);
        let start = start.as_second().max(1);
        let (mut records, accounts) = match &self.rest {
            Some(rest) => rest.named(&names, start, self.clients.deadlines)?,
            None => self.named(cluster, &names.join(","), start)?,
        };
        match accounts {
            Accounts::Answer(more) => records.extend(more),
            Accounts::Off => {}
            Accounts::NoAnswer(error) => return Err(error),
        }
        Ok(records)
    }

    /// What squeue and sacct say of these names.
    fn named(
        &mut self,
        cluster: Option<&str>,
        names: &str,
        start: i64,
    ) -> Result<(Vec<JobRecord>, Accounts), NoAnswer> {
        let arguments = question(cluster, &["--me", "-n", names].map(str::to_owned));
        let records = read_squeue(&self.clients.answer("squeue", &arguments)?);
        let mut arguments = on_cluster(cluster);
        // `uts` is Slurm's prefix for seconds since 1970: free of time zones.
        // Without states sacct leaves out a job that was cancelled while it was held (22.05.8): it
        // never became eligible. With states it wants an end.
        arguments.extend([
            format!("--starttime=uts{start}"),
            "--endtime=now+1hour".to_owned(),
            format!("--state={EVERY_STATE}"),
            format!("--name={names}"),
        ]);
        Ok((records, self.ask_sacct(arguments)))
    }
}

/// The records that carry one of the tokens. The one record of several tasks that wait tells of each of them.
fn bearers<'a>(records: &[JobRecord], tokens: &'a [Token]) -> Vec<(JobRecord, &'a Token)> {
    let mut bearers = Vec::new();
    for record in records {
        if let Some(token) = tokens.iter().find(|token| record.carries(token)) {
            bearers.push((record.clone(), token));
            continue;
        }
        for token in tokens {
            if let Some(id) = record.waiting_task(token) {
                let mut task = record.clone();
                task.status.id = id;
                bearers.push((task, token));
            }
        }
    }
    bearers
}

fn as_found(token: &Token, record: JobRecord, cluster: Option<String>) -> FoundJob {
    let status = record.status;
    FoundJob {
        token: token.clone(),
        refused_trace: status.state == JobState::Failed
            && status.reason.as_deref() == Some("BadConstraints"),
        submitted: record.submitted,
        cluster,
        status,
    }
}
