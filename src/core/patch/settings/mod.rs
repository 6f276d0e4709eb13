//! Files of settings: where the value of a key stands.
//!
//! Rule: a file is never written anew; the bytes of one value are found, and those are what is changed.

mod json;
#[cfg(test)]
mod tests;
mod toml;

use std::ops::Range;

/// Keys on the way to a value.
const MAX_KEYS: usize = 32;

/// How a file of settings is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JSON; comments and commas at the end are tolerated.
    Json,
    /// TOML.
    Toml,
    /// YAML.
    Yaml,
}

/// A value in a file of settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its bytes, quotes included.
    pub bytes: Range<usize>,
    /// What it means, where it is a single value.
    pub text: Option<String>,
}

impl Format {
    /// The format that the name of a file says.
    #[must_use]
    pub fn of(path: &str) -> Option<Self> {
        let end = path.rsplit_once('.')?.1;
        match end.to_ascii_lowercase().as_str() {
            "json" | "jsonc" => Some(Self::Json),
            "toml" => Some(Self::Toml),
            "yaml" | "yml" => Some(Self::Yaml),
            _ => None,
        }
    }

    /// Whether files of this format are read.
    #[must_use]
    pub fn is_read(self) -> bool {
        self != Self::Yaml
    }

    /// The value of a key, the last one where it is given twice. None where there is none, or the file is none of
    /// this format.
    #[must_use]
    pub fn find(self, text: &str, key: &str) -> Option<Entry> {
        let keys: Vec<&str> = key.split('.').take(MAX_KEYS).collect();
        match self {
            Self::Json => json::find(text, &keys),
            Self::Toml => toml::find(text, &keys),
            Self::Yaml => None,
        }
    }
}
