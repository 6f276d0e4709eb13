//! GPU memory by formulas of a preset's own.

use schemars::JsonSchema;
use serde::Deserialize;

/// GPU memory by formulas over knobs and derived values.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Formulas {
    /// Expression: capacity of the GPU in bytes; `none` where it is unknown.
    pub gpu_bytes: String,
    /// Phases in the order of time.
    pub phases: Vec<PhaseFormulas>,
    /// Things that allocations come in: what a failed request is divided by.
    #[serde(default)]
    pub units: Vec<UnitFormula>,
}

/// What is in memory at the fullest moment of a phase.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PhaseFormulas {
    /// Its name (`training`, `evaluation`).
    pub phase: String,
    /// What is in memory together.
    pub terms: Vec<TermFormula>,
}

/// One term of a phase.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TermFormula {
    /// Its name (`embedding`).
    pub term: String,
    /// Expression: bytes.
    pub bytes: String,
}

/// A thing that allocations come in.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UnitFormula {
    /// What it is, in the plural (`rows of fp32 logits`).
    pub unit: String,
    /// Expression: bytes of one.
    pub bytes: String,
}

impl Formulas {
    /// Every expression with the name of what it belongs to.
    pub(super) fn expressions(&self) -> impl Iterator<Item = (&str, &str)> {
        let terms = self.phases.iter().flat_map(|p| &p.terms);
        let terms = terms.map(|t| (t.term.as_str(), t.bytes.as_str()));
        let units = self
            .units
            .iter()
            .map(|u| (u.unit.as_str(), u.bytes.as_str()));
        std::iter::once(("gpu_bytes", self.gpu_bytes.as_str()))
            .chain(terms)
            .chain(units)
    }
}
