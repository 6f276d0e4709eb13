//! What the drive tells whoever started it. It prints nothing itself.

use jiff::Timestamp;

use super::DriveError;
use crate::core::engine::{Attempt, History, LogLook, Record};
use crate::core::ladder::Step;
use crate::core::request::Explanation;
use crate::io::scheduler::Dependent;
use oomctl_base::job::{JobId, JobStatus};
use oomctl_diagnose::{Class, Progress};

/// Something to tell.
#[derive(Debug)]
pub enum Notice<'a> {
    /// A fact was written down: an attempt intended or submitted, a change of state, an incident, a
    /// decision, the end.
    Fact {
        /// The run.
        run: &'a str,
        /// The fact.
        record: &'a Record,
    },
    /// The scheduler's word on a job, changed or not: queue reason, elapsed time.
    Status {
        /// The run.
        run: &'a str,
        /// The attempt.
        attempt: &'a Attempt,
        /// What the scheduler said.
        status: &'a JobStatus,
    },
    /// A job of the user's waits for an attempt that another one replaced.
    Dependent {
        /// The run.
        run: &'a str,
        /// The job.
        job: &'a Dependent,
        /// Was it told to wait for the replacement?
        moved: bool,
        /// The replacement.
        to: &'a JobId,
    },
    /// Which checkpoint an attempt goes on from, or why from none.
    Checkpoint {
        /// The run.
        run: &'a str,
        /// Number of the attempt.
        attempt: u32,
        /// What was found.
        text: &'a str,
    },
    /// An earlier process had read the logs up to here, and told what they said.
    Resumed {
        /// The run.
        run: &'a str,
        /// What they said.
        look: &'a LogLook,
    },
    /// Training went on.
    Progress {
        /// The run.
        run: &'a str,
        /// How far it is.
        progress: &'a Progress,
    },
    /// The log of a running job shows a fatal failure.
    Fatal {
        /// The run.
        run: &'a str,
        /// Of which family.
        class: Class,
    },
    /// Why one GPU of a process that drives several is full.
    Explained {
        /// The run.
        run: &'a str,
        /// What was found.
        explanation: &'a Explanation,
    },
    /// What an escalation would take now, for somebody who asked.
    Outlook {
        /// The run.
        run: &'a str,
        /// Number of the attempt that would be replaced.
        attempt: u32,
        /// The rungs, or why there would be none.
        next: Result<&'a [Step], &'a str>,
    },
    /// Something does not work for the moment; it is tried again.
    Trouble {
        /// The run, where it is about one.
        run: Option<&'a str>,
        /// What, in words.
        what: &'a str,
    },
    /// This process cannot go on with a run, and goes on with the others.
    SetAside {
        /// The run.
        run: &'a str,
        /// Why.
        why: &'a DriveError,
    },
    /// The scheduler answers again.
    Recovered,
}

/// Whoever listens.
pub trait Observer {
    /// Takes a notice.
    fn notice(&mut self, notice: &Notice<'_>);

    /// Takes the notice that something went wrong.
    fn trouble(&mut self, run: Option<&str>, what: &str) {
        self.notice(&Notice::Trouble { run, what });
    }

    /// A turn of the loop is over, whether anything happened in it or not.
    fn turn(&mut self, _now: Timestamp, _runs: &mut dyn Iterator<Item = &History>) {}
}

/// Listens to nothing.
#[derive(Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn notice(&mut self, _: &Notice<'_>) {}
}
