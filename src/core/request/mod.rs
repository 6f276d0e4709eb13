//! What a run asks for, and what is made of it: configurations, files, rungs, a place to start, short jobs.
//!
//! [`Inputs`] are what is stored; a [`Request`] is the same made ready. Each other file adds methods to it.
//!
//! Rule: a request is data that never changes and knows nothing of what happened to a run. Whoever asks hands in the
//! rungs that were taken.

mod aside;
mod checkpoint;
mod climb;
mod command;
mod counted;
mod data_parallel;
mod environment;
mod evaluated;
mod handed;
mod in_program;
mod inputs;
mod kept;
mod largest;
mod limits;
mod memory;
mod notices;
mod own_code;
mod plan;
mod probe;
mod queue;
mod queue_starts;
#[expect(
    clippy::module_inception,
    reason = "each type has its file, and this one is what the folder is about"
)]
mod request;
mod script_plan;
mod scripts;
mod source;
mod stacks;
mod start;
mod trial;
mod tune;
mod unread;
mod version;

pub use checkpoint::{CheckpointDirectory, Listing, Resumption};
pub use climb::UNEQUAL_TASKS;
pub use data_parallel::{Explanation, ScriptText, explain};
pub use environment::{SplitEnvironment, split};
pub use handed::{Handed, LogLinks};
pub use inputs::{Adopts, Inputs, MIN_FIT_PROBABILITY, NamedText, ProbeOf};
pub use kept::KeptMeasurement;
pub use limits::{Limits, Supervision};
pub use memory::Freed;
pub use notices::{NewsKind, Notices};
pub use plan::{FittingSteps, Plan, PlannedStep};
pub use probe::ProbeSeries;
pub use queue::Alternative;
pub use queue_starts::{QueueChoice, QueueStart, StartForecast, started, work_left};
pub use request::Request;
pub use script_plan::{ScriptAttempt, ScriptPlan};
pub use stacks::Stacks;
pub use start::{Ground, Start};
pub use trial::{Trial, TrialEnd};
pub use tune::Basis;
pub use unread::UnreadKnob;
pub use version::VersionInLog;

#[cfg(test)]
pub(crate) mod tests;
