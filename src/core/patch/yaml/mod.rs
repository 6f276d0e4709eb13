//! A YAML file of which single values are changed in place: comments, quotes, order and line ends stay.
//!
//! What cannot be changed without changing more than the one value (aliases and what they stand for, keys given
//! twice, blocks of text, several documents) is refused with its line.

mod scalar;
#[cfg(test)]
mod tests;
mod tree;

use std::ops::Range;

use serde_yaml::granit_parser::ScalarStyle;

use scalar::Scalar;
use tree::{Content, Fault, Node};

use crate::core::recipe::{Origin, Problem, Value};

/// Largest file that is edited, in bytes.
const MAX_FILE: usize = 1 << 20;

/// A YAML file.
#[derive(Debug, Clone)]
pub struct Yaml {
    file: String,
    text: String,
    root: Option<Node>,
}

/// A single value in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
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
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The value under a path of keys (and of numbers, from 0, in lists); `None` where the file does not have it. Aliases and
    /// merged mappings (`<<`) are followed.
    ///
    /// # Errors
    /// A key on the path that is given twice, and a path that ends at a list or a mapping.
    pub fn get(&self, path: &[String]) -> Result<Option<Given>, Problem> {
        let found = self.find(path).map_err(|f| self.problem(f))?;
        let Some(node) = found else { return Ok(None) };
        let Content::Scalar { text, style } = &node.content else {
            let what = format!("{} is no single value", path.join("."));
            return Err(self.problem(node.fault(what)));
        };
        let unset = *style == ScalarStyle::Plain
            && matches!(text.as_str(), "~" | "null" | "Null" | "NULL" | "");
        Ok(Some(Given {
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

    fn find(&self, path: &[String]) -> Result<Option<&Node>, Fault> {
        let Some(root) = &self.root else {
            return Ok(None);
        };
        let mut node = root;
        for key in path {
            node = resolved(root, node);
            let next = match &node.content {
                Content::Map { .. } => member(root, node, key, MERGES)?,
                Content::List { items, .. } => key.parse().ok().and_then(|i: usize| items.get(i)),
                _ => None,
            };
            let Some(next) = next else { return Ok(None) };
            node = next;
        }
        Ok(Some(resolved(root, node)))
    }
}

/// Mappings merged into one another that are followed.
const MERGES: usize = 8;

/// What an alias stands for.
fn resolved<'a>(root: &'a Node, node: &'a Node) -> &'a Node {
    match node.content {
        Content::Alias(anchor) => root.anchored(anchor).unwrap_or(node),
        _ => node,
    }
}

/// The position of a key in a mapping.
fn position(entries: &[(Node, Node)], key: &str) -> Result<Option<usize>, Fault> {
    let mut found = entries
        .iter()
        .enumerate()
        .filter(|(_, (k, _))| k.text() == Some(key));
    let first = found.next();
    match (first, found.next()) {
        (Some((_, (one, _))), Some((_, (two, _)))) => Err(two.fault(format!(
            "`{key}` is given twice, here and in line {}",
            one.line
        ))),
        (first, _) => Ok(first.map(|(at, _)| at)),
    }
}

/// The value of a key, or else that of the mappings that are merged.
fn member<'a>(
    root: &'a Node,
    map: &'a Node,
    key: &str,
    depth: usize,
) -> Result<Option<&'a Node>, Fault> {
    let Content::Map { entries, .. } = &map.content else {
        return Ok(None);
    };
    if let Some(at) = position(entries, key)? {
        return Ok(entries.get(at).map(|(_, value)| value));
    }
    let merged = entries.iter().filter(|(k, _)| k.text() == Some("<<"));
    for (_, from) in merged.take(if depth == 0 { 0 } else { entries.len() }) {
        let from = resolved(root, from);
        let sources = match &from.content {
            Content::List { items, .. } => items.iter().map(|i| resolved(root, i)).collect(),
            _ => vec![from],
        };
        for source in sources {
            if let Some(value) = member(root, source, key, depth - 1)? {
                return Ok(Some(value));
            }
        }
    }
    Ok(None)
}

/// Where a value is to be written.
struct Spot<'a> {
    /// The value that is there, or the mapping that lacks it.
    node: &'a Node,
    /// The key of the value, where it has one.
    key: Option<&'a Node>,
    /// The key that is to be added to the mapping.
    added: Option<&'a str>,
    /// Which child, from the root on.
    steps: Vec<usize>,
}

/// One way of writing it.
struct Attempt {
    range: Range<usize>,
    with: String,
    change: Change,
}

/// What a way of writing does to the tree.
enum Change {
    Replace(Scalar),
    Add {
        key: String,
        value: Scalar,
        first: bool,
    },
}

fn locate<'a>(root: &'a Node, path: &'a [String]) -> Result<Spot<'a>, Fault> {
    let aliases = root.aliases();
    let mut spot = Spot {
        node: root,
        key: None,
        added: None,
        steps: Vec::new(),
    };
    for (depth, key) in path.iter().enumerate() {
        let here = if depth == 0 {
            "the file".to_owned()
        } else {
            path[..depth].join(".")
        };
        shared(spot.node, &aliases, &here)?;
        let node = spot.node;
        let missing = || {
            node.fault(format!(
                "{here} has no `{key}`, in which {} would be",
                path.join(".")
            ))
        };
        match &node.content {
            Content::Map { entries, .. } => match position(entries, key)? {
                Some(at) => {
                    spot.node = &entries[at].1;
                    spot.key = Some(&entries[at].0);
                    spot.steps.push(at);
                }
                None if depth + 1 == path.len() => {
                    spot.added = Some(key);
                    return Ok(spot);
                }
                None => return Err(missing()),
            },
            Content::List { items, .. } => {
                let at = key.parse().ok().filter(|at: &usize| *at < items.len());
                let at = at.ok_or_else(missing)?;
                (spot.node, spot.key) = (&items[at], None);
                spot.steps.push(at);
            }
            Content::Alias(_) => {
                let what = format!(
                    "{here} is an alias, and what it stands for is shared; write it out here"
                );
                return Err(node.fault(what));
            }
            Content::Scalar { .. } => {
                return Err(node.fault(format!("{here} is no mapping, so it cannot hold `{key}`")));
            }
        }
    }
    shared(spot.node, &aliases, &path.join("."))?;
    Ok(spot)
}

/// Refuses what an alias stands for.
fn shared(
    node: &Node,
    aliases: &std::collections::BTreeMap<usize, u32>,
    what: &str,
) -> Result<(), Fault> {
    match aliases.get(&node.anchor).filter(|_| node.anchor != 0) {
        Some(line) => Err(node.fault(format!(
            "{what} has an anchor, and line {line} stands for it too; a change would be one of both"
        ))),
        None => Ok(()),
    }
}

impl Spot<'_> {
    fn attempts(&self, text: &str, shown: &str, value: &Value) -> Result<Vec<Attempt>, Fault> {
        let no_value = || {
            self.node.fault(format!(
                "{shown}: only single values can be written, got {value}"
            ))
        };
        if let Some(key) = self.added {
            let scalar = || Scalar::of(value, ScalarStyle::Plain).ok_or_else(no_value);
            let name = Scalar::of(&Value::Text(key.to_owned()), ScalarStyle::Plain)
                .ok_or_else(no_value)?;
            let mut ways = Vec::new();
            for first in [false, true] {
                let value = scalar()?;
                let line = format!("{}: {}", name.written, value.written);
                let Some((range, with)) = room(self.node, text, &line, first) else {
                    continue;
                };
                let change = Change::Add {
                    key: key.to_owned(),
                    value,
                    first,
                };
                ways.push(Attempt {
                    range,
                    with,
                    change,
                });
            }
            return Ok(ways);
        }
        let style = match &self.node.content {
            _ if self.node.tagged => {
                return Err(self.node.fault(format!(
                    "{shown} has a tag, which says how it is to be read; change it by hand"
                )));
            }
            Content::Alias(_) => ScalarStyle::Plain,
            Content::Scalar {
                style: ScalarStyle::Literal | ScalarStyle::Folded,
                ..
            } => {
                return Err(self.node.fault(format!(
                    "{shown} is a block of text (`|` or `>`); change it by hand"
                )));
            }
            Content::Scalar { style, .. } => *style,
            Content::List { .. } | Content::Map { .. } => {
                return Err(self.node.fault(format!(
                    "{shown} is a list or a mapping, not a single value"
                )));
            }
        };
        let scalar = Scalar::of(value, style).ok_or_else(no_value)?;
        let (range, with) = match (self.node.is_empty(), self.key) {
            (false, _) => (self.node.range.clone(), scalar.written.clone()),
            (true, Some(key)) => {
                let after = text[key.range.end..]
                    .find(':')
                    .map_or(key.range.end, |at| key.range.end + at + 1);
                (after..after, format!(" {}", scalar.written))
            }
            (true, None) => (self.node.range.clone(), format!(" {}", scalar.written)),
        };
        Ok(vec![Attempt {
            range,
            with,
            change: Change::Replace(scalar),
        }])
    }
}

/// Where an entry is added to a mapping, and with what around it.
fn room(map: &Node, text: &str, entry: &str, first: bool) -> Option<(Range<usize>, String)> {
    let Content::Map { entries, flow } = &map.content else {
        return None;
    };
    if *flow {
        let at = match (entries.last(), first) {
            (None, _) => map.range.start + 1,
            (Some((key, value)), false) => key.end().max(value.end()),
            (Some(_), true) => return None,
        };
        let with = if entries.is_empty() {
            entry.to_owned()
        } else {
            format!(", {entry}")
        };
        return Some((at..at, with));
    }
    let column = usize::try_from(entries.first()?.0.column)
        .ok()?
        .checked_sub(1)?;
    let indent = " ".repeat(column);
    let new_line = if text.contains("\r\n") { "\r\n" } else { "\n" };
    if first {
        let start = entries.first()?.0.range.start;
        return Some((start..start, format!("{entry}{new_line}{indent}")));
    }
    let (key, value) = entries.last()?;
    let end = key.end().max(value.end());
    // The span of a block of text goes on to the next word.
    let end = end - text[..end].len() + text[..end].trim_end().len();
    let end = end + text[end..].find('\n').unwrap_or(text.len() - end);
    let end = end - usize::from(text[..end].ends_with('\r'));
    Some((end..end, format!("{new_line}{indent}{entry}")))
}

impl Change {
    fn apply(self, root: &mut Node, steps: &[usize]) {
        let mut node = root;
        for step in steps {
            let next = match &mut node.content {
                Content::Map { entries, .. } => entries.get_mut(*step).map(|(_, value)| value),
                Content::List { items, .. } => items.get_mut(*step),
                _ => None,
            };
            let Some(next) = next else { return };
            node = next;
        }
        let scalar = |s: Scalar| Node {
            content: Content::Scalar {
                text: s.meaning,
                style: s.style,
            },
            range: 0..0,
            line: 0,
            column: 0,
            anchor: 0,
            tagged: false,
        };
        match self {
            Self::Replace(value) => node.content = scalar(value).content,
            Self::Add { key, value, first } => {
                let Some(key) = Scalar::of(&Value::Text(key), ScalarStyle::Plain) else {
                    return;
                };
                let entry = (scalar(key), scalar(value));
                if let Content::Map { entries, .. } = &mut node.content {
                    entries.insert(if first { 0 } else { entries.len() }, entry);
                }
            }
        }
    }
}

/// A fault with its line.
fn problem(file: &str, text: &str, fault: Fault) -> Problem {
    let at = usize::try_from(fault.line).unwrap_or(0).saturating_sub(1);
    let line = text.lines().nth(at).unwrap_or("").trim();
    let origin = Origin::File {
        path: file.to_owned(),
        line: fault.line,
        column: fault.column,
    };
    Problem::new(fault.what).at(line.chars().take(120).collect::<String>(), origin)
}
