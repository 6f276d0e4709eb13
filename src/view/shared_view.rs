//! What was shared with a site.

use std::fmt::Write as _;
use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

/// What was shared with a site.
#[derive(Default, Serialize, JsonSchema)]
pub struct SharedView {
    schema_version: u32,
    /// The file.
    pub file: String,
    /// Projects that it was taken from.
    pub projects: usize,
    /// Entries that the file has now, those of before included.
    pub entries: usize,
    /// Those of them that fitted.
    pub fitted: usize,
    /// Entries that cannot be shared: a rung moved a path or other free text.
    pub left_out: usize,
    /// Projects of somebody else, who did not share them.
    pub of_others: usize,
    /// Projects that could not be read.
    pub unread: usize,
}

impl SharedView {
    /// Nothing yet.
    pub fn new(file: &Path) -> Self {
        Self {
            schema_version: 1,
            file: file.display().to_string(),
            ..Self::default()
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        let Self {
            file,
            projects,
            entries,
            fitted,
            ..
        } = self;
        let mut out = format!(
            "{file}: {entries} entries, {fitted} of them fitted; {projects} projects read. It has models, versions, GPU types, knobs and peaks; paths and free text stand as hashes\n"
        );
        if self.left_out > 0 {
            let _ = writeln!(
                out,
                "{} entries left out: a rung moved a path",
                self.left_out
            );
        }
        if self.of_others > 0 {
            let _ = writeln!(
                out,
                "{} projects left out: they belong to somebody else, who can run this command on them",
                self.of_others
            );
        }
        out
    }
}
