//! The file of settings that a program loads by a path in its own text: `yaml.safe_load(open("conf.yaml"))`, or the default of the
//! option that names the file.

use std::collections::BTreeMap;

use super::ConfigFiles;
use crate::code_value::{CodeValue, PythonFile};
use crate::given_keys::GivenKeys;
use crate::loaded::load;
use crate::program_option::ProgramOption;
use crate::python::{PythonToken, TokenKind, argument, arguments, assigned, calls};
use crate::recognise::is_of_settings;
use crate::settings::SettingsFormat;
use crate::traced::Traced;
use crate::walk::{FileRole, Reached, Reading, SettingsFile, joined};
use oomctl_base::{only, word_list};

/// Parts of the names of calls that take the path of a file which is read, and of those that write one.
const READS: [&str; 5] = word_list("open load read path from_file");
const WRITES: [&str; 4] = word_list("save dump write store");

/// Longest mode of `open` (`w+b`).
const MODE: usize = 3;

/// Adds the file to a call of which no word names one. Of several that the text names none is taken.
pub(crate) fn add_own_path(
    reading: &mut Reading,
    at: usize,
    files: &BTreeMap<String, String>,
    own: &[PythonFile<'_>],
    options: &[ProgramOption],
) {
    let call = &reading.calls[at];
    let is_named = !call.settings.is_empty() || !call.unread.is_empty() || !call.config.is_empty();
    if is_named || !load(own) {
        return;
    }
    let given = GivenKeys::of(&call.own_texts());
    let defaults = options
        .iter()
        .filter(|option| !option.forms.iter().any(|form| given.has(form)));
    let defaults = defaults.map(|option| option.value.value.clone());
    let literals = own.iter().filter(|file| file.is_program).flat_map(opened);
    let paths = defaults.chain(literals).filter(names_settings);
    let mut paths: Vec<Traced> = paths.collect();
    paths.sort_by_key(Traced::text);
    paths.dedup_by_key(|path| path.text());
    let Some((path, folder)) = only(paths.into_iter()).zip(call.folder.clone()) else {
        return;
    };
    let is_outside = call.container.is_none();
    let name = joined(&folder, &path.text());
    let Some(format) = SettingsFormat::of(&name).filter(|_| is_outside) else {
        return;
    };
    let mut shelf = ConfigFiles::new(reading, files);
    let Some(Some(file)) = shelf.settings(&name, format) else {
        return;
    };
    let can_change = own.iter().any(|file| file.is_program && file.can_change);
    let reached = match can_change && path.place().is_some() {
        true => Reached::Word,
        false => Reached::Place,
    };
    if reached == Reached::Word {
        reading.add_named(&name, &path, FileRole::Settings, None);
    }
    let file = SettingsFile { reached, ..file };
    reading.calls[at].settings.push(file);
}

/// Whether a value is the path of settings. JSON may be data, unless its name says otherwise.
fn names_settings(path: &Traced) -> bool {
    let Some(text) = path.known() else {
        return false;
    };
    match SettingsFormat::of(&text) {
        Some(SettingsFormat::Json) => is_of_settings(SettingsFormat::stem(&text)),
        format => format.is_some(),
    }
}

/// Whether a call reads settings, as far as its name says.
fn reads(name: &str) -> bool {
    let name = name.to_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    !has(&WRITES) && (has(&READS) || is_of_settings(&name))
}

/// The literals that a text opens: as they stand in the call, or by the one name that they are given.
fn opened(file: &PythonFile<'_>) -> Vec<Traced> {
    let tokens = &file.tokens;
    let read = calls(tokens, |t| reads(t.text)).filter_map(|at| {
        let given = arguments(&tokens[at + 2..]);
        let writes = argument(&given, "mode", 1).is_some_and(is_of_writing);
        match given.first() {
            Some([path]) if !writes => Some(path),
            _ => None,
        }
    });
    let literal = read.filter_map(|path| match path.kind {
        TokenKind::Text => Some(path),
        _ => alone(&tokens[only(assigned(tokens, path.text, false))? + 2..]),
    });
    let literal = literal.filter(|path| path.kind == TokenKind::Text);
    literal
        .map(|path| CodeValue::literal(file, path).value)
        .collect()
}

/// Whether a mode of `open` is one to write.
fn is_of_writing(mode: &[PythonToken<'_>]) -> bool {
    let text = mode.last().filter(|t| t.kind == TokenKind::Text);
    text.is_some_and(|t| t.text.len() <= MODE && t.text.contains(['w', 'a']))
}

/// The first token, where nothing of its value follows.
fn alone<'a, 't>(tokens: &'a [PythonToken<'t>]) -> Option<&'a PythonToken<'t>> {
    let (first, rest) = tokens.split_first()?;
    let ends = |t: &PythonToken<'_>| {
        t.kind == TokenKind::End || [",", ")", ";"].iter().any(|sign| t.is(sign))
    };
    rest.first().is_none_or(ends).then_some(first)
}
