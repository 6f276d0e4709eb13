//! What the configuration with some rungs needs of memory, has of it, and frees of it.

use schemars::JsonSchema;
use serde::Serialize;

use super::request::Request;
use crate::core::memory::spec_of;
use crate::core::recipe::Layer;
use oomctl_base::units::{Bytes, GIB};
use oomctl_base::{Role, Value};
use oomctl_diagnose::Pool;
use oomctl_memory::{Estimate, Phase, Spec, Unknown, estimate};

/// What a rung frees of the GPU's memory, by the memory model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Freed {
    /// Whether the fullest phase needs less.
    pub fullest: bool,
    /// The phases that need less.
    pub phases: Vec<Phase>,
}

impl Request {
    /// Memory of the configuration with these rungs, by phase; `None` where the preset has no bridge to the
    /// memory model, or a rule is broken. What was measured on a phantom before counts.
    pub fn estimate(&self, rungs: &[Layer]) -> Option<Result<Estimate, Unknown>> {
        let profile = self.profile()?;
        let shape = self.shape(rungs).ok()?;
        let spec = spec_of(self.preset(), &shape, profile)?;
        let judge = self.known_before().and_then(|b| b.judge.as_ref());
        Some(spec.map(|spec| {
            let by_formulas = estimate(&spec, profile);
            match judge {
                Some(judge) => judge.on(by_formulas, &spec, profile),
                None => by_formulas,
            }
        }))
    }

    /// Why the memory model has no answer for the configuration, as a sentence.
    pub fn uncovered(&self) -> Option<String> {
        let preset = self.preset();
        let has_fields = preset.memory.as_ref().is_some_and(|m| !m.fields.is_empty());
        if !has_fields && preset.formulas.is_none() && self.inputs().is_recognised() {
            return Some(self.lacks_model());
        }
        let Err(Unknown { field, why }) = self.estimate(&[])? else {
            return None;
        };
        Some(format!("the memory model needs {field}, and it {why}"))
    }

    /// That there is no memory model for the framework.
    pub fn lacks_model(&self) -> String {
        format!("oomctl has no memory model for {}", self.preset().name)
    }

    /// What the memory model knows of the configuration with these rungs.
    pub(super) fn spec(&self, rungs: &[Layer]) -> Option<Spec> {
        let shape = self.shape(rungs).ok()?;
        spec_of(self.preset(), &shape, self.profile()?)?.ok()
    }

    /// What the configuration with these rungs has of a memory; `None` where that is not known.
    pub fn memory_limit(&self, rungs: &[Layer], pool: Pool) -> Option<Bytes> {
        match pool {
            Pool::Host => {
                let shape = self.shape(rungs).ok()?;
                let knob = self.preset().with_role(Role::HostMemory).next()?;
                let asked = match shape.recipe().value(&knob.name) {
                    Value::Text(text) => Bytes::parse(text).ok().filter(|b| b.0 > 0),
                    _ => None,
                };
                let node =
                    || Bytes::parse(self.inputs().cluster_facts.node_memory.as_deref()?).ok();
                asked.or_else(node)
            }
            Pool::Gpu => {
                let bytes = self.spec(rungs)?.gpu_bytes?;
                Some(Bytes::from_gib(bytes / GIB))
            }
        }
    }

    /// What the last of some rungs frees; `None` where the model does not see what it changes, or the GPU is another.
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
