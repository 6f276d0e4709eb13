//! Settings of OpenMMLab: a file of Python whose variables are dictionaries, built on those in `_base_`.
//!
//! Source: mmengine 0.10 `config/config.py` (`_merge_a_into_b`: dictionaries are merged unless they say `_delete_=True`).

use super::{KeyedValues, MOST_LINES};
use crate::code_value::PythonFile;
use crate::configurator::at_the_margin;
use crate::python::{PythonToken, TokenKind, arguments};

/// The variable with the files on which one is built.
const BASES: &str = "_base_";
/// The entry of a dictionary that takes the place of the one below it.
const DELETE: &str = "_delete_";
/// Dictionaries inside one another that are read.
const MAX_DEPTH: usize = 16;

/// Whether a program reads such settings.
pub(in super::super) fn is_of_mmlab(own: &[PythonFile<'_>]) -> bool {
    let mut all = own.iter().flat_map(|file| file.tokens.windows(3));
    all.any(|w| w[0].is("Config") && w[1].is(".") && w[2].is("fromfile"))
}

/// The files on which a file is built, beside it. Those of an installed package are not here.
pub(in super::super) fn bases(file: &PythonFile<'_>) -> Vec<String> {
    let given = at_the_margin(&file.tokens).find(|(at, _)| file.tokens[*at].is(BASES));
    let names = given.iter().flat_map(|(_, value)| value.iter());
    let names = names.filter(|t| t.kind == TokenKind::Text && !t.text.contains("::"));
    names.map(|t| t.text.to_owned()).collect()
}

/// The values of all keys, those of the last file before the others.
pub(in super::super) fn open_mmlab<'s, 't>(files: &'s [PythonFile<'t>]) -> KeyedValues<'s, 't> {
    let mut found = KeyedValues::new();
    for file in files {
        for (at, value) in at_the_margin(&file.tokens).take(MOST_LINES) {
            put(
                &mut found,
                file,
                file.tokens[at].text.to_owned(),
                (value, 0),
            );
        }
        // A variable of the same file stands for its value.
        let named: Vec<_> = found
            .iter()
            .filter_map(|(key, value)| match value {
                Some((_, [one])) if one.kind == TokenKind::Name => {
                    Some((key.clone(), found.get(one.text)?.as_ref().copied()?))
                }
                _ => None,
            })
            .collect();
        found.extend(named.into_iter().map(|(key, value)| (key, Some(value))));
    }
    found
}

fn put<'s, 't>(
    found: &mut KeyedValues<'s, 't>,
    file: &'s PythonFile<'t>,
    key: String,
    (value, depth): (&'s [PythonToken<'t>], usize),
) {
    let inner = match value {
        [dict, open, rest @ ..] if dict.is("dict") && open.is("(") => rest,
        [open, rest @ ..] if open.is("{") => rest,
        _ => {
            found.insert(key, Some((file, value)));
            return;
        }
    };
    let entries = arguments(inner);
    if depth >= MAX_DEPTH {
        return;
    }
    if entries.iter().any(|entry| entry[0].text == DELETE) {
        let within = format!("{key}.");
        found.retain(|other, _| !other.starts_with(&within));
    }
    for entry in entries {
        if let [name, is, value @ ..] = entry
            && (is.is("=") || is.is(":"))
        {
            put(
                found,
                file,
                format!("{key}.{}", name.text),
                (value, depth + 1),
            );
        }
    }
}
