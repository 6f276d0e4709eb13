//! A YAML file of which single values are changed in place: comments, quotes, order and line ends stay.
//!
//! What cannot be changed without changing more than the one value (aliases and what they stand for, keys given
//! twice, blocks of text, several documents) is refused with its line.

mod python;
mod scalar;
mod settings;
mod spot;
#[cfg(test)]
mod tests;
mod tree;

use serde_yaml::granit_parser::ScalarStyle;

pub use python::Misreading;
pub(super) use settings::{Item, list, room, settings};
use spot::{locate, position};
use tree::{Fault, YamlContent, YamlNode};

use oomctl_base::{Origin, Problem, Value};

/// Largest file that is edited, in bytes.
const MAX_FILE: usize = 1 << 20;

/// A YAML file.
#[derive(Debug, Clone)]
pub struct Yaml {
    file: String,
    text: String,
    root: Option<YamlNode>,
}

/// A single value in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct YamlValue {
    /// Its text, quotes and escapes resolved; `None` where nothing is written or it is an unquoted `null` or `~`.
    pub text: Option<String>,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
}

impl Yaml {
    /// Reads a text that is called `file` in messages.
    ///
    /// # Errors
    /// What is no YAML, too large or too deep, or has several documents: with its line.
    pub fn parse(file: &str, text: &str) -> Result<Self, Problem> {
        if text.len() > MAX_FILE {
            let what = format!("{file} has {} bytes; the limit is {MAX_FILE}", text.len());
            return Err(Problem::new(what));
        }
        let root = tree::parse(text).map_err(|f| problem(file, text, f))?;
        Ok(Self {
            file: file.to_owned(),
            text: text.to_owned(),
            root,
        })
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The value under a path of keys (and of numbers, from 0, in lists); `None` where the file does not have it. Aliases and
    /// merged mappings (`<<`) are followed.
    ///
    /// # Errors
    /// A key on the path that is given twice, and a path that ends at a list or a mapping.
    pub fn get(&self, path: &[String]) -> Result<Option<YamlValue>, Problem> {
        let found = self.find(path).map_err(|f| self.problem(f))?;
        let Some(node) = found else { return Ok(None) };
        let YamlContent::Scalar { text, style } = &node.content else {
            let what = format!("{} is no single value", path.join("."));
            return Err(self.problem(node.fault(what)));
        };
        let unset = *style == ScalarStyle::Plain
            && matches!(text.as_str(), "~" | "null" | "Null" | "NULL" | "");
        Ok(Some(YamlValue {
            text: (!unset).then(|| text.clone()),
            line: node.line,
            column: node.column,
        }))
    }

    /// The same file with another value under a path. A key that its mapping lacks is added at the mapping's end; the
    /// mapping itself must be there.
    ///
    /// # Errors
    /// With its line: what cannot be changed without changing something else.
    pub fn set(&self, path: &[String], value: &Value) -> Result<Self, Problem> {
        self.edited(path, value).map_err(|f| self.problem(f))
    }

    fn problem(&self, fault: Fault) -> Problem {
        problem(&self.file, &self.text, fault)
    }

    fn edited(&self, path: &[String], value: &Value) -> Result<Self, Fault> {
        let nothing = || Fault {
            what: format!(
                "the file is empty, so there is no place for {}",
                path.join(".")
            ),
            line: 1,
            column: 1,
        };
        let root = self.root.as_ref().ok_or_else(nothing)?;
        let spot = locate(root, path)?;
        let shown = path.join(".");
        let last = spot.node.fault(format!(
            "{shown} cannot be changed here without changing more than it; change it by hand"
        ));
        for attempt in spot.attempts(&self.text, &shown, value)? {
            let mut text = self.text.clone();
            text.replace_range(attempt.range, &attempt.with);
            let mut meant = root.clone();
            attempt.change.apply(&mut meant, &spot.steps);
            // What was written must read as what was meant.
            if let Ok(Some(new)) = tree::parse(&text)
                && new.alike(&meant)
            {
                return Ok(Self {
                    file: self.file.clone(),
                    text,
                    root: Some(new),
                });
            }
        }
        Err(last)
    }

    fn find(&self, path: &[String]) -> Result<Option<&YamlNode>, Fault> {
        let Some(root) = &self.root else {
            return Ok(None);
        };
        let mut node = root;
        for key in path {
            node = resolved(root, node);
            let next = match &node.content {
                YamlContent::Map { .. } => {
                    member(root, node, key, MERGES, &mut MOST_SOURCES.to_owned())?
                }
                YamlContent::List { items, .. } => {
                    key.parse().ok().and_then(|i: usize| items.get(i))
                }
                _ => None,
            };
            let Some(next) = next else { return Ok(None) };
            node = next;
        }
        Ok(Some(resolved(root, node)))
    }
}

/// A value as a scalar of YAML that Python reads as it is meant; `None` for lists and maps.
pub fn written(value: &Value) -> Option<String> {
    scalar::WrittenScalar::of(value, ScalarStyle::Plain).map(|s| s.written)
}

/// A value in place of one that is written like `old`, quotes included; `None` for lists and maps.
pub(super) fn written_like(value: &Value, old: &str) -> Option<String> {
    let style = match old.as_bytes().first() {
        Some(b'"') => ScalarStyle::DoubleQuoted,
        Some(b'\'') => ScalarStyle::SingleQuoted,
        _ => ScalarStyle::Plain,
    };
    scalar::WrittenScalar::of(value, style).map(|s| s.written)
}

/// Mappings merged into one another that are followed.
const MERGES: usize = 8;
/// Mappings that are looked at for one value, through all merges.
const MOST_SOURCES: usize = 1_000;

/// What an alias stands for.
fn resolved<'a>(root: &'a YamlNode, node: &'a YamlNode) -> &'a YamlNode {
    match node.content {
        YamlContent::Alias(anchor) => root.anchored(anchor).unwrap_or(node),
        _ => node,
    }
}

/// The value of a key, or else that of the mappings that are merged.
fn member<'a>(
    root: &'a YamlNode,
    map: &'a YamlNode,
    key: &str,
    depth: usize,
    left: &mut usize,
) -> Result<Option<&'a YamlNode>, Fault> {
    let YamlContent::Map { entries, .. } = &map.content else {
        return Ok(None);
    };
    if let Some(at) = position(entries, key)? {
        return Ok(entries.get(at).map(|(_, value)| value));
    }
    let merged = entries.iter().filter(|(k, _)| k.text() == Some("<<"));
    for (_, from) in merged.take(if depth == 0 { 0 } else { entries.len() }) {
        let from = resolved(root, from);
        let sources = match &from.content {
            YamlContent::List { items, .. } => items.iter().map(|i| resolved(root, i)).collect(),
            _ => vec![from],
        };
        for source in sources {
            *left = left
                .checked_sub(1)
                .ok_or_else(|| map.fault("merges too many mappings to be followed"))?;
            if let Some(value) = member(root, source, key, depth - 1, left)? {
                return Ok(Some(value));
            }
        }
    }
    Ok(None)
}

/// A fault with its line.
fn problem(file: &str, text: &str, fault: Fault) -> Problem {
    let at = usize::try_from(fault.line).unwrap_or(0).saturating_sub(1);
    let line = text.lines().nth(at).unwrap_or("").trim();
    let origin = Origin::file(file, fault.line, fault.column);
    Problem::new(fault.what).at(line.chars().take(120).collect::<String>(), origin)
}
