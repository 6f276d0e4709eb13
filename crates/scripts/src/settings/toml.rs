//! TOML with places.

use std::collections::BTreeMap;

use toml_edit::{Document, Item, Value};

use super::{SettingsEntry, SettingsNode};

/// How deep tables are read that stand in each other.
const MAX_DEPTH: usize = 64;

/// What a text says.
pub(super) fn read(text: &str) -> Option<SettingsNode> {
    let document = Document::parse(text).ok()?;
    node(document.as_item(), text, 0)
}

fn node(item: &Item, text: &str, depth: usize) -> Option<SettingsNode> {
    if depth > MAX_DEPTH {
        return None;
    }
    let bytes = item.span().unwrap_or_default();
    let written = text.get(bytes.clone())?;
    let meaning = match item {
        Item::Value(Value::String(text)) => Some(text.value().clone()),
        Item::Value(Value::Integer(number)) => Some(number.value().to_string()),
        Item::Value(Value::Array(_) | Value::InlineTable(_)) => None,
        Item::Value(_) => Some(written.to_owned()),
        _ => None,
    };
    let mut members = BTreeMap::new();
    for (key, inner) in item.as_table_like().into_iter().flat_map(|t| t.iter()) {
        members.insert(key.to_owned(), node(inner, text, depth + 1)?);
    }
    let entry = SettingsEntry {
        shared: bytes.is_empty(),
        bytes,
        text: meaning,
    };
    Some(SettingsNode { entry, members })
}
