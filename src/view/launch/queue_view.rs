//! What came of the programs of a queue.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;

use super::launch_summary::Summary;
use super::launch_view::lines;
use super::style::{BAD, GOOD, Paint};
use crate::core::exit::Exit;

/// What came of a queue.
#[derive(Serialize, JsonSchema)]
pub struct QueueView {
    schema_version: u32,
    /// The largest of its programs'.
    pub exit_code: Exit,
    programs: Vec<QueuedProgram>,
}

/// What came of one program of it.
#[derive(Serialize, JsonSchema)]
pub struct QueuedProgram {
    /// Its place in the list, from 1.
    pub number: usize,
    /// The program and its arguments, as in the list.
    pub command: Vec<String>,
    /// Its output, where it was begun.
    pub log: Option<PathBuf>,
    /// Its exit code.
    pub exit_code: Exit,
    /// Why it was not run.
    pub error: Option<String>,
    /// How it went.
    pub summary: Option<Summary>,
}

impl QueueView {
    /// The view of these programs.
    pub fn new(programs: Vec<QueuedProgram>) -> Self {
        Self {
            schema_version: 1,
            exit_code: programs
                .iter()
                .map(|p| p.exit_code)
                .max_by_key(|exit| exit.code())
                .unwrap_or(Exit::Success),
            programs,
        }
    }

    /// Says how many succeeded, and which did not.
    pub fn tell(&self) {
        let failed: Vec<&QueuedProgram> = self
            .programs
            .iter()
            .filter(|p| p.exit_code != Exit::Success)
            .collect();
        let style = if failed.is_empty() { GOOD } else { BAD };
        let (all, good) = (self.programs.len(), self.programs.len() - failed.len());
        let mut text = Paint(style, &format!("{good} of {all} succeeded")).to_string();
        for program in failed {
            let why = program.error.as_ref().map(|e| format!(" ({e})"));
            let log = program
                .log
                .as_ref()
                .map(|log| format!(", {}", log.display()));
            text.push_str(&format!(
                "\n{}: exit code {}{}{}",
                program.number,
                program.exit_code,
                why.unwrap_or_default(),
                log.unwrap_or_default()
            ));
        }
        super::print::talk(&lines("oomctl", &text));
    }
}
