//! What `oomctl sweep fix` shows: each change with its reason.

use schemars::JsonSchema;
use serde::Serialize;

use crate::core::sweep::{Repair, SweepChange};
use oomctl_base::Value;

/// Format of the JSON document.
const SCHEMA_VERSION: u32 = 1;

/// What `sweep fix` changed.
#[derive(Serialize, JsonSchema)]
pub struct FixView {
    schema_version: u32,
    sweep: String,
    changes: Vec<ChangeView>,
    cells: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct ChangeView {
    change: &'static str,
    parameter: String,
    from: Option<Value>,
    to: Option<Value>,
    why: String,
}

impl FixView {
    /// The view of a repair.
    pub fn new(path: &str, repair: &Repair, text: Option<&str>) -> Self {
        let view = |change: &SweepChange| match change.clone() {
            SweepChange::Drop { name, value, why } => ChangeView {
                change: "drop",
                parameter: name,
                from: Some(value),
                to: None,
                why,
            },
            SweepChange::Cap {
                name,
                from,
                to,
                why,
            } => ChangeView {
                change: "cap",
                parameter: name,
                from: Some(from),
                to: Some(to),
                why,
            },
            SweepChange::Add { name, value, why } => ChangeView {
                change: "add",
                parameter: name,
                from: None,
                to: Some(value),
                why,
            },
        };
        Self {
            schema_version: SCHEMA_VERSION,
            sweep: path.to_owned(),
            changes: repair.changes.iter().map(view).collect(),
            cells: repair.sweep.cells(),
            text: text.map(str::to_owned),
        }
    }

    /// The changes, one a line.
    pub fn text(&self) -> String {
        let line = |c: &ChangeView| match (&c.from, &c.to) {
            (Some(from), Some(to)) => format!("{}: {from} → {to} ({})", c.parameter, c.why),
            (Some(from), None) => format!("{}: {from} dropped ({})", c.parameter, c.why),
            (None, Some(to)) => format!("{}: {to} added ({})", c.parameter, c.why),
            (None, None) => c.parameter.clone(),
        };
        if self.changes.is_empty() {
            return format!("{}: every cell runs as it is", self.sweep);
        }
        let mut lines: Vec<String> = self.changes.iter().map(line).collect();
        lines.push(format!("{} cells remain, all of which run", self.cells));
        lines.join("\n")
    }
}
