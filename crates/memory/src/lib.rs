//! How much memory a job needs, before it runs: closed forms for every phase, with an interval.
//!
//! Formulas with their sources are in [`TERMS`]; constants that belong to a training stack are data
//! ([`Profile`]). What is unknown stays unknown: nothing here makes up a dimension.

mod activations;
mod critic;
mod deepspeed;
mod dimensions;
mod engine;
mod estimate;
pub mod logistic;
mod loss;
mod phase;
mod phases;
mod profile;
mod replicas;
mod room;
mod row;
mod row_spec;
mod sizes;
mod spec;
mod states;
mod step;
mod terms;
#[cfg(test)]
mod tests;
mod words;

pub use dimensions::{
    Capacity, ContextSize, Dimensions, GPU_MEMORY, GPU_MEMORY_EXAMPLE, GpuTable, MODEL_KNOBS,
    ModelEntry, ModelTable, any_context, capacity, context, place_of, processor, read_dimensions,
};
pub use estimate::{Estimate, PhaseEstimate, estimate, spreads};
pub use loss::{Loss, Path};
pub use phase::Phase;
pub use phases::phases;
pub use profile::{LossPath, Profile, Profiles};
pub use replicas::{Replicas, replicas};
pub use room::{Room, SAFE};
pub use row::{MeasurementRow, Unknown};
pub use spec::{
    Attention, Checkpointing, Lora, Metric, Model, Optimizer, Precision, Quantised, Rollout,
    Sharding, Spec, Task,
};
pub use step::PhaseTerms;
pub use terms::{FRAGMENTS, KINDS, PIECES, TERMS, Term, TermKind};
