//! The files of a job, as JSON.

use schemars::JsonSchema;
use serde::Serialize;

use crate::core::render::RenderedFile;

/// The files that would be submitted.
#[derive(Serialize, JsonSchema)]
pub struct FilesView<'a> {
    schema_version: u32,
    files: Vec<JobFile<'a>>,
}

#[derive(Serialize, JsonSchema)]
struct JobFile<'a> {
    name: &'a str,
    /// The file that is given to sbatch.
    entry: bool,
    text: &'a str,
}

impl<'a> FilesView<'a> {
    /// The view of these files.
    pub fn new(files: &'a [RenderedFile]) -> Self {
        let files = files.iter().map(|file| JobFile {
            name: &file.name,
            entry: file.entry,
            text: &file.text,
        });
        Self {
            schema_version: 1,
            files: files.collect(),
        }
    }
}
