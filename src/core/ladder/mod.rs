//! How to climb: which rung answers an incident, and which values it gives.
//!
//! Rule: the only place that knows both logs and knobs. Pure: recipe, history and incident in, layer
//! out.

mod acts;
mod advise;
mod ascend;
mod ascent;
mod bounds;
mod bug;
mod checkpoint_notes;
mod climb;
mod context;
mod cost;
mod decision;
mod engine_room;
mod enough;
mod evaluations;
mod evidence;
mod figures;
mod fragmentation;
mod host;
mod incident;

mod model_cache;
mod moves;
mod named;
mod need;
mod numbers;
mod observed;
mod odds;
mod optimiser;
mod particle;
mod past;
mod posterior;
mod predict;
pub mod probe;
mod remedies;
mod request;
mod sample;
mod search;
mod search_node;
mod shortfall;
mod successors;
mod take;
#[cfg(test)]
mod tests;
mod tune;

pub use advise::{Advices, Direction, KnobMove, Recommendation, advise};
pub use ascend::ascend;
pub use bug::settle;
pub use climb::climb;
pub use context::{ClimbContext, Policy};
pub use cost::costs;
pub use decision::{Change, Decision, Expectation, PhaseNeed, Shortfall, Skipped, Step};
pub use incident::{check_answers, check_phases};
pub use observed::Observed;
pub use past::{Past, PastAttempt, Peak, Priors};
pub use posterior::Posterior;
pub use predict::predict;
#[cfg(test)]
pub(crate) use remedies::leads_to;
pub use tune::{Faster, Judgement, TuneCandidate, Tuned, Untaken, candidates, tune};
