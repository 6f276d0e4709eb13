//! From a configuration to what the memory model needs to know of it.

mod bridge;
mod named;

pub use bridge::{open_fields, spec_by, spec_from, spec_of};
pub use named::{Naming, follow, gpu_of_cluster, naming, of_another};
