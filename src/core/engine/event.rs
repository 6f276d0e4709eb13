//! All that can wake the program.

use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};

use super::changed::ChangedFile;
use super::fact::LogEnd;
use super::foreseen::Rising;
use super::phantom::PhantomMeasurement;
use crate::core::adopt::ProgramLog;
use crate::core::learn::BadNode;
use crate::core::measure::Measured;
use crate::core::request::{Adopts, QueueStart, VersionInLog};
use oomctl_base::job::{JobId, JobRef, JobStatus, Token};
use oomctl_diagnose::{Class, Incident, Link, Progress};

/// A job that carries the token of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    /// The job.
    pub status: JobStatus,
    /// The cluster it is on.
    pub cluster: Option<String>,
    /// When the scheduler says it was submitted.
    pub submitted: Option<Timestamp>,
    /// True when the record is only the trace of a refused submission.
    pub refused_trace: bool,
}

/// What a log shows so far.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LogLook {
    /// Class of the first fatal failure in the text, where there is one.
    pub fatal: Option<Class>,
    /// How far training has come.
    pub progress: Option<Progress>,
    /// Memory that rises.
    pub rising: Rising,
    /// How far the logs reach.
    pub ends: Vec<LogEnd>,
    /// Logs that began anew since the look before (truncated, replaced, rotated): where they ended until
    /// then says nothing about them.
    pub anew: Vec<PathBuf>,
}

/// Something that a supervisor was told.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Time passed, or a fact was written: see what follows by itself.
    Tick,
    /// Somebody wants the run to end.
    CancelAsked {
        /// Who.
        by: String,
    },
    /// Somebody wants to go on with a run that was refused for now, or that a disk ended.
    ResumeAsked {
        /// Who.
        by: String,
    },
    /// Somebody wants a run that is over to go on.
    RetryAsked {
        /// Who.
        by: String,
    },
    /// Another run of the sweep shows that this one would fail.
    ProvenInfeasible {
        /// The run that failed.
        by: String,
        /// Why that says it, in one line.
        reason: String,
    },
    /// A job of somebody else is to be watched as the first attempt.
    Attach(Adopts),
    /// Something about the attempt with this number: a late word on an earlier one changes nothing.
    Attempt(u32, AttemptEvent),
}

/// Something that a supervisor was told of one attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum AttemptEvent {
    /// The files of an attempt are on disk.
    Prepared {
        /// Its token.
        token: Token,
        /// Name of the entry script in the attempt's folder.
        script: String,
        /// SHA-256 of the entry script, in hex.
        script_sha256: String,
        /// GPUs of the whole job.
        gpus: u64,
        /// Files into which its program prints.
        outputs: Vec<ProgramLog>,
    },
    /// The configuration that the attempt would have was measured on phantom GPUs, or could not be.
    PhantomMeasured(Box<PhantomMeasurement>),
    /// Files that the run was submitted with are other ones by now.
    FilesChanged(Vec<ChangedFile>),
    /// These nodes fail jobs of the project by themselves.
    NodesAreBad(Vec<BadNode>),
    /// It is being measured.
    PhantomRuns,
    /// A log names this page of a tracker.
    LinkSeen(Link),
    /// A log names the version of the framework that was assumed so far.
    VersionSeen(VersionInLog),
    /// The files of an attempt cannot be made, and why.
    PrepareRefused(String),
    /// The scheduler accepted.
    Accepted {
        /// The job's id.
        id: JobId,
        /// Its cluster, where named.
        cluster: Option<String>,
    },
    /// The scheduler surely refused.
    Refused {
        /// Its words.
        reason: String,
        /// What the user can do.
        hint: Option<String>,
        /// Is it a refusal for now, whose cause passes by itself?
        passing: bool,
    },
    /// The scheduler has no place for it yet and looks again at this moment.
    NotYet(Timestamp),
    /// The submission may or may not have been accepted; what was seen.
    Unclear(String),
    /// A clean answer to the search for a token: the jobs that carry it.
    Found(Vec<Sighting>),
    /// The search got no usable answer.
    FindUnanswered,
    /// The scheduler's word on the job.
    Polled {
        /// What it said.
        status: JobStatus,
        /// How long before this was asked somebody else had asked whose answer it is; zero where it was asked now.
        age: SignedDuration,
    },
    /// The scheduler answered and surely knows the job no more.
    Vanished,
    /// The scheduler did not answer, or said nothing of this job.
    PollUnanswered,
    /// The logs were read, and show this.
    LogsRead(LogLook),
    /// An earlier process had read the logs up to these ends when it heard for the last time that the job had been restarted as
    /// often as the facts say.
    LogsKnown(Vec<LogEnd>),
    /// The logs of an ended job were read to their end and explained.
    Drained {
        /// True when nothing more can come, or is waited for: where another node writes over a network,
        /// the last lines can show a minute and more after the end.
        complete: bool,
        /// Why it ended.
        incident: Box<Incident>,
        /// Last training step.
        progress: Option<Progress>,
        /// What it was measured to need.
        measured: Measured,
    },
    /// When the scheduler would start the answers to the attempt's failure; empty where it could not be asked.
    QueueAnswered(Vec<QueueStart>),
    /// Somebody wants the next rung now, and does not wait for a failure.
    EscalationAsked {
        /// Who.
        by: String,
    },
    /// Somebody wants the next escalation to leave a rung out.
    LeaveOutAsked {
        /// The rung.
        rung: String,
        /// Who.
        by: String,
    },
    /// The scheduler took the cancellation of this job.
    CancelTaken(JobRef),
    /// A cancellation got no answer.
    CancelUnanswered,
}
