//! A configuration that was measured on phantom GPUs before it is submitted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::core::ladder::Step;
use crate::core::measure::{PhantomSummary, phantom_incident};
use crate::core::recipe::Layer;
use oomctl_diagnose::Incident;

/// What one measurement said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PhantomMeasurement {
    /// The type of the card, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_type: Option<String>,
    /// The card's memory.
    #[serde(default)]
    pub gpu_bytes: u64,
    /// What was measured.
    #[serde(flatten)]
    pub summary: PhantomSummary,
    /// Seconds that it took; none where it was measured before.
    #[serde(default)]
    pub seconds: u64,
}

/// A measurement before an attempt, and what follows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PhantomCheck {
    /// What was measured.
    #[serde(flatten)]
    pub measurement: PhantomMeasurement,
    /// Rungs that the attempt takes besides, because it does not fit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    /// Why nothing more is measured, although this does not fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
}

impl PhantomMeasurement {
    /// Nothing could be measured, and why.
    pub fn impossible(why: &str) -> Self {
        Self {
            gpu_type: None,
            gpu_bytes: 0,
            summary: PhantomSummary::unmeasured(why),
            seconds: 0,
        }
    }

    /// The failure that PyTorch reported there; none where there was none.
    pub fn incident(&self) -> Option<Incident> {
        let summary = &self.summary;
        if summary.fits != Some(false) {
            return None;
        }
        let text = summary.message.as_deref().unwrap_or("CUDA out of memory.");
        let mut incident = phantom_incident(text);
        if let Some(phase) = &summary.reason {
            incident.phase = phase.replace(' ', "_");
        }
        Some(incident)
    }
}

impl PhantomCheck {
    /// Is nothing measured after it before the attempt?
    pub fn is_last(&self) -> bool {
        self.steps.is_empty() || self.stopped.is_some()
    }

    /// The layers of its rungs.
    pub fn layers(&self) -> impl Iterator<Item = Layer> {
        self.steps.iter().map(|step| step.layer.clone())
    }
}
