//! The values of a configuration that somebody chose.

use schemars::JsonSchema;
use serde::Serialize;

use super::style::{DIM, NAME};
use super::table::{Side, Table, TableCell};
use crate::core::recipe::{Recipe, Resolved};
use crate::view::report::WonValue;
use oomctl_base::{Origin, Value};

/// Every knob whose value is not the preset's own.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SettingsView<'a> {
    schema_version: u32,
    values: Vec<ChosenValue<'a>>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ChosenValue<'a> {
    knob: &'a str,
    value: &'a Value,
    origin: &'a Origin,
    pinned: bool,
}

impl<'a> SettingsView<'a> {
    /// Those of a configuration.
    #[must_use]
    pub fn of(recipe: &'a Recipe) -> Self {
        let chosen =
            |origin: &Origin| !matches!(origin, Origin::Default { .. } | Origin::Computed { .. });
        let values = recipe
            .values
            .iter()
            .filter(|(_, resolved)| chosen(&resolved.origin));
        let value = |(knob, resolved): (&'a String, &'a Resolved)| ChosenValue {
            knob,
            value: &resolved.value,
            origin: &resolved.origin,
            pinned: recipe.pins.contains_key(knob),
        };
        Self {
            schema_version: 1,
            values: values.map(value).collect(),
        }
    }

    /// The same as cells of a report's table.
    #[must_use]
    pub fn won(&self) -> Vec<WonValue> {
        let values = self.values.iter().map(|value| WonValue {
            knob: value.knob.to_owned(),
            value: value.value.to_string(),
            origin: value.origin.to_string(),
        });
        values.collect()
    }

    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        if self.values.is_empty() {
            return "every value is the preset's default\n".to_owned();
        }
        let mut table = Table::new([(Side::Left, 0), (Side::Left, 0), (Side::Left, 0)]);
        for value in &self.values {
            let pinned = if value.pinned { ", pinned" } else { "" };
            table.row([
                TableCell::from(value.knob).painted(Some(NAME)),
                TableCell::from(value.value.to_string()),
                TableCell::from(format!("{}{pinned}", value.origin)).painted(Some(DIM)),
            ]);
        }
        let text = table.text("");
        format!(
            "{text}`oomctl explain KNOB` says what a value beat, and which rules and rungs concern it\n"
        )
    }
}
