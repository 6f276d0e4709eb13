//! The list of files under `defaults:` of a configuration, and what the command line makes of it.
//!
//! Source: "The Defaults List" of Hydra 1.3's documentation, and `hydra/_internal/defaults_list.py` of hydra-core 1.3.

use super::packages::names_itself;
use crate::hydra;
use crate::yaml::Item;

/// The entry that stands for the file itself.
const SELF: &str = "_self_";

/// An entry of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DefaultsEntry {
    /// The file itself.
    Own,
    /// A file by its path (`base`, `/base`, `group/base`).
    File {
        path: String,
        package: Option<String>,
    },
    /// One of a group's files, or several, or none.
    Group {
        group: String,
        package: Option<String>,
        names: Vec<String>,
        optional: bool,
    },
    /// Another choice for a group that is listed elsewhere.
    Override {
        group: String,
        package: Option<String>,
        names: Vec<String>,
    },
    /// Something that is not read.
    Unclear(String),
}

impl DefaultsEntry {
    /// What an item of the list says; None for what is about the program's own output and launching.
    pub fn of(item: &Item) -> Option<Self> {
        let Some(key) = &item.key else {
            let Some(Some(path)) = item.values.first() else {
                return Some(Self::Unclear("an entry of a defaults list".to_owned()));
            };
            if path == SELF {
                return Some(Self::Own);
            }
            if path.contains("${") || path.contains(' ') {
                return Some(Self::Unclear(path.clone()));
            }
            let (name, package) = packaged(path);
            return Some(match package.as_deref().is_some_and(names_itself) {
                true => Self::Unclear(path.clone()),
                false => Self::File {
                    path: name,
                    package,
                },
            });
        };
        let mut words: Vec<&str> = key.split_whitespace().collect();
        let named = words.pop().unwrap_or_default();
        if named.trim_start_matches('/').starts_with("hydra/") {
            return None;
        }
        let names: Vec<String> = item.values.iter().flatten().cloned().collect();
        let unclear = |name: &String| name.contains("${") || name == "???";
        if !item.plain || names.iter().any(unclear) || named.contains("${") || names_itself(named) {
            return Some(Self::Unclear(named.to_owned()));
        }
        let (group, package) = packaged(named);
        Some(match words.as_slice() {
            [] | ["optional"] => Self::Group {
                group,
                package,
                names,
                optional: !words.is_empty(),
            },
            ["override"] => Self::Override {
                group,
                package,
                names,
            },
            _ => Self::Unclear(key.clone()),
        })
    }
}

/// A name and the package that it is put under (`db@source`).
fn packaged(text: &str) -> (String, Option<String>) {
    match text.split_once('@') {
        Some((name, package)) => (name.to_owned(), Some(package.to_owned())),
        None => (text.to_owned(), None),
    }
}

/// What a word of the command line says of groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GroupOverride {
    /// ``, `+`, `++` or `~`.
    pub sign: String,
    pub group: String,
    pub package: Option<String>,
    /// The names; None for a word whose value is not known.
    pub names: Option<Vec<String>>,
}

impl GroupOverride {
    /// Reads a word; `known` says whether its text is. None where it cannot be about a group.
    pub fn of(word: &str, known: bool) -> Option<Self> {
        let read = hydra::read(word)?;
        let rest = &word[read.sign.len()..];
        let key = rest.split('=').next().unwrap_or(rest);
        let (group, package) = packaged(key);
        if group.contains('.') || group.starts_with("hydra/") {
            return None;
        }
        let value = read.value.clone().map(|at| &word[at]);
        let names = match (read.form, value) {
            _ if !known => None,
            (_, None) => Some(Vec::new()),
            (hydra::Form::Bare | hydra::Form::Quoted, Some(value)) => {
                let name = hydra::meaning(value);
                Some(match name.as_str() {
                    "null" => Vec::new(),
                    _ => vec![name],
                })
            }
            (hydra::Form::Compound, Some(value)) => {
                let inner = value
                    .trim()
                    .strip_prefix('[')
                    .and_then(|v| v.strip_suffix(']'));
                inner.map(|list| list.split(',').map(|n| hydra::meaning(n.trim())).collect())
            }
            _ => None,
        };
        Some(Self {
            sign: read.sign.to_owned(),
            group,
            package,
            names,
        })
    }
}
