//! What a rung frees of the GPU's memory, where no failure says which phase it has to help.

use serde::Serialize;

use super::ready::Request;
use crate::core::memory::{Phase, phases};
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
        let (_, before) = rungs.split_last()?;
        let (before, after) = (self.spec(before)?, self.spec(rungs)?);
        if before == after || before.gpu_bytes != after.gpu_bytes {
            return None;
        }
        let profile = self.profile()?;
        let [before, after] = [before, after].map(|spec| {
            let all = phases(&spec, profile).into_iter();
            let needs = all.map(|p| (p.phase, p.terms.iter().map(|t| t.bytes).sum::<f64>()));
            needs.collect::<Vec<_>>()
        });
        let peak = |all: &[(Phase, f64)]| all.iter().map(|(_, need)| *need).fold(0.0, f64::max);
        let less = before.iter().filter(|(phase, need)| {
            let then = after.iter().find(|(p, _)| p == phase);
            then.is_none_or(|(_, then)| then < need)
        });
        Some(Freed {
            fullest: peak(&after) < peak(&before),
            phases: less.map(|(phase, _)| *phase).collect(),
        })
    }
}
