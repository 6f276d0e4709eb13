//! What a rung frees of the GPU's memory, where no failure says which phase it has to help.

use serde::Serialize;

use super::ready::Request;
use crate::core::memory::{Estimate, Phase};
use crate::core::recipe::Layer;

/// What a rung frees of the GPU's memory, by the memory model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Freed {
    /// Whether the fullest phase needs less.
    pub fullest: bool,
    /// The phases that need less.
    pub phases: Vec<Phase>,
}

impl Request {
    /// What the last of some rungs frees; `None` where the model does not see what it changes, or the GPU is another.
    #[must_use]
    pub fn freed(&self, rungs: &[Layer]) -> Option<Freed> {
        let (_, below) = rungs.split_last()?;
        let (before, after) = (self.spec(below)?, self.spec(rungs)?);
        if before == after || before.gpu_bytes != after.gpu_bytes {
            return None;
        }
        let estimate = |rungs| self.estimate(rungs)?.ok();
        let (before, after): (Estimate, Estimate) = (estimate(below)?, estimate(rungs)?);
        let less = before.phases.iter().filter(|p| {
            let mut then = after.phases.iter().filter(|a| a.phase == p.phase);
            then.all(|then| then.bytes < p.bytes)
        });
        Some(Freed {
            fullest: after.peak_bytes < before.peak_bytes,
            phases: less.map(|p| p.phase).collect(),
        })
    }
}
