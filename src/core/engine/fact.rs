//! What happened to a run: the ledger is a list of these, and everything else is a fold over it.
//!
//! The enum is closed and grows only: a new kind of fact or a new optional field may be added, none
//! may change its meaning. The words on disk are the names here, in snake case.

use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::changed::ChangedFile;
use super::foreseen::Foreseen;
use super::outcome::{Budget, Outcome, Verdict};
use super::phantom::PhantomCheck;
use crate::core::adopt::ProgramLog;
use crate::core::learn::NodesExcluded;
use crate::core::measure::Measured;
use crate::core::request::{QueueStart, VersionInLog};
use oomctl_base::job::{JobRef, JobStatus, Token};
use oomctl_base::word_list;
use oomctl_diagnose::{Incident, Link, Progress};

/// The version of the ledger's format that this program writes.
pub const LEDGER_VERSION: u32 = 1;

/// One fact with its place in the ledger: one line of `ledger.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Version of the format.
    pub v: u32,
    /// Position, from 1, without gaps.
    pub seq: u64,
    /// When it was written (clock of the writer).
    pub at: Timestamp,
    /// Which owner of the run wrote it; grows by one with every owner.
    pub epoch: u64,
    /// What happened.
    #[serde(flatten)]
    pub fact: Fact,
}

impl Record {
    /// A fact as this version writes it.
    pub fn new(seq: u64, at: Timestamp, epoch: u64, fact: Fact) -> Self {
        Self {
            v: LEDGER_VERSION,
            seq,
            at,
            epoch,
            fact,
        }
    }
}

/// How far a log reached at some moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEnd {
    /// The log file.
    pub path: PathBuf,
    /// Its length in bytes.
    pub offset: u64,
}

/// Something that happened to a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "fact", rename_all = "snake_case")]
pub enum Fact {
    /// The run exists; its request lies beside the ledger.
    Created {
        /// Name of the run.
        run: String,
        /// Version of oomctl that made it.
        version: String,
    },
    /// Another process became the one writer; the record's epoch is its number.
    OwnerChanged {
        /// Host of the new owner.
        host: String,
        /// Its process id.
        pid: u32,
    },
    /// The ledger ended in half a record, which was sealed and does not count.
    TornTail {
        /// Offset of the first byte that does not count.
        offset: u64,
        /// How many bytes do not count.
        length: u64,
    },
    /// The configuration of the next attempt was measured on phantom GPUs, or could not be. Its rungs are those of the attempt.
    PhantomMeasured {
        /// Number of the attempt that comes next.
        attempt: u32,
        /// What was measured, and what follows.
        check: Box<PhantomCheck>,
    },
    /// Nodes are excluded from here on, because they failed jobs of the project by themselves.
    NodesExcluded {
        /// Number of the attempt that comes next.
        attempt: u32,
        /// Which, why, and the layer that says so.
        excluded: Box<NodesExcluded>,
    },
    /// Files that the run was submitted with are other ones by now.
    FilesChanged {
        /// Number of the attempt that comes next.
        attempt: u32,
        /// Which, and what it runs of them.
        files: Vec<ChangedFile>,
    },
    /// The files of an attempt are written and it is about to be submitted.
    Intended {
        /// Number of the attempt, from 1.
        attempt: u32,
        /// The name under which the job can be found again.
        token: Token,
        /// Name of the entry script in the attempt's folder.
        script: String,
        /// SHA-256 of the entry script, in hex.
        script_sha256: String,
        /// GPUs of the whole job.
        gpus: u64,
        /// Names of the rungs taken so far, in order.
        #[serde(default)]
        rungs: Vec<String>,
        /// Files into which its program prints.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        outputs: Vec<ProgramLog>,
    },
    /// A job that oomctl did not submit was taken under watch as an attempt.
    Attached {
        /// Number of the attempt.
        attempt: u32,
        /// The job.
        job: JobRef,
        /// GPUs of the whole job, 0 where unknown.
        gpus: u64,
        /// Its logs.
        logs: Vec<PathBuf>,
        /// Files into which its program prints.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        outputs: Vec<ProgramLog>,
    },
    /// The scheduler accepted the attempt.
    Submitted {
        /// Number of the attempt.
        attempt: u32,
        /// The job.
        job: JobRef,
        /// True when the answer was lost and the job was found by its token.
        adopted: bool,
    },
    /// The submission may or may not have been accepted.
    SubmitUnclear {
        /// Number of the attempt.
        attempt: u32,
        /// What was seen.
        detail: String,
    },
    /// The scheduler surely refused; nothing was accepted.
    SubmitRefused {
        /// Number of the attempt.
        attempt: u32,
        /// The scheduler's own words.
        reason: String,
        /// What the user can do about it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hint: Option<String>,
        /// Is it refused for now, by what passes by itself?
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        passing: bool,
        /// Seconds until it is submitted again, where it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        again_s: Option<u64>,
    },
    /// An attempt that was refused for now is about to be submitted again, under its token.
    SubmitAgain {
        /// Number of the attempt.
        attempt: u32,
        /// Who asked for it; nobody where its pause is over.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// No job carries the token, for as long as it could have taken to appear: the same attempt may
    /// be submitted again.
    SubmitAbsent {
        /// Number of the attempt.
        attempt: u32,
    },
    /// A second job carries the token of an attempt; it must go.
    DuplicateFound {
        /// Number of the attempt.
        attempt: u32,
        /// The job that is not kept.
        job: JobRef,
    },
    /// The second job was cancelled.
    DuplicateCancelled {
        /// Number of the attempt.
        attempt: u32,
        /// The job that is not kept.
        job: JobRef,
    },
    /// The scheduler's word on the job changed.
    StateSeen {
        /// Number of the attempt.
        attempt: u32,
        /// What it said.
        status: JobStatus,
    },
    /// The scheduler started the job again under the same id.
    Restarted {
        /// Number of the attempt.
        attempt: u32,
        /// Restarts in all.
        restarts: u32,
        /// GPU-seconds of the part that is over.
        #[serde(default)]
        gpu_seconds: f64,
        /// Where the text of the present part begins.
        logs: Vec<LogEnd>,
    },
    /// The log shows a fatal OOM and no progress since: the rest of the job hangs.
    Stalled {
        /// Number of the attempt.
        attempt: u32,
        /// Seconds without progress.
        quiet_s: u64,
        /// GPU-seconds that it would have held until its time limit, where it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        saved_gpu_seconds: Option<u64>,
    },
    /// A running job has shown no progress for long. Nothing follows from it, unless that is asked for.
    Idle {
        /// Number of the attempt.
        attempt: u32,
        /// Seconds without progress.
        idle_s: u64,
    },
    /// Memory is going to be full before the work is done, if it goes on as it does. Nothing follows from it.
    Foreseen {
        /// Number of the attempt.
        attempt: u32,
        /// What is seen coming.
        foreseen: Foreseen,
    },
    /// The job waits for something that no waiting brings; it is ended.
    NeverStarts {
        /// Number of the attempt.
        attempt: u32,
        /// The scheduler's word for what it waits for.
        reason: String,
    },
    /// A bound of the run was reached while a job was alive.
    BudgetSpent {
        /// Which bound.
        budget: Budget,
    },
    /// Somebody asked for the end of the run.
    CancelRequested {
        /// Who, as far as known.
        by: String,
    },
    /// Somebody asked for the end of this attempt, and for the next rung.
    EscalationRequested {
        /// Number of the attempt.
        attempt: u32,
        /// Who, as far as known.
        by: String,
    },
    /// Somebody asked that what follows this attempt leaves a rung out.
    RungLeftOut {
        /// Number of the attempt.
        attempt: u32,
        /// The rung.
        rung: String,
        /// Who, as far as known.
        by: String,
    },
    /// Somebody asked that a run that is over goes on. Its bounds count from here.
    RetryRequested {
        /// Who, as far as known.
        by: String,
    },
    /// The run is not to be started: another one of its sweep shows that it would fail.
    Pruned {
        /// The run that failed.
        by: String,
        /// Why that says it, in one line.
        reason: String,
    },
    /// The scheduler took our cancellation of the job.
    CancelSent {
        /// Number of the attempt.
        attempt: u32,
    },
    /// The job is over, COMPLETING included. `None` when the scheduler knows it no more.
    Ended {
        /// Number of the attempt.
        attempt: u32,
        /// The last word of the scheduler.
        status: Option<JobStatus>,
        /// GPU-seconds of the last part, and of earlier ones what the facts before did not count, or counted too high.
        #[serde(default)]
        gpu_seconds: f64,
    },
    /// What it was measured to need. Before its diagnosis, where anything was measured.
    Measured {
        /// Number of the attempt.
        attempt: u32,
        /// The peaks.
        measured: Box<Measured>,
    },
    /// Why it ended.
    Diagnosed {
        /// Number of the attempt.
        attempt: u32,
        /// The incident.
        incident: Box<Incident>,
        /// Last training step.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        progress: Option<Progress>,
    },
    /// The scheduler was asked when each of the answers to it would start.
    QueueAsked {
        /// Number of the attempt.
        attempt: u32,
        /// What it said; empty where it could not be asked.
        starts: Vec<QueueStart>,
    },
    /// What follows from it.
    Decided {
        /// Number of the attempt.
        attempt: u32,
        /// Climb, try again, or end.
        verdict: Box<Verdict>,
    },
    /// The run is over.
    Finished {
        /// How.
        outcome: Outcome,
    },
    /// A log names a page of a tracker.
    Linked {
        /// Number of the attempt.
        attempt: u32,
        /// The page.
        link: Link,
    },
    /// A log names the version of the framework, for which the scripts are read from here on.
    VersionFound {
        /// Number of the attempt.
        attempt: u32,
        /// The version.
        found: VersionInLog,
    },
    /// What happened up to a fact is about to be told to those who do not watch. Written before it is told, so that
    /// nothing is told twice.
    Noticed {
        /// Number of that fact.
        until: u64,
    },
}

impl Fact {
    /// Does it only repeat what scheduler or logs say? No act follows from it alone, and they say it again after a crash of
    /// the host: it is synced with the next fact that is.
    pub fn is_repeated(&self) -> bool {
        use Fact::{Diagnosed, Ended, Foreseen, Idle, Linked, Measured, StateSeen};
        matches!(
            self,
            StateSeen { .. }
                | Linked { .. }
                | Idle { .. }
                | Foreseen { .. }
                | Ended { .. }
                | Measured { .. }
                | Diagnosed { .. }
        )
    }

    /// The words on disk of every kind of fact that this version knows.
    pub const KINDS: &'static [&'static str] = &word_list::<37>(
        "created owner_changed torn_tail phantom_measured nodes_excluded files_changed intended attached
         submitted submit_unclear submit_refused submit_again submit_absent duplicate_found
         duplicate_cancelled state_seen restarted stalled idle foreseen never_starts budget_spent
         cancel_requested retry_requested escalation_requested rung_left_out pruned cancel_sent
         ended measured diagnosed queue_asked decided finished linked version_found noticed",
    );
}
