//! A recipe: every knob with its value, where it came from and what it beat.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::layer::{Override, Setting};
use oomctl_base::{Origin, Value};

/// A knob's value, its origin, and the values that it beat, nearest first.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Resolved {
    /// The value that wins.
    pub value: Value,
    /// Where it was given.
    pub origin: Origin,
    /// What it beat.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub beat: Vec<Setting>,
}

impl Resolved {
    /// What it beat, without values that never ran: of several rungs of one attempt the last gave its value.
    pub fn beaten(&self) -> impl Iterator<Item = &Setting> {
        let attempt = |origin: &Origin| match origin {
            Origin::Rung { attempt, .. } => Some(*attempt),
            _ => None,
        };
        let mut above = attempt(&self.origin);
        self.beat.iter().filter(move |setting| {
            let of = attempt(&setting.origin);
            let same = of.is_some() && of == above;
            above = of;
            !same
        })
    }
}

/// Every knob with its value: each within its own bounds, rules between knobs not looked at yet.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Recipe {
    /// Values by knob name.
    pub values: BTreeMap<String, Resolved>,
    /// Knobs that nobody may move.
    pub pins: BTreeMap<String, Origin>,
    /// Free-form overrides; of several with one key the last.
    pub overrides: Vec<Override>,
    /// Knobs that have a value which nobody knows; here it is null.
    #[serde(skip)]
    pub unknown: BTreeSet<String>,
}

impl Resolved {
    /// No value, or none that anybody knows.
    pub(super) fn null(origin: Origin) -> Self {
        Self {
            value: Value::Null,
            origin,
            beat: Vec::new(),
        }
    }
}

impl Recipe {
    /// The value of a knob; null for one that does not exist.
    pub fn value(&self, name: &str) -> &Value {
        static NULL: Value = Value::Null;
        self.values.get(name).map_or(&NULL, |r| &r.value)
    }
}

/// The computed knobs of a recipe by line.
pub(super) fn computed(recipe: &Recipe) -> String {
    let values = recipe.values.iter();
    let computed = values.filter(|(_, r)| matches!(r.origin, Origin::Computed { .. }));
    let computed: Vec<&str> = computed.map(|(name, _)| name.as_str()).collect();
    computed.join("\n")
}
