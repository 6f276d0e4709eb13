//! How to climb: which rung answers an incident, and which values it gives.
//!
//! Rule: the only place that knows both logs and knobs. Pure: recipe, history and incident in, layer
//! out.

mod acts;
mod advise;
mod ascend;
mod bug;
mod climb;
mod cost;
mod decision;
mod engine_room;
mod enough;
mod evidence;
mod figures;
mod fill;
mod forecast;
mod gauge;
mod guess;
mod host;
mod incident;
mod kept;
mod laps;
mod looked;
mod moves;
mod named;
mod need;
mod numbers;
mod observed;
mod pieces;
mod predict;
pub mod probe;
mod reach;
mod remedies;
mod request;
mod sample;
mod search;
mod shortfall;
mod take;
#[cfg(test)]
mod tests;
mod tune;
mod workshop;

pub use advise::{Advices, Advised, Turn, Way, advise};
pub use ascend::{Outlook, Past, Tried, ascend};
pub use bug::settle;
pub use climb::{Footing, Policy, climb};
pub use cost::costs;
pub use decision::{Change, Decision, Expectation, PhaseNeed, Shortfall, Skipped, Step};
pub use forecast::{Forecast, Peak};
pub use incident::{check_answers, check_phases};
pub use observed::Observed;
pub use predict::predict;
#[cfg(test)]
pub(crate) use remedies::leads_to;
pub use tune::{Candidate, Faster, Judgement, Tuned, Untaken, candidates, tune};
