//! What the queue shows: all jobs of this user in one question, whatever their number.
//!
//! Given one user, squeue has the controller send that user's jobs alone; given several ids it has it send those of
//! everybody and picks them out itself (src/squeue/squeue.c, `_print_job`, in SchedMD/slurm), and thousands of ids do
//! not fit a command line. So ids are asked for only where a job may be somebody else's.

use std::collections::HashMap;
use std::time::Duration;

use super::super::NoAnswer;
use super::Slurm;
use super::clients::{no_answer, on_cluster, says_unknown_id};
use super::ids::{JobIdPart, NamedJob};
use super::parse::{JobRecord, SQUEUE_FIELDS, read_squeue};
use super::shared::{Age, SharedAnswer};
use oomctl_base::job::{JobRef, JobState, Stage};

/// Job ids in one squeue or sacct call. A longer command line meets the system's limit at about
/// 130,000 bytes.
pub(super) const IDS_PER_CALL: usize = 1_000;

/// Records by all of their ids.
#[derive(Default)]
pub(super) struct RecordIndex {
    records: Vec<JobRecord>,
    by_id: HashMap<String, Vec<usize>>,
    /// Records of several waiting tasks by array, and components by the first one.
    by_number: HashMap<u32, Vec<usize>>,
}

impl RecordIndex {
    pub fn new(records: Vec<JobRecord>) -> Self {
        let mut index = Self::default();
        records.into_iter().for_each(|record| index.add(record));
        index
    }

    fn add(&mut self, record: JobRecord) {
        let (at, record) = (self.records.len(), record.numbered());
        let id = record.status.id.0.clone();
        if let Some(NamedJob { number, part }) = NamedJob::read(&id)
            && matches!(part, JobIdPart::Waiting(_) | JobIdPart::Component(_))
        {
            self.by_number.entry(number).or_default().push(at);
        }
        if record.raw_id != id {
            let raw = record.raw_id.clone();
            self.by_id.entry(raw).or_default().push(at);
        }
        self.by_id.entry(id).or_default().push(at);
        self.records.push(record);
    }

    /// Does it show that the job has not ended?
    fn shows_alive(&self, job: &JobRef) -> bool {
        self.of(job)
            .is_some_and(|record| record.status.state.stage() != Stage::Ended)
    }

    /// Is there a record with its id, whoever's?
    pub fn has_id(&self, job: &JobRef) -> bool {
        self.by_id.contains_key(&job.id.0)
    }

    /// The record that tells of a job: its own, the latest, or else the one that it shares with others of its array
    /// while they wait. A heterogeneous job is its first component until that has ended.
    pub fn of(&self, job: &JobRef) -> Option<&JobRecord> {
        let at = |list: Option<&Vec<usize>>| list.into_iter().flatten().copied().collect();
        let own: Vec<usize> = at(self.by_id.get(&job.id.0));
        let records = own.into_iter().filter_map(|at| self.records.get(at));
        let own = records
            .filter(|record| record.is_of(job))
            .max_by_key(|r| r.submitted);
        let number = NamedJob::read(&job.id.0)?.number;
        let related = || self.related(number);
        match own {
            Some(own) => Some(decisive(own, related())),
            None => related().find(|record| record.stands_for(job)),
        }
    }

    fn related(&self, number: u32) -> impl Iterator<Item = &JobRecord> {
        let at = self.by_number.get(&number).into_iter().flatten();
        at.filter_map(|at| self.records.get(*at))
    }
}

/// Which component says how it is with a heterogeneous job: the first while it lives, then any that still does, then the
/// first that ended badly. No component may be running when the job is submitted again.
fn decisive<'a>(
    first: &'a JobRecord,
    related: impl Iterator<Item = &'a JobRecord>,
) -> &'a JobRecord {
    let component = |record: &JobRecord| match NamedJob::read(&record.status.id.0)?.part {
        JobIdPart::Component(n) => Some(n),
        _ => None,
    };
    if component(first) != Some(0) || first.status.state.stage() != Stage::Ended {
        return first;
    }
    let ended = |record: &&JobRecord| record.status.state.stage() == Stage::Ended;
    let others: Vec<&JobRecord> = related.filter(|r| component(r) > Some(0)).collect();
    let living = others.iter().find(|r| !ended(r));
    let badly = |r: &&&JobRecord| r.status.state != JobState::Completed;
    let bad = std::iter::once(&first).chain(&others).find(badly);
    living.or(bad).copied().unwrap_or(first)
}

impl Slurm {
    /// What the queue shows of these jobs, and how old that is. One that is not ours by its token may belong to another
    /// user.
    pub(super) fn view(
        &mut self,
        cluster: Option<&str>,
        jobs: &[&JobRef],
    ) -> Result<(RecordIndex, Duration), NoAnswer> {
        if let Some(rest) = &self.rest {
            let records = rest.queue(jobs, self.clients.deadlines)?;
            return Ok((RecordIndex::new(records), Duration::ZERO));
        }
        let (ours, foreign): (Vec<&JobRef>, Vec<&JobRef>) = jobs
            .iter()
            .partition(|job| job.token.is_some() && !self.of_others);
        let (mut index, mut age) = (RecordIndex::default(), Duration::ZERO);
        if !ours.is_empty() {
            let mut heard = self.my_queue(cluster, Age::Recent)?;
            index = read(&heard);
            // What can lead to a submission is believed only of an answer that was asked for now.
            if !heard.new && !ours.iter().all(|job| index.shows_alive(job)) {
                heard = self.my_queue(cluster, Age::New)?;
                index = read(&heard);
            }
            age = heard.age;
        }
        let foreign = self.queue_of(cluster, &foreign)?;
        foreign.into_iter().for_each(|record| index.add(record));
        Ok((index, age))
    }

    /// What squeue says of all jobs of this user that it knows, live or ended.
    fn my_queue(&mut self, cluster: Option<&str>, age: Age) -> Result<SharedAnswer, NoAnswer> {
        let arguments = question(cluster, &["--me".to_owned()]);
        let Self {
            clients, shared, ..
        } = self;
        let ask = || {
            let answer = clients.query("squeue", &arguments);
            match answer.is_clean() {
                true => Ok(answer.stdout),
                false => Err(answer.describe()),
            }
        };
        let heard = match shared {
            Some(shared) => {
                let question = clients.identity("squeue", &arguments);
                shared.hear(&question, age, clients.deadlines.controller, ask)
            }
            None => SharedAnswer {
                said: ask(),
                new: true,
                age: Duration::ZERO,
            },
        };
        match &heard.said {
            Ok(_) => Ok(heard),
            Err(detail) => Err(NoAnswer::of("squeue", detail.clone())),
        }
    }

    /// Those of `jobs` that the queue knows, whosever they are.
    pub(super) fn queue_of(
        &self,
        cluster: Option<&str>,
        jobs: &[&JobRef],
    ) -> Result<Vec<JobRecord>, NoAnswer> {
        let mut records = Vec::new();
        for batch in jobs.chunks(IDS_PER_CALL) {
            let arguments = question(cluster, &["-j".to_owned(), ids(batch)]);
            let answer = self.clients.query("squeue", &arguments);
            if answer.is_clean() {
                records.extend(read_squeue(&answer.stdout));
            } else if !says_unknown_id(&answer) {
                return Err(no_answer("squeue", &answer));
            }
        }
        Ok(records)
    }
}

/// The jobs in an answer of squeue.
fn read(heard: &SharedAnswer) -> RecordIndex {
    RecordIndex::new(read_squeue(heard.said.as_deref().unwrap_or_default()))
}

/// The words after `squeue` for these jobs, ended ones included, each task of an array by itself.
pub(super) fn question(cluster: Option<&str>, which: &[String]) -> Vec<String> {
    let mut arguments = on_cluster(cluster);
    arguments.extend(["-h", "-a", "-r", "-t", "all", "-O", SQUEUE_FIELDS].map(str::to_owned));
    arguments.extend_from_slice(which);
    arguments
}

pub(super) fn ids(jobs: &[&JobRef]) -> String {
    let ids = jobs.iter().map(|job| job.id.0.as_str());
    ids.collect::<Vec<_>>().join(",")
}
