//! A measurement on a phantom GPU that was kept, of a configuration as it is.

use schemars::JsonSchema;
use serde::Serialize;

use crate::core::ladder::{PastAttempt, PhantomJudge};
use crate::core::measure::PhantomSummary;
use oomctl_diagnose::Incident;

/// A measurement that was kept.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct KeptMeasurement {
    /// The day on which it was made.
    pub measured_on: String,
    /// The card's memory.
    pub gpu_bytes: u64,
    /// What was measured.
    #[serde(flatten)]
    pub summary: PhantomSummary,
    /// The failure that PyTorch reported there.
    #[serde(skip)]
    pub incident: Option<Incident>,
}

/// A measurement, and what follows from it.
#[derive(Debug)]
pub(super) struct MeasuredBefore {
    pub kept: KeptMeasurement,
    /// As a run has it among its attempts.
    pub past: PastAttempt,
    /// The judge after it; none where the memory model cannot be asked.
    pub judge: Option<PhantomJudge>,
}
