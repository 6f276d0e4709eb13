//! Settings that Python text writes under keys, and that words of the command override by those keys: yacs, OpenMMLab, ml_collections.
//!
//! Rule: the text stays as it is. A key counts only where the program takes the words that would override it.

mod config_dict;
mod open_mmlab;
mod yacs;

use std::collections::BTreeMap;

use super::code_value::{CodeValue, PythonFile};
use super::python::{PythonToken, TokenKind, calls};
use super::traced::Why;
use crate::Spelling;

pub(super) use config_dict::{bases as config_bases, config_dict, flag};
pub(super) use open_mmlab::{bases as mmlab_bases, is_of_mmlab, open_mmlab};
pub(super) use yacs::defaults;

/// Most lines of a file that are read for such settings.
const MOST_LINES: usize = 2_000;

/// The settings of a program that its text writes, by their keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct KeyedSettings {
    /// What stands before and behind a key in the words that override it.
    around: (String, &'static str),
    /// Keys of capitals of its YAML files are settings, too (yacs).
    pub of_files: bool,
    pub values: BTreeMap<String, CodeValue>,
}

/// The value that a key is given last: its file, and its tokens; none where that is not a single one.
pub(super) type KeyedValues<'s, 't> =
    BTreeMap<String, Option<(&'s PythonFile<'t>, &'s [PythonToken<'t>])>>;

impl KeyedSettings {
    /// Settings whose keys stand between these in the words that override them; those of YAML files as well (`of_files`).
    pub(super) fn of(
        around: (String, &'static str),
        of_files: bool,
        found: &KeyedValues<'_, '_>,
    ) -> Self {
        let values = found.iter().filter_map(|(key, value)| {
            let (file, value) = (*value)?;
            let (first, last) = (value.first()?, value.last()?);
            let computed = || CodeValue::plain(file.computed(first.from, last.to, Why::Code));
            let value = CodeValue::written(file, value).unwrap_or_else(computed);
            Some((
                key.clone(),
                CodeValue {
                    is_own: false,
                    ..value
                },
            ))
        });
        Self {
            around,
            of_files,
            values: values.collect(),
        }
    }

    /// The words that override a key.
    pub(super) fn spelling(&self, key: &str) -> Spelling {
        Spelling::Flag(format!("{}{key}{}", self.around.0, self.around.1))
    }
}

/// The option behind which a key is given, where there is one.
pub(super) fn option_of_keys(spelling: &Spelling) -> Option<&str> {
    match spelling {
        Spelling::Flag(flag) => flag.split_once(' ').map(|(option, _)| option),
        _ => None,
    }
}

/// Whether a flag is a key of such settings: behind the option that takes it, or the only word.
pub(super) fn is_of_keys(flag: &str) -> bool {
    flag.contains(' ') || !flag.starts_with('-')
}

/// The option of which a program merges the words into its settings, with a blank behind it; nothing where they stand alone.
pub(super) fn merged_option(own: &[PythonFile<'_>], method: &str) -> Option<String> {
    let merged = own.iter().flat_map(|f| {
        let found = calls(&f.tokens, |t| t.is(method));
        found.map(move |at| &f.tokens[at + 2..])
    });
    let names = merged.filter_map(|rest| match rest {
        [_, dot, name, close, ..] if dot.is(".") && close.is(")") => Some(name.text),
        _ => None,
    });
    let names: Vec<&str> = names.collect();
    let declared = own.iter().flat_map(|f| {
        let found = calls(&f.tokens, |t| t.is("add_argument"));
        found.filter_map(move |at| f.tokens.get(at + 2))
    });
    let mut options = declared
        .filter(|t| t.kind == TokenKind::Text)
        .map(|t| t.text);
    let option =
        options.find(|o| names.contains(&&*o.trim_start_matches('-').replace('-', "_")))?;
    Some(if option.starts_with('-') {
        format!("{option} ")
    } else {
        String::new()
    })
}
