//! Words that override the settings which a program's Python text writes, and the files in which it does.

use std::collections::BTreeMap;

use super::code_value::{CodeValue, PythonFile};
use super::keyed::{
    KeyedSettings, config_bases, config_dict, defaults, flag, is_of_mmlab, merged_option,
    mmlab_bases, open_mmlab,
};
use super::sectioned::is_named;
use super::settings::SettingsFormat;
use super::stack::StackKnob;
use super::traced::Traced;
use super::walk::{Call, Reading, folder_of_file, joined};
use crate::Spelling;
use oomctl_base::only;

/// Files of such settings that are read for one program.
const FILES: usize = 32;

/// A section whose batches are of samples that a model makes.
const MADE: &str = "sample";

impl Call {
    /// The one key of such settings that is a knob, as words override it.
    pub(super) fn keyed(&self, knob: &StackKnob) -> Option<Spelling> {
        let key = self.key_of(knob)?;
        Some(self.code.as_ref()?.keyed.spelling(&key))
    }

    fn key_of(&self, knob: &StackKnob) -> Option<String> {
        // A default of an option may win over it.
        if self.code_value(knob).is_some_and(|coded| !coded.is_unset)
            || self.unknown_words().is_some()
        {
            return None;
        }
        let keyed = &self.code.as_ref()?.keyed;
        let of_capitals = |key: &String| !key.chars().any(|c| c.is_ascii_lowercase());
        let yaml = self
            .settings
            .iter()
            .filter(|file| keyed.of_files && file.says.format() == SettingsFormat::Yaml);
        let yaml = yaml
            .flat_map(|file| file.leaves())
            .map(|(key, _)| key)
            .filter(of_capitals);
        let mut keys: Vec<String> = keyed.values.keys().cloned().chain(yaml).collect();
        keys.retain(|key| is_named(knob, key) && !key.split('.').any(|part| part == MADE));
        keys.sort();
        keys.dedup();
        only(keys.into_iter())
    }

    /// The value that the program's text gives such a key.
    pub(super) fn keyed_value(&self, knob: &StackKnob) -> Option<&CodeValue> {
        self.code.as_ref()?.keyed.values.get(&self.key_of(knob)?)
    }
}

/// The settings of a program with these files. Others that it reads are among `all`, or sought.
pub(super) fn keyed_settings(
    own: &[PythonFile<'_>],
    reading: &mut Reading,
    at: usize,
    all: &BTreeMap<String, String>,
) -> KeyedSettings {
    let option = |method: &str| merged_option(own, method);
    if let Some(around) = option("merge_from_list") {
        return KeyedSettings::of((around, ""), true, &defaults(own));
    }
    if let Some(around) = option("merge_from_dict").filter(|_| is_of_mmlab(own)) {
        let Some(path) = named(&reading.calls[at], None) else {
            return KeyedSettings::default();
        };
        let files = with_bases(reading, &path, all, mmlab_bases);
        return KeyedSettings::of((around, "="), false, &open_mmlab(&files));
    }
    let Some((flag, default)) = flag(own) else {
        return KeyedSettings::default();
    };
    let folder = reading.calls[at].folder.clone().unwrap_or_default();
    let word = named(&reading.calls[at], Some(&flag));
    let Some(word) = word.or_else(|| default.map(|name| joined(&folder, &name))) else {
        return KeyedSettings::default();
    };
    let (path, function) = word
        .split_once(':')
        .map_or((&*word, None), |(p, f)| (p, Some(f)));
    let files = with_bases(reading, path, all, config_bases);
    let values = config_dict(&files, function);
    KeyedSettings::of((format!("--{flag}."), "="), false, &values)
}

/// The path of a file of Python that words of a call name: those behind a flag, or else the only one.
fn named(call: &Call, flag: Option<&str>) -> Option<String> {
    let words = call.words.get(call.args..).unwrap_or_default();
    let texts: Vec<Option<String>> = words
        .iter()
        .map(|word| word.text.known().filter(|_| !word.maybe))
        .collect();
    let is_file = |text: &str| {
        text.split(':')
            .next()
            .is_some_and(|path| path.ends_with(".py"))
    };
    let folder = call.folder.clone().unwrap_or_default();
    let name = match flag {
        None => only(
            texts
                .into_iter()
                .flatten()
                .filter(|text| is_file(text) && !text.contains('=')),
        )?,
        Some(flag) => {
            let option = format!("--{flag}");
            let at = texts.iter().position(|text| {
                let text = text.as_deref().unwrap_or_default();
                text.split('=').next() == Some(&option)
            })?;
            let inside = texts[at]
                .as_ref()?
                .split_once('=')
                .map(|(_, value)| value.to_owned());
            inside.or_else(|| texts.get(at + 1)?.clone())?
        }
    };
    is_file(&name).then(|| joined(&folder, &name))
}

/// A file of settings and those on which it is built, the named one last.
fn with_bases<'f>(
    reading: &mut Reading,
    path: &str,
    all: &'f BTreeMap<String, String>,
    bases: impl Fn(&PythonFile<'f>) -> Vec<String>,
) -> Vec<PythonFile<'f>> {
    let mut found: Vec<PythonFile<'f>> = Vec::new();
    let mut open = vec![path.to_owned()];
    while let Some(path) = open.pop() {
        let Some((path, text)) = all.get_key_value(&path) else {
            reading.sought.insert(path);
            continue;
        };
        if found.len() >= FILES || found.iter().any(|file| file.path == path) {
            continue;
        }
        let number = reading.add_source(path, text);
        let file = PythonFile {
            content: Traced::file(number, text),
            path,
            tokens: super::python::tokens(text),
            can_change: false,
            is_of_settings: false,
            is_program: false,
        };
        let named = bases(&file);
        open.extend(named.iter().map(|name| joined(folder_of_file(path), name)));
        found.push(file);
    }
    found.reverse();
    found
}
