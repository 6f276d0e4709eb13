//! Facts, not state: what happened to a run, what follows, what is due.
//!
//! `decide(&Run, &Event, now) -> Vec<Fact>`, `Run::apply(&Record)`, `due(&Run, now) -> Vec<Action>`.
//!
//! Rule: closed enums in and out; no clock, no file. `now` is an argument.

mod action;
mod again;
mod attempt;
mod checkpoint;
mod data_parallel;
mod decide;
mod due;
mod environment;
mod event;
mod fact;
mod follow_up;
mod foreseen;
mod freed;
mod history;
mod inputs;
mod intent;
mod news;
mod observation;
mod outcome;
mod pace;
mod phase;
mod plan;
mod probe;
mod ready;
mod refused;
mod request;
mod rule_of_thumb;
mod run;
mod script_plan;
mod scripts;
mod stacks;
mod start;
mod steer;
mod sweep_group;
mod tune;
mod verdict;
mod watch;
mod watch_chain;

pub use action::Action;
pub use checkpoint::{Listing, Resumption, Shelf};
pub use data_parallel::{Explanation, ScriptText, explain};
pub use decide::decide;
pub use due::{due, next_due, poll_at};
pub use environment::{Split, split};
pub use event::{Event, LogLook, Rising, Sighting};
pub use fact::{Fact, LEDGER_VERSION, LogEnd, Record};
pub use foreseen::Foreseen;
pub use freed::Freed;
pub use history::{Attempt, History};
pub use inputs::{Adopts, INPUTS_VERSION, Inputs, RISK, Source};
pub use intent::{Handed, Intent, LogLinks};
pub use news::{Address, NewsKind, Notices, Notification, Pause, Told, mask, notification};
pub use observation::observation;
pub use outcome::{Budget, Cause, Outcome, Verdict};
pub use pace::Pace;
pub use phase::Phase;
pub use plan::{Plan, PlannedStep, Remedy};
pub use probe::{ProbeOf, Short, Trial, TrialEnd};
pub use ready::{Request, Resources};
pub use refused::Refused;
pub use request::{Limits, Supervision};
pub use rule_of_thumb::Thumb;
pub use run::Run;
pub use script_plan::{ScriptAttempt, ScriptPlan};
pub use stacks::Stacks;
pub use start::{Ground, Start};
pub use steer::{Steered, outlook};
pub use sweep_group::{SweepGroup, observations, prune};
pub use tune::Basis;
pub use watch_chain::{GiveUp, NextLook, Turn, after_nothing, next_look};

#[cfg(test)]
pub(crate) mod tests;
