//! A YAML text as settings: each value with the bytes that say it and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use serde_yaml::granit_parser::ScalarStyle;

use super::Yaml;
use super::tree::{self, YamlContent, YamlNode as Tree};
use crate::settings::{SettingsEntry, SettingsNode};
use oomctl_base::Value;

/// Values that are read, with what aliases and merges bring in.
const MOST_NODES: usize = 200_000;
/// Aliases and merges inside one another that are followed.
const MAX_DEPTH: usize = 96;

/// What stands in the place of a value until it is written.
const STAND_IN: &str = "value_that_is_put_here";

struct YamlReader<'a> {
    anchors: BTreeMap<usize, &'a Tree>,
    /// Anchors that are used again.
    used: BTreeSet<usize>,
    left: usize,
}

/// What a text says; None where it is no YAML, has several documents, or more than is read.
pub(crate) fn settings(text: &str) -> Option<SettingsNode> {
    let root = tree::parse(text).ok()??;
    let all = root.all();
    let anchored = all.iter().filter(|n| n.anchor != 0);
    let mut reader = YamlReader {
        anchors: anchored.map(|n| (n.anchor, *n)).collect(),
        used: root.aliases().into_keys().collect(),
        left: MOST_NODES,
    };
    reader.node(&root, false, 0)
}

/// An item of a list: a single value, or a mapping with one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    /// The key of the mapping; None where it is none.
    pub key: Option<String>,
    /// The value, or those of a list under the key; None for null.
    pub values: Vec<Option<String>>,
    /// That is all of it.
    pub plain: bool,
}

/// The items of a list, or of a single value as one; None where there is no such key.
pub(crate) fn list(text: &str, path: &[&str]) -> Option<Vec<Item>> {
    let root = tree::parse(text).ok()??;
    let mut node = &root;
    for key in path {
        let YamlContent::Map { entries, .. } = &node.content else {
            return None;
        };
        node = &entries.iter().rev().find(|(k, _)| k.text() == Some(key))?.1;
    }
    Some(match &node.content {
        YamlContent::List { items, .. } => items.iter().map(item).collect(),
        _ => vec![item(node)],
    })
}

fn item(node: &Tree) -> Item {
    let (key, value) = match &node.content {
        YamlContent::Map { entries, .. } if entries.len() == 1 => {
            (entries[0].0.text(), &entries[0].1)
        }
        _ => (None, node),
    };
    let of = |node: &Tree| match &node.content {
        YamlContent::Scalar { text, style } => {
            let null = ["", "~", "null", "Null", "NULL"].contains(&text.as_str());
            Some((!null || *style != ScalarStyle::Plain).then(|| text.clone()))
        }
        _ => None,
    };
    let (all, plain): (Vec<_>, bool) = match &value.content {
        YamlContent::List { items, .. } => {
            let all: Vec<_> = items.iter().filter_map(of).collect();
            let plain = all.len() == items.len();
            (all, plain)
        }
        _ => (of(value).into_iter().collect(), of(value).is_some()),
    };
    Item {
        key: key.map(str::to_owned),
        values: all,
        plain,
    }
}

/// Where a key more is put, and with which bytes.
pub(crate) fn room(text: &str, key: &str, value: &str) -> Option<(usize, String)> {
    let path: Vec<String> = key.split('.').map(str::to_owned).collect();
    let stand_in = Value::Text(STAND_IN.to_owned());
    let with = Yaml::parse("", text).ok()?.set(&path, &stand_in).ok()?;
    let same = text
        .bytes()
        .zip(with.text().bytes())
        .take_while(|(a, b)| a == b);
    let start = same.count();
    let more = with.text().len().checked_sub(text.len())?;
    let added = with.text().get(start..start + more)?;
    let alone = text.get(start..)? == with.text().get(start + more..)?;
    (alone && added.contains(STAND_IN)).then(|| (start, added.replace(STAND_IN, value)))
}

impl<'a> YamlReader<'a> {
    fn node(&mut self, node: &'a Tree, shared: bool, depth: usize) -> Option<SettingsNode> {
        self.left = self.left.checked_sub(1)?;
        if depth > MAX_DEPTH {
            return None;
        }
        let shared =
            shared || node.tagged || (node.anchor != 0 && self.used.contains(&node.anchor));
        let entry = SettingsEntry {
            bytes: node.range.clone(),
            text: None,
            shared,
        };
        let mut found = SettingsNode {
            entry,
            members: BTreeMap::new(),
        };
        match &node.content {
            YamlContent::Scalar { text, style } => {
                found.entry.text = Some(text.clone());
                let block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
                // Nothing is written there, or it is written in a way of its own.
                found.entry.shared |= block || node.range.is_empty();
            }
            YamlContent::Alias(anchor) => {
                let meant = self.anchors.get(anchor).copied()?;
                let meant = self.node(meant, true, depth + 1)?;
                // The alias itself may go; what it stands for may not.
                found.entry.text = meant.entry.text;
                found.members = meant.members;
            }
            YamlContent::List { .. } => {}
            YamlContent::Map { entries, .. } => {
                for (key, value) in entries {
                    if let Some(key) = key.text().filter(|k| *k != "<<") {
                        let value = self.node(value, shared, depth + 1)?;
                        found.members.insert(key.to_owned(), value);
                    }
                }
                self.merge(entries, &mut found, depth)?;
            }
        }
        Some(found)
    }

    /// Adds what the mappings say that are merged, where the mapping itself says nothing.
    fn merge(
        &mut self,
        entries: &'a [(Tree, Tree)],
        into: &mut SettingsNode,
        depth: usize,
    ) -> Option<()> {
        let merged = entries.iter().filter(|(k, _)| k.text() == Some("<<"));
        for (_, from) in merged {
            let sources: Vec<&Tree> = match &from.content {
                YamlContent::List { items, .. } => items.iter().collect(),
                _ => vec![from],
            };
            for source in sources {
                let source = self.node(source, true, depth + 1)?;
                for (key, mut value) in source.members {
                    value.entry.shared = true;
                    into.members.entry(key).or_insert(value);
                }
            }
        }
        Some(())
    }
}
