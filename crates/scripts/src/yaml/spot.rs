//! Where a value is to be written, and the ways of writing it there.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_yaml::granit_parser::ScalarStyle;

use super::scalar::WrittenScalar;
use super::tree::{Fault, YamlContent, YamlNode};
use oomctl_base::Value;

/// Where a value is to be written.
pub(super) struct Spot<'a> {
    /// The value that is there, or the mapping that lacks it.
    pub node: &'a YamlNode,
    /// The key of the value, where it has one.
    key: Option<&'a YamlNode>,
    /// The key that is to be added to the mapping.
    added: Option<&'a str>,
    /// Which child, from the root on.
    pub steps: Vec<usize>,
}

/// One way of writing it.
pub(super) struct Rewrite {
    pub range: Range<usize>,
    pub with: String,
    pub change: TreeChange,
}

/// What a way of writing does to the tree.
pub(super) enum TreeChange {
    Replace(WrittenScalar),
    Add {
        key: WrittenScalar,
        value: WrittenScalar,
        first: bool,
    },
}

/// The place of a path, from the root on.
pub(super) fn locate<'a>(root: &'a YamlNode, path: &'a [String]) -> Result<Spot<'a>, Fault> {
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
            YamlContent::Map { entries, .. } => match position(entries, key)? {
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
            YamlContent::List { items, .. } => {
                let at = key.parse().ok().filter(|at: &usize| *at < items.len());
                let at = at.ok_or_else(missing)?;
                (spot.node, spot.key) = (&items[at], None);
                spot.steps.push(at);
            }
            YamlContent::Alias(_) => {
                let what =
                    format!("{here} is an alias of a shared value; write the value out here");
                return Err(node.fault(what));
            }
            YamlContent::Scalar { .. } => {
                return Err(node.fault(format!(
                    "{here} is not a mapping, so it cannot hold `{key}`"
                )));
            }
        }
    }
    shared(spot.node, &aliases, &path.join("."))?;
    Ok(spot)
}

/// The position of a key in a mapping.
pub(super) fn position(
    entries: &[(YamlNode, YamlNode)],
    key: &str,
) -> Result<Option<usize>, Fault> {
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

/// Refuses what an alias stands for.
fn shared(node: &YamlNode, aliases: &BTreeMap<usize, u32>, what: &str) -> Result<(), Fault> {
    match aliases.get(&node.anchor).filter(|_| node.anchor != 0) {
        Some(line) => Err(node.fault(format!(
            "{what} has an anchor that line {line} uses too; a change would affect both"
        ))),
        None => Ok(()),
    }
}

impl Spot<'_> {
    /// Ways of writing a value, the best first. `shown` is the path.
    pub(super) fn attempts(
        &self,
        text: &str,
        shown: &str,
        value: &Value,
    ) -> Result<Vec<Rewrite>, Fault> {
        match self.added {
            Some(key) => {
                let ways = [false, true].into_iter();
                let ways = ways.map(|first| self.addition(text, (shown, key), value, first));
                ways.filter_map(Result::transpose).collect()
            }
            None => Ok(vec![self.replacement(text, shown, value)?]),
        }
    }

    fn no_single(&self, shown: &str, value: &Value) -> Fault {
        let what = format!("{shown}: only single values can be written, got {value}");
        self.node.fault(what)
    }

    /// An entry more, the first or the last one; `None` where there is no room for it.
    fn addition(
        &self,
        text: &str,
        (shown, key): (&str, &str),
        value: &Value,
        first: bool,
    ) -> Result<Option<Rewrite>, Fault> {
        let scalar = |v: &Value| WrittenScalar::of(v, ScalarStyle::Plain);
        let value = scalar(value).ok_or_else(|| self.no_single(shown, value))?;
        let Some(key) = scalar(&Value::Text(key.to_owned())) else {
            return Ok(None);
        };
        let line = format!("{}: {}", key.written, value.written);
        let place = room(self.node, text, &line, first);
        Ok(place.map(|(range, with)| Rewrite {
            range,
            with,
            change: TreeChange::Add { key, value, first },
        }))
    }

    fn replacement(&self, text: &str, shown: &str, value: &Value) -> Result<Rewrite, Fault> {
        let fault = |what: &str| Err(self.node.fault(format!("{shown} {what}")));
        let style = match &self.node.content {
            _ if self.node.tagged => {
                return fault("has a YAML tag; change it by hand");
            }
            YamlContent::Alias(_) => ScalarStyle::Plain,
            YamlContent::Scalar { style, .. } => match style {
                ScalarStyle::Literal | ScalarStyle::Folded => {
                    return fault("is a block of text (`|` or `>`); change it by hand");
                }
                style => *style,
            },
            YamlContent::List { .. } | YamlContent::Map { .. } => {
                return fault("is a list or a mapping, not a single value");
            }
        };
        let scalar = WrittenScalar::of(value, style).ok_or_else(|| self.no_single(shown, value))?;
        let (range, with) = match (self.node.is_empty(), self.key) {
            (false, _) => (self.node.range.clone(), scalar.written.clone()),
            (true, key) => {
                // Nothing is written there: the value comes behind the colon.
                let from = key.map_or(self.node.range.start, |k| k.range.end);
                let colon = key.and_then(|_| text[from..].find(':'));
                let after = colon.map_or(from, |at| from + at + 1);
                (after..after, format!(" {}", scalar.written))
            }
        };
        let change = TreeChange::Replace(scalar);
        Ok(Rewrite {
            range,
            with,
            change,
        })
    }
}

/// Where an entry is added to a mapping, and with what around it.
fn room(map: &YamlNode, text: &str, entry: &str, first: bool) -> Option<(Range<usize>, String)> {
    let YamlContent::Map { entries, flow } = &map.content else {
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

impl TreeChange {
    pub(super) fn apply(self, root: &mut YamlNode, steps: &[usize]) {
        let mut node = root;
        for step in steps {
            let next = match &mut node.content {
                YamlContent::Map { entries, .. } => entries.get_mut(*step).map(|(_, value)| value),
                YamlContent::List { items, .. } => items.get_mut(*step),
                _ => None,
            };
            let Some(next) = next else { return };
            node = next;
        }
        let scalar = |s: WrittenScalar| YamlNode {
            content: YamlContent::Scalar {
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
                let entry = (scalar(key), scalar(value));
                if let YamlContent::Map { entries, .. } = &mut node.content {
                    entries.insert(if first { 0 } else { entries.len() }, entry);
                }
            }
        }
    }
}
