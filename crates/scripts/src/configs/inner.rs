//! Files that a key of another file names.

use std::collections::BTreeMap;

use super::own_default::{OwnDefault, own_default};
use super::{ConfigFiles, ConfigPart, MAX_DEPTH, beside, joined, settled};
use crate::recognise::ends_a_key;
use crate::settings::{SettingsEntry, SettingsFormat};
use crate::traced::Traced;
use crate::walk::{Arg, Call, FileRole, Reached, Reading, SettingsFile};
use crate::{Recognise, SettingsReader, yaml};

/// The mark by which a file leaves out what the file below it says of a section.
const REPLACES: &str = "_override_";

/// Adds the files that those of a call name, by the keys that the program and its launchers look at.
pub(crate) fn add_inner(
    reading: &mut Reading,
    at: usize,
    files: &BTreeMap<String, String>,
    recognise: &Recognise,
    launched: &[String],
) {
    let call = reading.calls[at].clone();
    let mut shelf = ConfigFiles::new(reading, files);
    let mut parts: Vec<ConfigPart> = Vec::new();
    let keys: Vec<&String> = recognise.file_keys.iter().chain(launched).collect();
    let mut given = call.settings.clone();
    match taken_unnamed(&mut shelf, &call) {
        Some(ConfigPart::File(file)) => given.push(file),
        part => parts.extend(part),
    }
    for mut file in given {
        if ends_a_key(keys.iter().copied(), &file.option) {
            file.reader = SettingsReader::Library;
        }
        let inner = keys.iter();
        parts.extend(inner.filter_map(|key| named(&mut shelf, &call, &file, key)));
        match recognise.below_key.as_deref() {
            Some(key) => below(&mut shelf, file, key, 0, &mut parts),
            None => parts.push(ConfigPart::File(file)),
        }
    }
    parts.extend(nameless(&call, &keys).map(ConfigPart::Beside));
    let (files, unread) = settled(parts);
    let call = &mut reading.calls[at];
    call.settings = files;
    for file in call
        .unread
        .iter_mut()
        .filter(|f| ends_a_key(keys.iter().copied(), &f.option))
    {
        file.reader = SettingsReader::Library;
    }
    call.unread.extend(unread);
}

/// The file that the program takes by itself, where no word names one.
fn taken_unnamed(shelf: &mut ConfigFiles<'_>, call: &Call) -> Option<ConfigPart> {
    let named = |word: &Arg| word.text.text().starts_with("--config");
    let program = call.program.as_deref().filter(|_| call.settings.is_empty());
    let program = program.filter(|_| !call.words.iter().any(named))?;
    let path = match own_default(shelf.files.get(program)?)? {
        OwnDefault::Beside(path) => beside(program, &path),
        OwnDefault::Here(path) => joined(call.folder.as_deref()?, &path),
    };
    let format = SettingsFormat::of(&path)?;
    Some(match shelf.settings(&path, format).flatten() {
        Some(file) => ConfigPart::File(file),
        None => ConfigPart::Unread(path),
    })
}

/// What options name that stand for such a key, where nothing says that it is a file of settings: a variable that is not
/// known, a name without an ending. JSON names none: it is what a file would say.
fn nameless<'c>(call: &'c Call, keys: &'c [&String]) -> impl Iterator<Item = String> + 'c {
    let words = call.texts();
    (0..words.len()).filter_map(move |at| {
        let (flag, given) = match words[at].split_once('=') {
            Some((flag, value)) => (flag, Some(value)),
            None => (words[at].as_str(), words.get(at + 1).map(String::as_str)),
        };
        let name = flag.strip_prefix("--")?.replace('-', "_");
        let value = given.filter(|value| !value.is_empty() && !value.starts_with(['-', '{']))?;
        (ends_a_key(keys.iter().copied(), &name) && SettingsFormat::of(value).is_none())
            .then(|| format!("what {flag} names ({value})"))
    })
}

/// The file that a key names, relative to where the program runs. It counts less than the one that names it.
fn named(
    shelf: &mut ConfigFiles<'_>,
    call: &Call,
    file: &SettingsFile,
    key: &str,
) -> Option<ConfigPart> {
    let entry = file.find(key)?;
    let nothing = |t: &&String| matches!(t.as_str(), "" | "null" | "~") || t.starts_with('{');
    let text = entry.text.as_ref().filter(|t| !nothing(t))?;
    let (Some(format), Some(folder)) = (SettingsFormat::of(text), call.folder.as_deref()) else {
        return Some(ConfigPart::Beside(text.clone()));
    };
    let container = call.container.as_ref();
    let path = match container.filter(|_| text.starts_with('/')) {
        Some(container) => container.outside(text),
        None => Some(joined(folder, text)),
    };
    let Some(path) = path else {
        return Some(ConfigPart::Beside(text.clone()));
    };
    if call.settings.iter().any(|f| f.path == path) {
        return None;
    }
    let Some(inner) = shelf.settings(&path, format) else {
        shelf.reading.wanted.insert(path.clone());
        return Some(ConfigPart::Beside(path));
    };
    let Some(inner) = inner else {
        return Some(ConfigPart::Beside(path));
    };
    let word = unquoted(&file.content, entry, text);
    let reached = match word.filter(|_| !file.reached.by_place()) {
        Some(word) => {
            shelf
                .reading
                .add_named(&path, &word, FileRole::Settings, container);
            Reached::Key
        }
        None => Reached::Place,
    };
    Some(ConfigPart::File(SettingsFile {
        reached,
        reader: SettingsReader::Library,
        hidden: file.hidden,
        ..inner
    }))
}

/// The bytes of a value without its quotes; None where they say more than the text, or something else, too.
fn unquoted(content: &Traced, entry: &SettingsEntry, text: &str) -> Option<Traced> {
    let whole = content.slice(entry.bytes.start, entry.bytes.end);
    let inner = whole.slice(1, whole.len().saturating_sub(1));
    let mut both = [whole, inner].into_iter();
    both.find(|word| word.text() == text)
        .filter(|_| !entry.shared)
}

/// A file and those below it, which it names relative to its own folder.
fn below(
    shelf: &mut ConfigFiles<'_>,
    file: SettingsFile,
    key: &str,
    depth: usize,
    parts: &mut Vec<ConfigPart>,
) {
    let text = file.content.text();
    let yaml = file.says.format() == SettingsFormat::Yaml;
    let Some(items) = yaml::list(&text, &[key]).filter(|_| yaml) else {
        return parts.push(ConfigPart::File(file));
    };
    // What a file leaves out of those below it is not followed key by key.
    let opaque = text.contains(REPLACES) || depth >= MAX_DEPTH || !shelf.spend(&file);
    for item in items {
        let name = item.values.into_iter().flatten().next().unwrap_or_default();
        let path = beside(&file.path, &name);
        let read = match opaque || name.is_empty() {
            true => None,
            false => shelf.settings(&path, SettingsFormat::Yaml),
        };
        match read {
            Some(Some(inner)) => below(shelf, inner, key, depth + 1, parts),
            read => {
                if read.is_none() && !opaque {
                    shelf.reading.wanted.insert(path.clone());
                }
                parts.push(ConfigPart::Unread(path));
            }
        }
    }
    parts.push(ConfigPart::File(SettingsFile {
        reached: Reached::Place,
        ..file
    }));
}
