//! Errors as JSON, where a command was asked for JSON.

use schemars::JsonSchema;
use serde::Serialize;

use crate::core::exit::Exit;

/// What a command prints that ends in an error.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ErrorDocument {
    /// Counts changes that break readers.
    pub schema_version: u32,
    /// How the command ends.
    pub exit_code: Exit,
    /// What went wrong.
    pub errors: Vec<ToldError>,
}

/// One of its errors.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ToldError {
    /// What went wrong, as a sentence.
    pub message: String,
    /// Files with their lines, flags, or other places that it is about.
    pub places: Vec<String>,
    /// What to do next.
    pub hint: Option<String>,
}
