//! Which flags and keys some words give.

use std::collections::HashSet;

use super::hydra;
use super::spelling::plain_flag;
use super::walk::Call;

/// The flags and keys of some words. A stack is asked for hundreds of them.
pub(super) struct GivenKeys(HashSet<String>);

impl GivenKeys {
    /// Of these words.
    pub fn of<'w>(words: impl IntoIterator<Item = &'w String>) -> Self {
        let mut keys = HashSet::new();
        for word in words {
            if word.starts_with('-') {
                keys.insert(plain_flag(word.split('=').next().unwrap_or(word)));
                continue;
            }
            keys.extend(hydra::read(word).map(|read| read.key.to_owned()));
            keys.insert(word.clone());
        }
        Self(keys)
    }

    /// Of all words of a call.
    pub fn of_call(call: &Call) -> Self {
        Self::of(&call.texts())
    }

    /// Whether a word gives this key or flag.
    pub fn has(&self, key: &str) -> bool {
        match key.starts_with('-') {
            true => self.0.contains(&plain_flag(key.trim_end_matches('='))),
            false => self.0.contains(key),
        }
    }
}
