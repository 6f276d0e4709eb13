//! Where a run stands: what its facts add up to, and what only this process knows.
//!
//! Rule: facts are taken in here and nowhere else; nothing is decided.

mod attempt;
mod entry;
mod history;
mod phase;
mod refusal;
mod run;
mod watch;

pub use attempt::{Attempt, Steered};
pub(super) use attempt::{part, uncounted};
pub use history::History;
pub use phase::RunPhase;
pub use refusal::SchedulerRefusal;
pub use run::Run;
pub(super) use watch::Question;
