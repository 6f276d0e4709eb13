//! Facts, not state: what happened to a run, what follows, what is due.
//!
//! `decide(&Run, &Event, now) -> Vec<Fact>`, `Run::apply(&Record)`, `due(&Run, now) -> Vec<Action>`.
//!
//! Rule: closed enums in and out; no clock, no file. `now` is an argument.

mod action;
mod again;
mod attempt;
mod checkpoint;
mod crowded;
mod decide;
mod due;
mod environment;
mod event;
mod fact;
mod flock;
mod follow_up;
mod foreseen;
mod freed;
mod history;
mod inputs;
mod intent;
mod lesson;
mod news;
mod outcome;
mod pace;
mod phase;
mod probe;
mod ready;
mod refused;
mod relay;
mod request;
mod run;
mod scripts;
mod stacks;
mod start;
mod steer;
mod thumb;
mod tune;
mod verdict;
mod watch;

pub use action::Action;
pub use checkpoint::{Listing, Resumption, Shelf};
pub use crowded::{Explanation, ScriptText, explain};
pub use decide::decide;
pub use due::{due, next_due, poll_at};
pub use environment::{Split, split};
pub use event::{Event, LogLook, Rising, Sighting};
pub use fact::{Fact, LEDGER_VERSION, LogEnd, Record};
pub use flock::{Flock, lessons, prune};
pub use foreseen::Foreseen;
pub use freed::Freed;
pub use history::{Attempt, History};
pub use inputs::{Adopts, INPUTS_VERSION, Inputs, RISK, Source};
pub use intent::{Handed, Intent, LogLinks};
pub use lesson::lesson;
pub use news::{Address, Letter, NewsKind, Notices, Pause, Told, letter, mask};
pub use outcome::{Budget, Cause, Outcome, Verdict};
pub use pace::Pace;
pub use phase::Phase;
pub use probe::{ProbeOf, Short, Trial, TrialEnd};
pub use ready::{Request, Resources};
pub use refused::Refused;
pub use relay::{GiveUp, NextLook, Turn, after_nothing, next_look};
pub use request::{Limits, Supervision};
pub use run::Run;
pub use stacks::Stacks;
pub use start::{Ground, Start};
pub use steer::{Steered, outlook};
pub use thumb::Thumb;
pub use tune::Basis;

#[cfg(test)]
pub(crate) mod tests;
