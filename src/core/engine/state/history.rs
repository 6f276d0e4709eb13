//! What the facts of a run add up to: a fold over the ledger and nothing else, so that a crash is a
//! replay.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::attempt::{Attempt, take};
use super::entry::{HistoryEntry, layers, standing, tried};
use super::phase::RunPhase;
use crate::core::engine::changed::ChangedFile;
use crate::core::engine::fact::{Fact, Record};
use crate::core::engine::news::NewsLog;
use crate::core::engine::outcome::{Budget, Outcome, RetryCause, Verdict};
use crate::core::engine::phantom::PhantomCheck;
use crate::core::ladder::{PastAttempt, Skipped, Step};
use crate::core::launch;
use crate::core::learn::NodesExcluded;
use crate::core::recipe::Layer;
use crate::core::request::VersionInLog;
use oomctl_base::units::Bytes;

/// What the facts of a run add up to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct History {
    /// Name of the run.
    pub run: String,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Number of the present owner.
    pub epoch: u64,
    /// Number of the last fact.
    pub seq: u64,
    /// Attempts, in order.
    pub attempts: Vec<Attempt>,
    /// What was measured on phantom GPUs, each before the attempt of this number.
    pub phantoms: Vec<(u32, PhantomCheck)>,
    /// Files that changed since the submission, each before the attempt of this number.
    pub changed: Vec<(u32, Vec<ChangedFile>)>,
    /// Nodes that were excluded, each before the attempt of this number.
    pub excluded: Vec<(u32, NodesExcluded)>,
    /// Who asked for the end of the run.
    pub cancel: Option<String>,
    /// The run which shows that this one would fail, and why.
    pub pruned: Option<(String, String)>,
    /// The framework's version that its logs showed, where it had been assumed.
    pub version: Option<VersionInLog>,
    /// The bound that was reached while a job was alive.
    pub budget: Option<Budget>,
    /// When somebody asked that it goes on after it was over, and how many attempts had a job by then.
    pub retried: Option<(Timestamp, usize)>,
    /// From when to when it was over before somebody asked that it goes on.
    pub pauses: Vec<(Timestamp, Timestamp)>,
    /// How the run ended.
    pub outcome: Option<Outcome>,
    /// What is to be told to those who do not watch.
    pub news: NewsLog,
}

impl History {
    /// Folds records into what they add up to.
    pub fn replay(records: &[Record]) -> Self {
        let mut history = Self::default();
        for record in records {
            history.apply(record);
        }
        history
    }

    /// The attempt that counts now.
    pub fn attempt(&self) -> Option<&Attempt> {
        self.attempts.last()
    }

    /// Layers that the attempts so far, and the measurements before them, have put on the stack, in order.
    pub fn rungs(&self) -> Vec<Layer> {
        layers(&standing(self.in_order(&self.attempts)))
    }

    /// Attempts before the present one that died of a cause that is known, and what was measured on phantom GPUs before it, with
    /// the rungs that they had.
    pub fn tried(&self) -> Vec<PastAttempt> {
        let before = self
            .attempts
            .split_last()
            .map_or(&[][..], |(_, before)| before);
        tried(self.in_order(before))
    }

    /// The same of all attempts, and of what was measured on phantom GPUs since the last one.
    pub fn all_tried(&self) -> Vec<PastAttempt> {
        tried(self.in_order(&self.attempts))
    }

    /// What was measured on phantom GPUs before an attempt, in order.
    pub fn phantoms(&self, attempt: u32) -> impl Iterator<Item = &PhantomCheck> {
        let of = self.phantoms.iter().filter(move |(n, _)| *n == attempt);
        of.map(|(_, check)| check)
    }

    /// Files that were other ones than when the run was submitted, before an attempt.
    pub fn changed(&self, attempt: u32) -> &[ChangedFile] {
        let mut of = self.changed.iter().rev();
        of.find(|(n, _)| *n == attempt)
            .map_or(&[], |(_, files)| files)
    }

    /// The fact that files are other ones, unless a crash followed it and it is on disk.
    pub fn files_changed(&self, attempt: u32, files: &[ChangedFile]) -> Option<Fact> {
        (self.changed(attempt) != files).then(|| Fact::FilesChanged {
            attempt,
            files: files.to_vec(),
        })
    }

    /// The files that attempts ran as they were at that moment, and not as they were when the run was submitted.
    pub fn ran_changed(&self) -> Vec<&str> {
        let files = self.changed.iter().flat_map(|(_, files)| files);
        let now = files.filter(|file| !file.copied);
        let now: BTreeSet<&str> = now.map(|file| file.path.as_str()).collect();
        now.into_iter().collect()
    }

    /// Nodes that were excluded before an attempt, in order.
    pub fn excluded_before(&self, attempt: u32) -> impl Iterator<Item = &NodesExcluded> {
        let of = self.excluded.iter().filter(move |(n, _)| *n == attempt);
        of.map(|(_, excluded)| excluded)
    }

    /// The first attempts, each between what was measured on phantom GPUs, and excluded of nodes, before and after it.
    fn in_order<'h>(&'h self, attempts: &'h [Attempt]) -> impl Iterator<Item = HistoryEntry<'h>> {
        let measured = |number| {
            let excluded = self.excluded_before(number).map(HistoryEntry::Nodes);
            self.phantoms(number)
                .map(HistoryEntry::Phantom)
                .chain(excluded)
        };
        let later = attempts.iter().flat_map(move |attempt| {
            let next = measured(attempt.number + 1);
            std::iter::once(HistoryEntry::Attempt(attempt)).chain(next)
        });
        measured(1).chain(later)
    }

    /// Bytes that the next attempt of a program needs at least: what those before it had on a GPU and asked for, that
    /// differ from it only in their GPU.
    pub fn needed(&self) -> Option<Bytes> {
        let mut needed = None;
        for attempt in self.attempts.iter().filter(|a| a.verdict.is_some()) {
            let steps = attempt.steps();
            let said = attempt.incident.as_ref().and_then(launch::needed);
            needed = match !steps.is_empty() && launch::only_moves_away(steps) {
                true => needed.max(said),
                false => None,
            };
        }
        needed
    }

    /// What was known when an attempt had ended, before it was decided what follows.
    pub fn at_the_end_of(&self, attempt: u32) -> Self {
        let mut past = self.clone();
        past.attempts.retain(|a| a.number <= attempt);
        past.phantoms.retain(|(number, _)| *number <= attempt);
        past.excluded.retain(|(number, _)| *number <= attempt);
        if let Some(last) = past.attempts.last_mut() {
            last.verdict = None;
        }
        past
    }

    /// The rungs taken so far, in order.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        let standing = standing(self.in_order(&self.attempts));
        standing.into_iter().flat_map(HistoryEntry::steps)
    }

    /// Rungs that the next decision leaves out: those that somebody asked to, and those that the program refused before.
    pub fn left_out(&self) -> Vec<Skipped> {
        let asked = self.attempts.last().map(|last| &last.steered.left_out);
        let asked = asked
            .into_iter()
            .flatten()
            .map(|rung| Skipped::new(rung, "skipped by request"));
        let refused = self.attempts.iter().flat_map(|attempt| {
            let withdrawn = attempt.withdrawn().into_iter();
            withdrawn.flat_map(|w| w.skipped(attempt.number))
        });
        asked.chain(refused).collect()
    }

    /// How often the same configuration was submitted again for this cause, since somebody last asked that the run goes on.
    pub fn retries(&self, of: RetryCause) -> u32 {
        let again =
            |a: &&Attempt| matches!(&a.verdict, Some(Verdict::Again { cause, .. }) if *cause == of);
        let counted = self.attempts.iter().skip(self.before_retry());
        u32::try_from(counted.filter(again).count()).unwrap_or(u32::MAX)
    }

    /// Nodes that attempts must stay away from.
    pub fn excluded_nodes(&self) -> Vec<String> {
        let mut nodes: Vec<String> = Vec::new();
        for attempt in &self.attempts {
            if let Some(Verdict::Again { exclude, .. }) = &attempt.verdict {
                nodes.extend(exclude.iter().cloned());
            }
        }
        let bad = self
            .excluded
            .iter()
            .flat_map(|(_, excluded)| &excluded.nodes);
        nodes.extend(bad.map(|bad| bad.node.clone()));
        nodes.sort();
        nodes.dedup();
        nodes
    }

    /// When its first attempt was written down. Until then it costs nothing: it waits for others of its sweep.
    pub fn begun(&self) -> Option<Timestamp> {
        self.attempts.first().map(|first| first.intended_at)
    }

    /// From when on its bounds count.
    pub fn bounded_from(&self) -> Option<Timestamp> {
        self.retried.map(|(at, _)| at).or_else(|| self.begun())
    }

    /// How many attempts came before somebody asked that the run goes on. They count against no bound.
    pub fn before_retry(&self) -> usize {
        self.retried.map_or(0, |(_, before)| before)
    }

    /// When its last attempt ended, or was written down where no job came of it; None while the run is open.
    pub fn over_at(&self) -> Option<Timestamp> {
        self.outcome.as_ref()?;
        let last = self.attempt()?;
        Some(last.over_at().unwrap_or(last.intended_at))
    }

    /// Seconds from one time to another in which the run was not over.
    pub fn open_s(&self, from: Timestamp, until: Timestamp) -> i64 {
        let pauses = self.pauses.iter();
        let paused = pauses.map(|(over, again)| {
            let (over, again) = ((*over).clamp(from, until), (*again).clamp(from, until));
            again.duration_since(over).as_secs().max(0)
        });
        let paused: i64 = paused.sum();
        (until.duration_since(from).as_secs() - paused).max(0)
    }

    /// GPU-seconds that count against its bound.
    pub fn bounded_gpu_seconds(&self, now: Timestamp) -> f64 {
        let counted = self.attempts.iter().skip(self.before_retry());
        0.0 + counted.map(|a| a.gpu_seconds_by(now)).sum::<f64>()
    }

    /// GPU-seconds that the attempts have used until `now`.
    pub fn gpu_seconds(&self, now: Timestamp) -> f64 {
        // The sum of nothing is -0.
        0.0 + self
            .attempts
            .iter()
            .map(|a| a.gpu_seconds_by(now))
            .sum::<f64>()
    }

    /// Where the run stands.
    pub fn phase(&self) -> RunPhase {
        if self.outcome.is_some() {
            return RunPhase::Finished;
        }
        let Some(attempt) = self.attempt() else {
            return RunPhase::Preparing(1);
        };
        match &attempt.verdict {
            Some(Verdict::End { .. }) => return RunPhase::Closing,
            Some(_) => return RunPhase::Preparing(attempt.number + 1),
            None => {}
        }
        if attempt.incident.is_some() {
            RunPhase::Judging
        } else if attempt.ended_at.is_some() {
            RunPhase::Draining
        } else if attempt.job.is_some() {
            RunPhase::Live
        } else if attempt.refusal().is_some() {
            RunPhase::Refused
        } else if attempt.unclear.is_some() || attempt.ready_epoch != self.epoch {
            RunPhase::Searching
        } else {
            RunPhase::Submitting
        }
    }

    /// When a submission that was refused for now is made again.
    pub fn again_at(&self) -> Option<Timestamp> {
        let attempt = self.attempt().filter(|_| self.phase() == RunPhase::Refused);
        attempt?.refusal()?.again_at
    }

    /// Takes one record in.
    pub fn apply(&mut self, record: &Record) {
        self.seq = record.seq;
        self.epoch = record.epoch;
        self.news.take(record);
        match &record.fact {
            Fact::Created { run, .. } => {
                self.run.clone_from(run);
                self.created = Some(record.at);
            }
            Fact::OwnerChanged { .. } | Fact::TornTail { .. } => {}
            Fact::Intended { .. } | Fact::Attached { .. } => self.begin(record),
            Fact::PhantomMeasured { attempt, check } => {
                self.phantoms.push((*attempt, (**check).clone()));
            }
            Fact::NodesExcluded { attempt, excluded } => {
                self.excluded.push((*attempt, (**excluded).clone()));
            }
            Fact::FilesChanged { attempt, files } => self.changed.push((*attempt, files.clone())),
            Fact::VersionFound { found, .. } => self.version = Some(found.clone()),
            Fact::BudgetSpent { budget } => self.budget = Some(budget.clone()),
            Fact::CancelRequested { by } => self.cancel = Some(by.clone()),
            Fact::RetryRequested { by } => self.reopen(by, record),
            Fact::Pruned { by, reason } => self.pruned = Some((by.clone(), reason.clone())),
            Fact::Finished { outcome } => self.outcome = Some(outcome.clone()),
            fact => {
                if goes_on(fact) {
                    self.outcome = None;
                }
                if let Some(attempt) = self.attempts.last_mut() {
                    take(attempt, fact, record);
                }
            }
        }
    }

    /// What ended the run holds no longer. Its last configuration comes again, or the next one where that was decided and
    /// never submitted.
    fn reopen(&mut self, by: &str, record: &Record) {
        let unusable = matches!(self.outcome, Some(Outcome::Configuration { .. }));
        if let Some(over) = self.over_at() {
            self.pauses.push((over, record.at));
        }
        (self.outcome, self.cancel, self.pruned, self.budget) = (None, None, None, None);
        // An attempt without a job is still to come.
        let had_a_job = |a: &&Attempt| a.job.is_some() || a.verdict.is_some();
        self.retried = Some((record.at, self.attempts.iter().filter(had_a_job).count()));
        if let Some(attempt) = self.attempts.last_mut() {
            attempt.reopen(by, unusable, record.epoch);
        }
    }

    fn begin(&mut self, record: &Record) {
        let (at, epoch) = (record.at, record.epoch);
        match &record.fact {
            Fact::Intended {
                attempt,
                token,
                script,
                script_sha256,
                gpus,
                outputs,
                ..
            } => self.attempts.push(Attempt {
                outputs: outputs.clone(),
                token: Some(token.clone()),
                script: script.clone(),
                script_sha256: script_sha256.clone(),
                ..Attempt::new(*attempt, *gpus, at, epoch)
            }),
            Fact::Attached {
                attempt,
                job,
                gpus,
                logs,
                outputs,
            } => self.attempts.push(Attempt {
                outputs: outputs.clone(),
                job: Some(job.clone()),
                adopted: true,
                logs: logs.clone(),
                ..Attempt::new(*attempt, *gpus, at, epoch)
            }),
            _ => {}
        }
    }
}

/// Does a run go on with this, also one that was over?
fn goes_on(fact: &Fact) -> bool {
    match fact {
        Fact::SubmitAgain { .. } => true,
        Fact::Decided { verdict, .. } => !matches!(**verdict, Verdict::End { .. }),
        _ => false,
    }
}
