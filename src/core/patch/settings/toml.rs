//! TOML with places.

use toml_edit::{Document, Item};

use super::Entry;

/// Largest file that is read, in bytes.
const MAX_FILE: usize = 1 << 20;

/// The value at the end of `keys`.
pub(super) fn find(text: &str, keys: &[&str]) -> Option<Entry> {
    if text.len() > MAX_FILE {
        return None;
    }
    let document = Document::parse(text).ok()?;
    let mut item = document.as_item();
    for key in keys {
        item = item.as_table_like()?.get(key)?;
    }
    let bytes = item.span()?;
    let written = text.get(bytes.clone())?;
    let text = match item {
        Item::Value(value) => value.as_str().map(str::to_owned).or_else(|| {
            (!value.is_array() && !value.is_inline_table()).then(|| written.to_owned())
        }),
        _ => None,
    };
    Some(Entry { bytes, text })
}
