//! Files of settings: where the value of a key stands.
//!
//! Rule: a file is never written anew; the bytes of one value are found, and those are what is changed.

mod json;
#[cfg(test)]
mod tests;
mod toml;

use std::collections::BTreeMap;
use std::ops::Range;

use super::yaml;

/// Keys on the way to a value.
const MAX_KEYS: usize = 32;
/// Largest file that is read, in bytes.
const MAX_FILE: usize = 1 << 20;

/// How a file of settings is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingsFormat {
    /// JSON; comments and commas at the end are tolerated.
    Json,
    /// TOML.
    Toml,
    /// YAML.
    Yaml,
}

/// A value in a file of settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsEntry {
    /// Its bytes, quotes included.
    pub bytes: Range<usize>,
    /// What it means, where it is a single value.
    pub text: Option<String>,
    /// The bytes say something else, too, or how they are to be read stands elsewhere: an anchor of YAML that is
    /// used again, what a merge brings in, a block of text.
    pub shared: bool,
}

/// A value with what stands in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SettingsNode {
    pub entry: SettingsEntry,
    pub members: BTreeMap<String, SettingsNode>,
}

/// What a file of settings says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    format: SettingsFormat,
    root: SettingsNode,
}

impl SettingsFormat {
    /// The format that the name of a file says.
    pub fn of(path: &str) -> Option<Self> {
        let end = path.rsplit_once('.')?.1;
        match end.to_ascii_lowercase().as_str() {
            "json" | "jsonc" => Some(Self::Json),
            "toml" => Some(Self::Toml),
            "yaml" | "yml" => Some(Self::Yaml),
            _ => None,
        }
    }

    /// The name of a file without its folder and the ending that says the format.
    pub(crate) fn stem(path: &str) -> &str {
        let name = path.rsplit('/').next().unwrap_or(path);
        name.rsplit_once('.').map_or(name, |(stem, _)| stem)
    }

    /// What a text of this format says. None where it is none of it, or larger or deeper than what is read.
    pub fn read(self, text: &str) -> Option<Settings> {
        if text.len() > MAX_FILE {
            return None;
        }
        let root = match self {
            Self::Json => json::read(text),
            Self::Toml => toml::read(text),
            Self::Yaml => yaml::settings(text),
        };
        root.map(|root| Settings { format: self, root })
    }
}

impl Settings {
    /// How the file is written.
    pub fn format(&self) -> SettingsFormat {
        self.format
    }

    /// The value of a key, the last one where it is given twice.
    pub fn find(&self, key: &str) -> Option<&SettingsEntry> {
        let mut node = &self.root;
        for key in key.split('.').take(MAX_KEYS) {
            node = node.members.get(key)?;
        }
        Some(&node.entry)
    }

    /// The values that no others stand in, by key.
    pub fn leaves(&self) -> Vec<(String, &SettingsEntry)> {
        let mut all = Vec::new();
        let mut open = vec![(String::new(), &self.root)];
        while let Some((key, node)) = open.pop() {
            if node.members.is_empty() {
                all.push((key, &node.entry));
                continue;
            }
            for (name, inner) in &node.members {
                let key = match key.as_str() {
                    "" => name.clone(),
                    outer => format!("{outer}.{name}"),
                };
                open.push((key, inner));
            }
        }
        all
    }

    /// Where a key that `text` does not have is put, and with which bytes before and behind its `value`, which is
    /// written as the format wants it. None where no mapping around it is there, or is not written in a way to which a
    /// line could be added.
    pub fn room(&self, text: &str, key: &str, value: &str) -> Option<(usize, String)> {
        match self.format {
            SettingsFormat::Json => {
                let keys: Vec<&str> = key.split('.').take(MAX_KEYS).collect();
                let (last, parents) = keys.split_last()?;
                let (mut node, mut there) = (&self.root, 0);
                while let Some(inner) = parents.get(there).and_then(|k| node.members.get(*k)) {
                    (node, there) = (inner, there + 1);
                }
                // Objects between it and the deepest that is there come with it, but for one of a name that nothing has.
                if there == 0 && !parents.is_empty() {
                    return None;
                }
                let Some((first, inner)) = parents[there..].split_first() else {
                    return json::room(text, node, last, value);
                };
                let inner = inner.iter().chain([last]).rev();
                let nested = inner.fold(value.to_owned(), |value, key| json::object(key, &value));
                json::room(text, node, first, &nested)
            }
            SettingsFormat::Yaml => yaml::room(text, key, value),
            SettingsFormat::Toml => None,
        }
    }
}
