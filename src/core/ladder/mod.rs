//! How to climb: which rung answers an incident, and which values it gives. Pure: recipe, history and incident in, layer out.
//!
//! | question | files |
//! |---|---|
//! | what does the failure say | `incident` (as expressions see it), `remedies` (what it names), `bug` (what cannot help), `own_engine` (whose memory it is), `said` (its figures), `older` (what the version lacks), `states` (what does not fit by itself) |
//! | what does one rung give | `climb`, `take`, `moves`, `acts` (does a move free memory there), `search` (the nearest legal values), `packages` (what it needs beside the framework), `checkpoint_notes` |
//! | how many rungs | `ascend`, `ascent` (ladder and model together), `enough`, `past` (earlier attempts), `cost` |
//! | how much does it need | `posterior` over `particle`s, learned from `evidence`, `request` (what a failed request was for), `fragmentation`; asked through `need`, `model_cache`, `counted` (before a run); `host`, `engine_room` |
//! | which values at all | `predict` over `successors` and `search_node`, with `bounds`, `numbers`, `optimiser`, `named`, `shortfall` |
//! | which of several answers ends first | `soonest` |
//! | the other direction | `tune`, `probe`, `observed` (what a measured peak says), `advise` (where no value is known) |

mod acts;
mod advise;
mod ascend;
mod ascent;
mod bounds;
mod bug;
mod climb;
mod context;
mod cost;
mod counted;
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
mod older;
mod optimiser;
mod own_engine;
mod packages;
mod particle;
mod past;
mod posterior;
mod predict;
pub mod probe;
mod raised_host;
mod remedies;
mod request;
mod said;
mod search;
mod search_node;
mod shortfall;
mod soonest;
mod sparing;
mod states;
mod successors;
mod take;
mod taken_back;
#[cfg(test)]
mod tests;
mod tune;

pub use advise::{Advices, Direction, KnobMove, Recommendation, advise};
pub use ascend::{ascend, ascend_unmodelled, expected_after, on_host, predicted};
pub use bug::settle;
pub use climb::{FORBIDDEN, climb};
pub use context::{ClimbContext, Policy};
pub use cost::costs;
pub use counted::PhantomJudge;
pub use decision::{
    Change, Decision, Expectation, PhaseNeed, Shortfall, Skipped, Step, cannot_edit,
};
pub use enough::frees_nothing;
pub use incident::{DOUBTED, check_answers, check_phases};
pub use moves::{CHOSEN, IN_SCRIPTS, MAY_SET, moves_knob};
pub use observed::Observed;
pub use own_engine::own_engine;
pub use packages::{JobEnvironment, NEEDS_PACKAGE};
pub use past::{OnMachine, Past, PastAttempt, Peak, PeakOf, Priors};
pub use posterior::Posterior;
#[cfg(test)]
pub(crate) use remedies::leads_to;
pub use soonest::{Prospect, Work, is_certain, soonest};
pub use states::too_large_states;
pub use tune::{Faster, Judgement, TuneCandidate, Tuned, Untaken, candidates, tune};
