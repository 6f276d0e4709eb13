//! Runs of several people, for who may look and not act.

use schemars::JsonSchema;
use serde::Serialize;

use super::history_summary::UnreadPath;
use super::row::summary;
use super::row::{RunField, RunRow, list};

/// Runs of the projects below a folder, and what may not be read there.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EverybodyView {
    schema_version: u32,
    runs: Vec<RunRow>,
    unread: Vec<UnreadPath>,
}

impl EverybodyView {
    /// The view of some rows.
    pub fn new(runs: Vec<RunRow>, unread: Vec<UnreadPath>) -> Self {
        Self {
            schema_version: 1,
            runs,
            unread,
        }
    }

    /// A line a run.
    pub fn list(&self, fields: &[RunField], header: bool) -> String {
        list(&self.runs, fields, header)
    }

    /// The same, how many stand how, and what was not read.
    pub fn text(&self, header: bool) -> String {
        let mut out = match self.runs.is_empty() {
            true => "no runs that you may read in this folder and below it\n".to_owned(),
            false => {
                let states = self.runs.iter().map(|row| row.state.as_str());
                self.list(&RunField::OF_ALL, header) + &summary(states)
            }
        };
        if !self.unread.is_empty() {
            out.push_str("\nnot read\n");
        }
        for UnreadPath { path, why } in &self.unread {
            out.push_str(&match why.contains(path) {
                true => format!("  {why}\n"),
                false => format!("  {path}: {why}\n"),
            });
        }
        out
    }
}
