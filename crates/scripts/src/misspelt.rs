//! Keys and options that a framework does not have, and that differ from one which it has by `_`, `-` or capital letters alone.
//!
//! Rule: what presets know of a framework is not all of it, so any other key that they do not know says nothing.

use super::adopt::Adoption;
use super::hydra;
use super::recognise::is_key_of;
use super::stack::Stack;
use super::walk::Call;
use crate::{SettingsReader, Spelling};
use oomctl_base::line_and_column;

/// The least letters of a key that is told.
const LEAST: usize = 8;

impl Adoption<'_> {
    /// Such keys of files and words of commands, each with its place and the key that is meant, as sentences.
    pub fn misspelt(&self) -> Vec<String> {
        let stack = self.stack.filter(|stack| !stack.recognise.is_any());
        let mut said: Vec<String> = stack
            .into_iter()
            .flat_map(|stack| self.calls().flat_map(|call| self.misspelt_in(call, stack)))
            .collect();
        said.dedup();
        said
    }

    fn misspelt_in(&self, call: &Call, stack: &Stack) -> Vec<String> {
        let (mut said, name) = (Vec::new(), &stack.name);
        let mut tell = |key: &str, place: Option<String>| {
            if let Some(meant) = meant(stack, key).filter(|_| !self.has_of_its_own(key)) {
                let place: String = place.map(|at| format!(" ({at})")).unwrap_or_default();
                said.push(format!(
                    "{name} has no {key}{place}, so nothing is read from it; did you mean {meant}?"
                ));
            }
        };
        let files = call.settings.iter();
        for file in files.filter(|file| file.reader == SettingsReader::Program) {
            let text = file.content.text();
            for (key, entry) in file.says.leaves() {
                let (line, _) = line_and_column(&text, entry.bytes.start);
                tell(&key, Some(format!("{}:{line}", file.path)));
            }
        }
        for word in call.words.iter().skip(call.args) {
            let word = &word.text;
            let text = word.text();
            let key = match hydra::read(&text) {
                Some(read) => read.key,
                None if text.starts_with("--") => text.split('=').next().unwrap_or_default(),
                None => continue,
            };
            tell(key, word.place().and_then(|span| self.reading.place(span)));
        }
        said
    }

    /// Whether the program's own text has a name that the key ends in.
    fn has_of_its_own(&self, key: &str) -> bool {
        let name = key
            .rsplit('.')
            .next()
            .unwrap_or(key)
            .trim_start_matches('-');
        let mut sources = self.reading.sources.iter();
        sources.any(|source| source.path.ends_with(".py") && source.text.contains(name))
    }
}

/// The key of a knob that has the same letters, where none has the key itself.
fn meant<'s>(stack: &'s Stack, key: &str) -> Option<&'s str> {
    let wanted = letters(key);
    if wanted.len() < LEAST {
        return None;
    }
    let spellings = stack.knobs.iter().flat_map(|knob| &knob.spellings);
    let names = spellings
        .filter(|s| !matches!(s, Spelling::Env(_)))
        .map(Spelling::name);
    if names.clone().any(|name| is_key_of(name, key)) {
        return None;
    }
    let meant = names.clone().find(|name| letters(name) == wanted)?;
    Some(match key.starts_with('-') {
        true => meant,
        false => meant.trim_start_matches('-').trim_end_matches('='),
    })
}

fn letters(key: &str) -> String {
    let kept = key.chars().filter(|c| c.is_alphanumeric() || *c == '.');
    kept.flat_map(char::to_lowercase).collect()
}
