//! JSON with places.

use super::Entry;

/// How deep values are read that stand in each other.
const MAX_DEPTH: usize = 64;

/// The value at the end of `keys`.
pub(super) fn find(text: &str, keys: &[&str]) -> Option<Entry> {
    let mut reader = Reader {
        text,
        at: 0,
        found: None,
    };
    reader.blanks();
    reader.value(Some(keys), 0)?;
    reader.blanks();
    let whole = reader.at == text.len();
    reader.found.filter(|_| whole)
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    found: Option<Entry>,
}

impl Reader<'_> {
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

    /// A value, in which `keys` are looked for. None where it is no JSON.
    fn value(&mut self, keys: Option<&[&str]>, depth: usize) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        let start = self.at;
        let text = match self.byte()? {
            b'{' => {
                self.at += 1;
                self.members(keys, depth)?;
                None
            }
            b'[' => {
                self.at += 1;
                while !self.is(b']') {
                    self.value(None, depth + 1)?;
                    if !self.is(b',') && !self.text[self.at..].starts_with(']') {
                        return None;
                    }
                }
                None
            }
            b'"' => Some(self.string()?),
            _ => Some(self.word()?),
        };
        if keys.is_some_and(<[&str]>::is_empty) {
            self.found = Some(Entry {
                bytes: start..self.at,
                text,
            });
        }
        Some(())
    }

    fn members(&mut self, keys: Option<&[&str]>, depth: usize) -> Option<()> {
        while !self.is(b'}') {
            let key = self.string()?;
            if !self.is(b':') {
                return None;
            }
            self.blanks();
            let inner = keys.and_then(|keys| keys.split_first());
            let inner = inner
                .filter(|(first, _)| **first == key)
                .map(|(_, rest)| rest);
            if inner.is_some() {
                // A key that is given again hides all that stood under it before.
                self.found = None;
            }
            self.value(inner, depth + 1)?;
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
