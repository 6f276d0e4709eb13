//! JSON with places.

use std::collections::BTreeMap;

use super::{SettingsEntry, SettingsNode};

/// How deep values are read that stand in each other.
const MAX_DEPTH: usize = 64;

/// What a text says.
pub(super) fn read(text: &str) -> Option<SettingsNode> {
    let mut reader = JsonReader { text, at: 0 };
    reader.blanks();
    let node = reader.value(0)?;
    reader.blanks();
    (reader.at == text.len()).then_some(node)
}

/// Where a key more is put into an object, and with which bytes.
pub(super) fn room(
    text: &str,
    object: &SettingsNode,
    key: &str,
    value: &str,
) -> Option<(usize, String)> {
    let last = object.members.values().map(|m| &m.entry.bytes);
    let last = last.max_by_key(|bytes| bytes.end)?;
    let line = text.get(..last.start)?.rfind('\n').map_or(0, |at| at + 1);
    let key = quoted(key);
    // On a line of its own where the last one has one.
    let separator = match line > object.entry.bytes.start {
        true => {
            let blanks = |c: char| c == ' ' || c == '\t';
            let rest = &text[line..];
            format!(
                "\n{}",
                &rest[..rest.len() - rest.trim_start_matches(blanks).len()]
            )
        }
        false => " ".to_owned(),
    };
    Some((last.end, format!(",{separator}{key}: {value}")))
}

/// An object of one key.
pub(super) fn object(key: &str, value: &str) -> String {
    format!("{{{}: {value}}}", quoted(key))
}

fn quoted(key: &str) -> String {
    serde_json::Value::from(key).to_string()
}

struct JsonReader<'t> {
    text: &'t str,
    at: usize,
}

impl JsonReader<'_> {
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn is(&mut self, byte: u8) -> bool {
        self.blanks();
        let is = self.byte() == Some(byte);
        self.at += usize::from(is);
        is
    }

    fn blanks(&mut self) {
        loop {
            let rest = &self.text[self.at..];
            let trimmed = rest.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']);
            self.at += rest.len() - trimmed.len();
            let comment = match trimmed.get(..2) {
                Some("//") => trimmed.find('\n'),
                Some("/*") => trimmed.find("*/").map(|at| at + 2),
                _ => return,
            };
            self.at += comment.unwrap_or(trimmed.len());
        }
    }

    /// A value. None where it is no JSON.
    fn value(&mut self, depth: usize) -> Option<SettingsNode> {
        if depth > MAX_DEPTH {
            return None;
        }
        let (start, mut members) = (self.at, BTreeMap::new());
        let text = match self.byte()? {
            b'{' => {
                self.at += 1;
                self.members(&mut members, depth)?;
                None
            }
            b'[' => {
                self.at += 1;
                while !self.is(b']') {
                    self.value(depth + 1)?;
                    if !self.is(b',') && !self.text[self.at..].starts_with(']') {
                        return None;
                    }
                }
                None
            }
            b'"' => Some(self.string()?),
            _ => Some(self.word()?),
        };
        let entry = SettingsEntry {
            bytes: start..self.at,
            text,
            shared: false,
        };
        Some(SettingsNode { entry, members })
    }

    fn members(
        &mut self,
        members: &mut BTreeMap<String, SettingsNode>,
        depth: usize,
    ) -> Option<()> {
        while !self.is(b'}') {
            let key = self.string()?;
            if !self.is(b':') {
                return None;
            }
            self.blanks();
            // A key that is given again hides all that stood under it before.
            members.insert(key, self.value(depth + 1)?);
            if !self.is(b',') && !self.text[self.at..].starts_with('}') {
                return None;
            }
        }
        Some(())
    }

    fn string(&mut self) -> Option<String> {
        let start = self.at;
        if self.byte() != Some(b'"') {
            return None;
        }
        self.at += 1;
        loop {
            match self.byte()? {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        serde_json::from_str(self.text.get(start..self.at)?).ok()
    }

    /// A number, `true`, `false`, `null`; also the code that stands for what a script puts in.
    fn word(&mut self) -> Option<String> {
        let rest = &self.text[self.at..];
        let ends = |c: char| c.is_whitespace() || matches!(c, ',' | ']' | '}' | '/');
        let length = rest.find(ends).unwrap_or(rest.len());
        let word = &rest[..length];
        self.at += length;
        (!word.is_empty()).then(|| word.to_owned())
    }
}
