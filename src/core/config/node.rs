//! YAML text to a tree that remembers places.
//!
//! Scalars keep their raw text, so `1e-6`, `0123` and `1.10` reach the program as they were written;
//! what they mean is decided by the knob that takes them.

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_yaml::Spanned;

use super::ConfigError;

/// Largest configuration file that is read, in bytes.
pub const MAX_FILE: usize = 1 << 20;

/// A node with its place.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigNode {
    /// What it holds.
    pub content: ConfigContent,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
}

/// What a node holds.
#[derive(Debug, Clone, PartialEq)]
pub enum ConfigContent {
    /// Nothing, `null` or `~`.
    Null,
    /// A scalar: its text, quotes and escapes resolved.
    Scalar(String),
    /// A list.
    List(Vec<ConfigNode>),
    /// Keys to nodes, in order, each key once.
    Map(Vec<(ConfigKey, ConfigNode)>),
}

/// A key with its place.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigKey {
    /// The key.
    pub name: String,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
}

impl ConfigNode {
    /// Parses `text`, which was read from `path`.
    ///
    /// # Errors
    /// With line, column and snippet: what is no YAML, duplicate keys, too large or too deep input.
    pub fn parse(path: &str, text: &str) -> Result<Self, ConfigError> {
        if text.len() > MAX_FILE {
            return Err(ConfigError::plain(
                path,
                format!("the file has {} bytes; the limit is {MAX_FILE}", text.len()),
            ));
        }
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if is_empty(text) {
            return Ok(Self {
                content: ConfigContent::Null,
                line: 1,
                column: 1,
            });
        }
        let raw: Raw = serde_yaml::from_str(text).map_err(|e| ConfigError::yaml(path, text, &e))?;
        Ok(raw.into_node(text))
    }

    /// The kind of the node, for messages.
    pub fn noun(&self) -> String {
        match &self.content {
            ConfigContent::Null => "nothing".to_owned(),
            ConfigContent::Scalar(text) => format!("`{text}`"),
            ConfigContent::List(_) => "a list".to_owned(),
            ConfigContent::Map(_) => "a map".to_owned(),
        }
    }

    /// Whether the node is a map with this key.
    pub fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// What is under this key, where the node is a map.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let ConfigContent::Map(entries) = &self.content else {
            return None;
        };
        let mut entries = entries.iter();
        entries.find(|(k, _)| k.name == key).map(|(_, value)| value)
    }

    /// The node as JSON: scalars become null, booleans and numbers where they look so.
    pub fn to_json(&self) -> serde_json::Value {
        match &self.content {
            ConfigContent::Null => serde_json::Value::Null,
            ConfigContent::Scalar(text) => scalar_to_json(text),
            ConfigContent::List(items) => items.iter().map(Self::to_json).collect(),
            ConfigContent::Map(entries) => entries
                .iter()
                .map(|(k, v)| (k.name.clone(), v.to_json()))
                .collect::<serde_json::Map<_, _>>()
                .into(),
        }
    }
}

fn scalar_to_json(text: &str) -> serde_json::Value {
    match text {
        "true" => true.into(),
        "false" => false.into(),
        _ => match text.parse::<i64>() {
            Ok(i) => i.into(),
            Err(_) => match text.parse::<f64>() {
                Ok(x) if x.is_finite() => x.into(),
                _ => text.into(),
            },
        },
    }
}

fn is_empty(text: &str) -> bool {
    text.lines()
        .map(str::trim)
        .all(|l| l.is_empty() || l.starts_with('#') || l == "---")
}

struct Raw(Spanned<RawContent>);

enum RawContent {
    Null,
    /// A scalar that is not text: its raw text is taken from the source.
    Plain,
    Text(String),
    List(Vec<Raw>),
    Map(Vec<(Spanned<String>, Raw)>),
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Spanned::deserialize(d).map(Self)
    }
}

impl<'de> Deserialize<'de> for RawContent {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = RawContent;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<RawContent, E> {
        Ok(RawContent::Null)
    }

    fn visit_none<E>(self) -> Result<RawContent, E> {
        Ok(RawContent::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, d: D) -> Result<RawContent, D::Error> {
        d.deserialize_any(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<RawContent, E> {
        Ok(RawContent::Plain)
    }

    fn visit_i64<E>(self, _: i64) -> Result<RawContent, E> {
        Ok(RawContent::Plain)
    }

    fn visit_u64<E>(self, _: u64) -> Result<RawContent, E> {
        Ok(RawContent::Plain)
    }

    fn visit_i128<E>(self, _: i128) -> Result<RawContent, E> {
        Ok(RawContent::Plain)
    }

    fn visit_u128<E>(self, _: u128) -> Result<RawContent, E> {
        Ok(RawContent::Plain)
    }

    fn visit_f64<E>(self, _: f64) -> Result<RawContent, E> {
        Ok(RawContent::Plain)
    }

    fn visit_str<E>(self, text: &str) -> Result<RawContent, E> {
        Ok(RawContent::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<RawContent, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(RawContent::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawContent, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(RawContent::Map(entries))
    }
}

impl Raw {
    fn into_node(self, source: &str) -> ConfigNode {
        let place = self.0.referenced;
        let defined = self.0.defined;
        let content = match self.0.value {
            RawContent::Null => ConfigContent::Null,
            RawContent::Text(text) => ConfigContent::Scalar(text),
            RawContent::Plain => ConfigContent::Scalar(slice(source, defined).to_owned()),
            RawContent::List(items) => {
                ConfigContent::List(items.into_iter().map(|i| i.into_node(source)).collect())
            }
            RawContent::Map(entries) => ConfigContent::Map(
                entries
                    .into_iter()
                    .map(|(key, value)| (key_of(key), value.into_node(source)))
                    .collect(),
            ),
        };
        ConfigNode {
            content,
            line: small(place.line()),
            column: small(place.column()),
        }
    }
}

fn key_of(key: Spanned<String>) -> ConfigKey {
    ConfigKey {
        line: small(key.referenced.line()),
        column: small(key.referenced.column()),
        name: key.value,
    }
}

fn small(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn slice(source: &str, place: serde_yaml::Location) -> &str {
    let span = place.span();
    let bytes = span.byte_offset().zip(span.byte_len());
    bytes
        .and_then(|(at, len)| {
            let at = usize::try_from(at).ok()?;
            source.get(at..at.checked_add(usize::try_from(len).ok()?)?)
        })
        .unwrap_or_default()
        .trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(text: &str) -> Vec<(ConfigKey, ConfigNode)> {
        match ConfigNode::parse("t.yaml", text).unwrap().content {
            ConfigContent::Map(entries) => entries,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn scalars_keep_their_raw_text_and_place() {
        let entries = map("a: 1e-6\nb: 0123\nc: no\nd:\n  - 1.10\n  - 'x y'\ne: ~\nf: 12:00:00\n");
        let text = |i: usize| entries[i].1.content.clone();
        assert_eq!(text(0), ConfigContent::Scalar("1e-6".to_owned()));
        assert_eq!(text(1), ConfigContent::Scalar("0123".to_owned()));
        assert_eq!(text(2), ConfigContent::Scalar("no".to_owned()));
        assert_eq!(text(4), ConfigContent::Null);
        assert_eq!(text(5), ConfigContent::Scalar("12:00:00".to_owned()));
        let ConfigContent::List(items) = text(3) else {
            panic!()
        };
        assert_eq!(items[0].content, ConfigContent::Scalar("1.10".to_owned()));
        assert_eq!((items[1].line, items[1].column), (6, 5));
        assert_eq!((entries[1].0.line, entries[1].0.column), (2, 1));
        assert_eq!((entries[1].1.line, entries[1].1.column), (2, 4));
    }

    #[test]
    fn duplicate_keys_tabs_and_bombs_are_errors_with_a_place() {
        let twice = ConfigNode::parse("t.yaml", "knobs:\n  a: 1\n  a: 2\n").unwrap_err();
        assert_eq!(twice.line, Some(3), "{twice}");
        assert!(
            ConfigNode::parse("t.yaml", "a:\n\tb: 1\n")
                .unwrap_err()
                .line
                .is_some()
        );
        let deep = "[".repeat(50_000);
        assert!(ConfigNode::parse("t.yaml", &deep).is_err());
        assert!(ConfigNode::parse("t.yaml", &" ".repeat(MAX_FILE + 1)).is_err());
        assert_eq!(
            ConfigNode::parse("t.yaml", "# only a comment\n")
                .unwrap()
                .content,
            ConfigContent::Null
        );
        assert_eq!(map("\u{feff}a: 1\n").len(), 1);
    }
}
