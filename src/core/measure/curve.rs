//! Memory over time on a phantom, in a size that can be kept and drawn.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What was allocated and reserved over time: the most of each stretch. Times are those of a phantom, whose kernels do nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PhantomCurve {
    /// Milliseconds since the first allocation, at the start of each stretch.
    pub ms: Vec<u32>,
    /// MiB that tensors took.
    pub allocated_mib: Vec<u32>,
    /// MiB that the caching allocator held.
    pub reserved_mib: Vec<u32>,
    /// From which stretch on which phase it was.
    #[serde(default)]
    pub phases: Vec<PhaseStart>,
}

/// A phase begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseStart {
    /// With this stretch.
    pub from: u32,
    /// Its name.
    pub phase: String,
}
