//! Settings of ml_collections: a function that fills a `ConfigDict`, named behind the file (`--config=lab.py:small`).
//!
//! Source: ml_collections 1.1 `config_flags.py`: the text behind the colon is handed to `get_config`, which programs let choose the
//! function of that name.

use std::collections::BTreeMap;

use super::KeyedValues;
use crate::code_value::PythonFile;
use crate::python::{
    PythonToken, TokenKind, arguments, block, calls, definition, line_begins, lines_in,
    rest_of_line,
};

/// The call that declares the flag.
const DEFINES: &str = "DEFINE_config_file";
/// The function that makes the settings.
const MAKES: &str = "get_config";
/// Functions that call one another.
const MAX_CALLS: usize = 8;

/// The flag that names the file, and the file that it names by default.
pub(in super::super) fn flag(own: &[PythonFile<'_>]) -> Option<(String, Option<String>)> {
    own.iter().find_map(|file| {
        let at = calls(&file.tokens, |t| t.is(DEFINES)).next()?;
        let all = arguments(&file.tokens[at + 2..]);
        let text = |value: &&[PythonToken<'_>]| match value {
            [.., one] if one.kind == TokenKind::Text => Some(one.text.to_owned()),
            _ => None,
        };
        let default = all
            .get(1)
            .and_then(text)
            .filter(|name| name.ends_with(".py"));
        Some((text(all.first()?)?, default))
    })
}

/// Files beside one that it loads by their names, or imports.
pub(in super::super) fn bases(file: &PythonFile<'_>) -> Vec<String> {
    let named = file
        .tokens
        .iter()
        .filter(|t| t.kind == TokenKind::Text && t.text.ends_with(".py"));
    let named = named.map(|t| t.text.to_owned());
    // `default.get_config()`
    let called = file
        .tokens
        .windows(3)
        .filter(|w| w[1].is(".") && w[2].is(MAKES));
    let called = called.map(|w| format!("{}.py", w[0].text));
    named.chain(called).collect()
}

/// The values of all keys that a function gives, `get_config` where none is named.
pub(in super::super) fn config_dict<'s, 't>(
    files: &'s [PythonFile<'t>],
    function: Option<&str>,
) -> KeyedValues<'s, 't> {
    let mut found = KeyedValues::new();
    let Some(file) = files.last() else {
        return found;
    };
    let named = function.filter(|name| declared(file, name).is_some());
    // A text that chooses in another way is not followed.
    if function.is_none() || named.is_some() {
        fill(&mut found, files, (file, named.unwrap_or(MAKES)), 0);
    }
    found
}

fn declared(file: &PythonFile<'_>, name: &str) -> Option<usize> {
    let tokens = &file.tokens;
    line_begins(tokens).find(|at| {
        let line = definition(&tokens[*at..]);
        line.is_some_and(|line| line.get(1).is_some_and(|t| t.is(name)))
    })
}

fn fill<'s, 't>(
    found: &mut KeyedValues<'s, 't>,
    files: &'s [PythonFile<'t>],
    (file, name): (&'s PythonFile<'t>, &str),
    depth: usize,
) {
    let Some(begin) = declared(file, name).filter(|_| depth < MAX_CALLS) else {
        return;
    };
    let tokens = &file.tokens;
    // Names that stand for the settings or for a section of them.
    let mut sections: BTreeMap<&str, String> = BTreeMap::new();
    for at in lines_in(tokens, begin) {
        let line = rest_of_line(&tokens[at..]);
        let is_always = block(tokens, at).is_some_and(|(of, word)| of == begin || word == "with");
        let parts: Vec<&[PythonToken<'t>]> = line.split(|t| t.is("=")).collect();
        let [targets @ .., value] = &parts[..] else {
            continue;
        };
        let keys: Vec<String> = targets
            .iter()
            .filter_map(|target| key(&sections, target))
            .collect();
        let alone = targets.iter().filter_map(|target| match target {
            [one] => Some(one.text),
            _ => None,
        });
        if is_made(value) {
            let section = keys
                .iter()
                .find(|key| !key.is_empty())
                .cloned()
                .unwrap_or_default();
            sections.extend(alone.map(|name| (name, section.clone())));
            continue;
        }
        if let Some((other, function)) =
            made_by(files, file, value).filter(|_| is_always && keys.is_empty())
        {
            fill(found, files, (other, function), depth + 1);
            sections.extend(alone.map(|name| (name, String::new())));
            continue;
        }
        // What another key holds then.
        let copied = key(&sections, value).and_then(|from| found.get(&from).cloned());
        let value = copied.unwrap_or(Some((file, *value)));
        for key in keys {
            found.insert(key, value.filter(|_| is_always));
        }
    }
}

/// The key of `config.a.b`, where its first name stands for settings.
fn key(sections: &BTreeMap<&str, String>, target: &[PythonToken<'_>]) -> Option<String> {
    let (first, rest) = target.split_first()?;
    let section = sections.get(first.text)?;
    let is_path = rest
        .chunks(2)
        .all(|pair| matches!(pair, [dot, name] if dot.is(".") && name.kind == TokenKind::Name));
    let inner = rest.iter().skip(1).step_by(2).map(|t| t.text);
    let parts = std::iter::once(section.as_str())
        .filter(|s| !s.is_empty())
        .chain(inner);
    is_path.then(|| parts.collect::<Vec<_>>().join("."))
}

/// Whether a value is an empty `ConfigDict`.
fn is_made(value: &[PythonToken<'_>]) -> bool {
    matches!(value, [.., name, open, close] if name.is("ConfigDict") && open.is("(") && close.is(")"))
}

/// The function that makes the settings: `other()`, `base.get_config()`.
fn made_by<'s, 't>(
    files: &'s [PythonFile<'t>],
    file: &'s PythonFile<'t>,
    value: &[PythonToken<'t>],
) -> Option<(&'s PythonFile<'t>, &'t str)> {
    match value {
        [name, open, ..] if open.is("(") => declared(file, name.text).map(|_| (file, name.text)),
        [module, dot, name, open, ..] if dot.is(".") && open.is("(") => {
            let wanted = format!("/{}.py", module.text);
            let mut others = files.iter();
            let other = others.find(|other| format!("/{}", other.path).ends_with(&wanted))?;
            declared(other, name.text).map(|_| (other, name.text))
        }
        _ => None,
    }
}
