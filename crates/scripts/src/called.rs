//! What a script itself calls a knob.

use super::adopt::Adoption;
use super::knobs::{FoundKnob, KnobForm};
use super::settings::SettingsEntry;
use super::spelling::{Spelling, setting_names};
use super::stack::StackKnob;
use super::walk::{Call, Reading, SettingsFile};

impl Adoption<'_> {
    /// The script's own word for a knob that it gives: its option with the dashes, or else where that is another one than the
    /// knob's, the variable, or the key of `key=value` or of a file.
    pub fn word_of(&self, knob: &StackKnob, found: &FoundKnob) -> Option<String> {
        let call = self.calls().next()?;
        let word = match found.way {
            KnobForm::Variable => variable(call, knob, found),
            KnobForm::Switch | KnobForm::Bare => Some(found.value.text()),
            KnobForm::Code { own: true } => constant(&self.reading, found),
            KnobForm::Setting { .. } | KnobForm::Composed => key(call, knob, found),
            _ => option(call, found),
        }?;
        let leaf = |name: &str| name.rsplit('.').next().unwrap_or(name).to_owned();
        (word.starts_with('-') || leaf(&word) != leaf(&knob.name)).then_some(word)
    }
}

/// The option before a value, or the key before its `=`.
fn option(call: &Call, found: &FoundKnob) -> Option<String> {
    let place = found.place()?;
    let own = call.words.get(call.args..)?;
    own.iter().enumerate().find_map(|(at, word)| {
        let text = word.text.text();
        let name = text.split('=').next()?;
        let (value, named) = match name.len() < text.len() {
            true => (word.text.slice(name.len() + 1, text.len()), true),
            false => (own.get(at + 1)?.text.clone(), name.starts_with('-')),
        };
        let gives = named && value.place() == Some(place);
        gives.then(|| name.trim_start_matches('+').to_owned())
    })
}

/// The name to which a statement of a program gives the value: `name = 8`, `name: int = 8`, and no argument of a call.
fn constant(reading: &Reading, found: &FoundKnob) -> Option<String> {
    let span = found.place()?;
    let before = reading.sources.get(span.file)?.text.get(..span.start)?;
    let line = before.rsplit('\n').next()?.trim();
    let (name, rest) = line.split_at(line.find([' ', ':', '='])?);
    let plain = |c: char| c.is_alphanumeric() || " :=_.".contains(c);
    let gives = rest.ends_with('=') && rest.trim_start().starts_with([':', '=']);
    (gives && rest.chars().all(plain)).then(|| name.to_owned())
}

fn variable(call: &Call, knob: &StackKnob, found: &FoundKnob) -> Option<String> {
    let read = call.as_read(knob);
    let mut spellings = read.spellings.iter();
    spellings.find_map(|spelling| match spelling {
        Spelling::Env(name) if call.variables.get(name)?.place() == found.place() => {
            Some(name.clone())
        }
        _ => None,
    })
}

fn key(call: &Call, knob: &StackKnob, found: &FoundKnob) -> Option<String> {
    let read = call.as_read(knob);
    let names: Vec<String> = read.spellings.iter().flat_map(setting_names).collect();
    let gives = |file: &SettingsFile, entry: &SettingsEntry| {
        let value = file.content.slice(entry.bytes.start, entry.bytes.end);
        value.place() == found.place()
    };
    call.settings.iter().find_map(|file| {
        let says = |name: &&String| file.find(name).is_some_and(|entry| gives(file, entry));
        names.iter().find(says).cloned()
    })
}
