//! A short job that tried a configuration, and what came of it.

use serde::Serialize;

use super::inputs::ProbeOf;
use crate::core::ladder::probe::Tested;
use crate::core::measure::Measured;
use crate::core::recipe::Layer;
use oomctl_diagnose::Incident;

/// How a probe ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialEnd {
    /// It did its steps.
    Fitted,
    /// A GPU was too small for it.
    OutOfMemory(Box<Incident>),
    /// It failed for another reason, which says nothing of the configuration.
    Failed {
        /// Why, in one line.
        reason: String,
    },
    /// It is not over.
    Open,
}

/// A probe and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// Its run.
    pub run: String,
    /// What it is of.
    pub probe: ProbeOf,
    /// Layers of the steps that it took.
    pub layers: Vec<Layer>,
    /// How it ended.
    pub end: TrialEnd,
    /// What it was measured to need.
    pub measured: Measured,
}

impl Trial {
    /// What it says for the search; `None` where it says nothing.
    pub fn tested(&self) -> Option<Tested> {
        let fitted = match self.end {
            TrialEnd::Fitted => true,
            TrialEnd::OutOfMemory(_) => false,
            TrialEnd::Failed { .. } | TrialEnd::Open => return None,
        };
        let steps = usize::try_from(self.probe.steps).unwrap_or(usize::MAX);
        Some(Tested {
            taken: self.probe.taken.clone(),
            time: self.probe.time,
            fitted,
            step_s: self.measured.step_s(steps).filter(|_| fitted),
        })
    }
}
