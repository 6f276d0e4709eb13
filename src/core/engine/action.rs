//! All that a supervisor can ask for. What is due is asked anew after every event, so each action is
//! safe to repeat.

use jiff::Timestamp;

use oomctl_base::job::{JobRef, Token};

/// Something to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Measure the configuration of an attempt on phantom GPUs.
    Measure {
        /// Its number.
        attempt: u32,
    },
    /// Write the files of an attempt.
    Prepare {
        /// Its number.
        attempt: u32,
    },
    /// Submit it. Only ever due in the epoch that wrote its intent down.
    Submit {
        /// Its number.
        attempt: u32,
        /// Its token.
        token: Token,
    },
    /// Look for the job that carries its token.
    Find {
        /// Its number.
        attempt: u32,
        /// Its token.
        token: Token,
        /// No job of it is older than this.
        since: Timestamp,
    },
    /// Ask for the state of its job.
    Poll {
        /// Its number.
        attempt: u32,
        /// The job.
        job: JobRef,
    },
    /// Read what its logs have got.
    ReadLogs {
        /// Its number.
        attempt: u32,
    },
    /// Cancel a job: the attempt's own, or a second one with its token.
    Cancel {
        /// Its number.
        attempt: u32,
        /// The job.
        job: JobRef,
    },
    /// Ask the scheduler when the answers to its failure would start.
    AskQueue {
        /// Its number.
        attempt: u32,
    },
    /// Read the logs of the ended job to their end and say why it ended.
    Drain {
        /// Its number.
        attempt: u32,
        /// True when no further text is waited for, whatever they say.
        last: bool,
    },
}
