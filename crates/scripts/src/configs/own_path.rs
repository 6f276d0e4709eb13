//! The file of settings that a program loads by a path in its own text: `yaml.safe_load(open("conf.yaml"))`, or the default of the
//! option that names the file.

use std::collections::BTreeMap;

use super::ConfigFiles;
use crate::code_value::PythonFile;
use crate::loaded::load;
use crate::program_option::ProgramOption;
use crate::python::{PythonToken, TokenKind, assigned};
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
    let words = call.own_texts();
    let given = |option: &&ProgramOption| {
        let mut names = words.iter().map(|word| word.split('=').next());
        names.any(|name| option.forms.iter().any(|form| name == Some(form)))
    };
    let defaults = options.iter().filter(|option| !given(option));
    let defaults = defaults.map(|option| option.value.value.clone());
    let literals = own.iter().filter(|file| file.is_program).flat_map(opened);
    let paths = defaults.chain(literals).filter(names_settings);
    let mut paths: Vec<Traced> = paths.collect();
    paths.sort_by_key(Traced::text);
    paths.dedup_by_key(|path| path.text());
    let Some((path, folder)) = only(paths.into_iter()).zip(call.folder.clone()) else {
        return;
    };
    let container = call.container.clone();
    let name = joined(&folder, &path.text());
    let Some(format) = SettingsFormat::of(&name).filter(|_| container.is_none()) else {
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
    let opens = |at: usize| match at.checked_sub(2).and_then(|from| tokens.get(from..at)) {
        Some([call, bracket]) => {
            call.kind == TokenKind::Name && bracket.is("(") && reads(call.text)
        }
        _ => false,
    };
    // What is opened to be written is no settings.
    let writes = |at: usize| match tokens.get(at + 1..at + 3) {
        Some([comma, mode]) => {
            let is_mode = mode.kind == TokenKind::Text && mode.text.len() <= MODE;
            comma.is(",") && is_mode && mode.text.contains(['w', 'a'])
        }
        _ => false,
    };
    let read = (0..tokens.len()).filter(|at| opens(*at) && !writes(*at));
    let read: Vec<&PythonToken<'_>> = read.map(|at| &tokens[at]).collect();
    let by_name = read.iter().filter_map(|name| {
        let given = only(assigned(tokens, name.text, false))?;
        tokens.get(given + 2)
    });
    let literal = |token: &PythonToken<'_>| {
        let whole = file.content.slice(token.from, token.to);
        let start = token.from + whole.text().find(token.text)?;
        let text = file.content.slice(start, start + token.text.len());
        (token.kind == TokenKind::Text).then_some(text)
    };
    let direct = read.iter().copied();
    direct.chain(by_name).filter_map(literal).collect()
}
