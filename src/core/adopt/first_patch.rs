//! The patch of a script for some values, or else for the first rung.

use super::ScriptJob;
use crate::core::ladder::{Decision, Step};
use oomctl_base::Value;
use oomctl_scripts::{Adoption, Patch, PatchError};

/// A patch, or what stands in its way.
#[derive(Debug, Default)]
pub struct FirstPatch {
    /// The rungs that it is for.
    pub rungs: Vec<Step>,
    /// The patch.
    pub patch: Option<Patch>,
    /// Why there is none.
    pub problems: Vec<String>,
}

impl FirstPatch {
    /// For these values.
    #[must_use]
    pub fn of_values(adoption: &Adoption<'_>, wishes: &[(&str, Value)]) -> Self {
        Self::of(Vec::new(), adoption.change(wishes, &[]))
    }

    /// For the rung that a GPU out-of-memory would be answered with of which nothing is known.
    #[must_use]
    pub fn of_rung(own: &ScriptJob, adoption: &Adoption<'_>) -> Self {
        let problems = match own.next(&[]) {
            Ok(Decision::Climb { steps, .. }) => {
                let patch = own.patched(adoption, &steps);
                return Self::of(steps, patch);
            }
            Ok(Decision::Exhausted { skipped, .. }) => skipped
                .iter()
                .map(|s| format!("{}: {}", s.rung, s.reason))
                .collect(),
            Err(refusal) => refusal.0.iter().map(ToString::to_string).collect(),
        };
        Self {
            problems,
            ..Self::default()
        }
    }

    fn of(rungs: Vec<Step>, patch: Result<Patch, Vec<PatchError>>) -> Self {
        let line = |r: PatchError| match r.knob.is_empty() {
            true => r.why,
            false => format!("{}: {}", r.knob, r.why),
        };
        match patch {
            Ok(patch) => Self {
                rungs,
                patch: Some(patch),
                problems: Vec::new(),
            },
            Err(refused) => Self {
                rungs,
                patch: None,
                problems: refused.into_iter().map(line).collect(),
            },
        }
    }
}
