//! Where a run stands.

/// Where a run stands. Exactly one thing is the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunPhase {
    /// The files of this attempt are to be written and its intent recorded.
    Preparing(u32),
    /// Intended by the present owner; not handed to the scheduler yet.
    Submitting,
    /// It is not known whether a job exists.
    Searching,
    /// The scheduler refused.
    Refused,
    /// A job exists and is not over.
    Live,
    /// The job is over; its logs may still get text.
    Draining,
    /// The cause is known, what follows is not decided.
    Judging,
    /// It is decided that the run ends.
    Closing,
    /// Over.
    Finished,
}
