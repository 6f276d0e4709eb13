//! Defaults of yacs: `_C.DATALOADER.NUM_WORKERS = 4`.

use std::collections::BTreeSet;

use super::{KeyedValues, MOST_LINES};
use crate::code_value::PythonFile;
use crate::python::{block, line_begins, rest_of_line};

/// The keys of capitals that the text gives a value, once and whatever the options are.
pub(in super::super) fn defaults<'s, 't>(own: &'s [PythonFile<'t>]) -> KeyedValues<'s, 't> {
    let (mut found, mut several) = (KeyedValues::new(), BTreeSet::new());
    for file in own {
        let tokens = &file.tokens;
        for at in line_begins(tokens).take(MOST_LINES) {
            let line = rest_of_line(&tokens[at..]);
            let Some(equals) = line.iter().position(|t| t.is("=")) else {
                continue;
            };
            let parts: Vec<&str> = line[..equals].iter().map(|t| t.text).collect();
            let Some(key) = key(&parts) else { continue };
            // What an option sets stands under a condition.
            let is_always = block(tokens, at).is_none_or(|(_, word)| word == "def");
            if is_always
                && found
                    .insert(key.clone(), Some((file, &line[equals + 1..])))
                    .is_some()
            {
                several.insert(key);
            }
        }
    }
    found.retain(|key, _| !several.contains(key));
    found
}

/// `A.B` of `_C . A . B`.
fn key(parts: &[&str]) -> Option<String> {
    let [_, dot, rest @ ..] = parts else {
        return None;
    };
    let is_key = |part: &str| {
        part.chars()
            .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
    };
    let fits = rest.iter().enumerate().all(|(at, part)| match at % 2 {
        0 => is_key(part),
        _ => *part == ".",
    });
    (*dot == "." && rest.len() >= 3 && fits).then(|| rest.concat())
}
