//! The state machine of a run: what happened, what follows, what is due.
//!
//! ```text
//!              Intended              Submitted         Ended            Diagnosed
//! Preparing(n) ────────▶ Submitting ──────────▶ Live ───────▶ Draining ──────────▶ Judging
//!      ▲                  ▲ │ │  ▲               ▲                                  │   │
//!      │      SubmitAgain │ │ │  │ SubmitAbsent  │ Submitted (adopted)              │   │ Decided (End)
//!      │                  │ │ │  └──────────┐    │                                  │   ▼
//!      │                  │ │ └──────────▶ Searching                                │ Closing
//!      │                  │ │ SubmitUnclear    │                                    │   │ Finished
//!      │                  │ ▼ SubmitRefused    │ SubmitRefused                      │   ▼
//!      │                 Refused ◀─────────────┘                                    │ Finished
//!      │                                                                            │
//!      └────────────────────────────────────────────────────────────────────────────┘
//!                                   Decided (Climb, Again)
//! ```
//!
//! A run begins as `Preparing(1)`; from there `Attached` leads to `Live`, for a job of somebody else. `OwnerChanged` leads
//! from `Submitting` to `Searching`: who did not write the intent down looks for the job first.
//!
//! `Finished` is written from `Preparing`, `Submitting` and `Refused` too: a run that is cancelled, pruned, out of its
//! bounds, refused for good, or that cannot be rendered. `SubmitAgain` and `Decided` (`Again`) lead back from there, when
//! somebody asks for it.
//!
//! | facts | written when | what they change |
//! |---|---|---|
//! | `Created` | the run exists | nothing is submitted yet |
//! | `OwnerChanged`, `TornTail` | another process is the one writer, half a record was sealed | an attempt that was not handed over is looked for first |
//! | `PhantomMeasured` | the next attempt was measured on phantom GPUs | it takes further rungs where it does not fit there |
//! | `NodesExcluded` | the project's jobs show nodes that fail by themselves | attempts from the next one on exclude them |
//! | `Intended`, `Attached` | the files are written, somebody else's job is taken under watch | the next attempt begins |
//! | `Submitted`, `SubmitUnclear`, `SubmitRefused` | the scheduler answered, or did not | see above |
//! | `SubmitAgain`, `SubmitAbsent` | a refusal has passed, surely no job carries the token | the same attempt is submitted, under its token |
//! | `DuplicateFound`, `DuplicateCancelled` | a second job carries the token | it is cancelled until it is gone |
//! | `StateSeen`, `Restarted` | the scheduler's word on the job changed | the job's state, where its logs begin |
//! | `Stalled`, `NeverStarts`, `BudgetSpent` | it hangs, waits in vain, a bound is reached | the job is cancelled |
//! | `Idle`, `Foreseen`, `Linked` | no progress for long, memory is going to be full, a tracker's page | nothing, they are told |
//! | `FilesChanged` | files of the user's changed since the run was submitted | nothing, it is told, and the attempt teaches nothing |
//! | `VersionFound` | a log names the framework's version, which was assumed | the scripts are read for that version |
//! | `CancelRequested`, `EscalationRequested`, `RungLeftOut`, `Pruned` | somebody asked, another run of the sweep failed | the job is cancelled, or the next rung is another |
//! | `RetryRequested` | somebody wants a run that is over to go on | it is open again, and its bounds count from here |
//! | `CancelSent` | the scheduler took a cancellation | it is repeated less often |
//! | `QueueAsked` | the scheduler said when each answer to the failure would start | what follows is decided |
//! | `Ended`, `Measured`, `Diagnosed`, `Decided`, `Finished` | the job is over, was measured, explained, answered; the run is over | see above |
//! | `Noticed` | news are about to be told | they are not told again |
//!
//! `decide(&Run, &Event, now) -> Vec<Fact>`, `Run::apply(&Record)`, `due(&Run, now) -> Vec<Action>`. What a run asks for,
//! and which rungs answer a failure of it, is its `Request`.
//!
//! Rule: closed enums in and out; no clock, no file. `now` is an argument.

mod action;
mod budget;
mod changed;
mod decide;
mod due;
mod ending;
mod event;
mod fact;
mod follow_up;
mod foreseen;
mod given_memory;
mod hangs;
mod measuring;
mod news;
mod observation;
mod outcome;
mod pace;
mod phantom;
mod queue;
mod queue_choice;
mod refused;
mod retry;
mod state;
mod steer;
mod sweep_group;
mod time;
mod trial;
mod unmoved;
mod verdict;
mod watch_chain;
mod withdraw;

pub use action::Action;
pub use changed::ChangedFile;
pub use decide::decide;
pub use due::{due, next_due, poll_at};
pub use ending::of_others;
pub use event::{AttemptEvent, Event, LogLook, Sighting};
pub use fact::{Fact, LEDGER_VERSION, LogEnd, Record};
pub use foreseen::{Foreseen, Rising};
pub use news::{Notification, NotifiedEvent, Pause, mask, notification};
pub use observation::{observation, on_nodes};
pub use outcome::{Budget, Outcome, RetryCause, Verdict, Withdrawn};
pub use pace::Pace;
pub use phantom::{PhantomCheck, PhantomMeasurement};
pub use retry::elsewhere;
pub use state::{Attempt, History, Run, RunPhase, SchedulerRefusal, Steered};
pub use steer::outlook;
pub use sweep_group::{SweepGroup, observations, prune};
pub use trial::trial;
pub use unmoved::unmoved;
pub use watch_chain::{GiveUp, NextLook, WatchTurn, after_nothing, next_look};

#[cfg(test)]
pub(crate) mod tests;
