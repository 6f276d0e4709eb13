//! The values of a configuration that somebody chose.

use std::collections::BTreeMap;

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
    pub fn of(recipe: &'a Recipe) -> Self {
        let values = recipe
            .values
            .iter()
            .filter(|(_, resolved)| !resolved.origin.is_of_preset());
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
    pub fn won(&self) -> Vec<WonValue> {
        let values = self.values.iter().map(|value| WonValue {
            knob: value.knob.to_owned(),
            value: value.value.to_string(),
            origin: value.origin.to_string(),
        });
        values.collect()
    }

    /// For people.
    pub fn text(&self) -> String {
        if self.values.is_empty() {
            return "every value is the preset's default\n".to_owned();
        }
        // A heading for each file, so that a line is short.
        let mut files: BTreeMap<&str, Table> = BTreeMap::new();
        for value in &self.values {
            let (file, place) = match value.origin {
                Origin::File { path, line, .. } => (path.as_str(), format!("line {line}")),
                // A place without lines, such as a program whose code was read.
                Origin::Flag { text } if !text.starts_with('-') => (text.as_str(), String::new()),
                other => ("", other.to_string()),
            };
            let pinned = if value.pinned { ", pinned" } else { "" };
            let table = files
                .entry(file)
                .or_insert_with(|| Table::new([(Side::Left, 0); 3]));
            table.row([
                TableCell::from(value.knob).painted(Some(NAME)),
                TableCell::from(value.value.to_string()),
                TableCell::from(format!("{place}{pinned}")).painted(Some(DIM)),
            ]);
        }
        let part = |(file, table): (&str, Table)| match file {
            "" => table.text(""),
            file => format!("{file}\n{}", table.text("  ")),
        };
        let text: String = files.into_iter().map(part).collect();
        format!(
            "{text}`oomctl explain KNOB` shows what a value overrides, its rules, and the rungs that change it\n"
        )
    }
}
