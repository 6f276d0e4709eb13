//! Errors as JSON, where a command was asked for JSON.

use schemars::JsonSchema;
use serde::Serialize;

use super::failure::{CommandFailure, Message};
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

impl CommandFailure {
    /// What is printed of it where JSON is asked for; nothing where nothing is said.
    pub fn document(&self) -> Option<ErrorDocument> {
        let told = |message: &Message| ToldError {
            message: message.what.clone(),
            places: message.places.iter().map(|(at, _)| at.clone()).collect(),
            hint: message.hint.clone(),
        };
        (!self.messages.is_empty()).then(|| ErrorDocument {
            schema_version: 1,
            exit_code: self.exit(),
            errors: self.messages.iter().map(told).collect(),
        })
    }
}
