//! How much memory a job needs, before it runs: closed forms for every phase, with an interval.
//!
//! Formulas with their sources are in [`TERMS`]; constants that belong to a training stack are data
//! ([`Profile`]). What is unknown stays unknown: nothing here makes up a dimension.

mod activations;
mod dimensions;
mod engine;
mod estimate;
mod factors;
pub mod logistic;
mod loss;
mod phases;
mod profile;
mod replicas;
mod room;
mod row;
mod sizes;
mod spec;
mod states;
mod terms;
#[cfg(test)]
mod tests;
mod words;

pub use dimensions::{
    Capacity, Dimensions, GPU_MEMORY, GpuTable, MODEL_KNOBS, ModelEntry, ModelTable, capacity,
    place_of, read_dimensions,
};
pub use estimate::{Estimate, PhaseEstimate, estimate, spreads};
pub use loss::{Loss, LossPath, Path};
pub use phases::{Phase, PhaseTerms, phases};
pub use profile::{Profile, Profiles};
pub use replicas::{Replicas, replicas};
pub use room::{Room, SAFE};
pub use row::{Row, Unknown};
pub use spec::{
    Attention, Checkpointing, Lora, Metric, Model, Optimizer, Precision, Quantised, Rollout,
    Sharding, Spec, Task,
};
pub use states::PIECES;
pub use terms::{About, KINDS, Kind, TERMS, Term};
