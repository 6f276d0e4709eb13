//! The constants of a program that reads no options for them: `batch_size = 8`, or `batch_size: int = 8` in a class of settings,
//! where that is the only value that the name gets.

use std::collections::BTreeMap;

use super::code_value::{CodeValue, PythonFile};
use super::declared::is_divided;
use super::python::{PythonToken, TokenKind};

/// A constant, and whether it is a batch of all GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Constant {
    pub value: CodeValue,
    pub is_global: bool,
}

/// By these names a program may give a variable any value.
const REBINDS: [&str; 3] = ["exec", "setattr", "globals"];

/// The constants of a program that trains by itself, or whose framework is `named`, by their names in small letters.
pub(super) fn constants(files: &[PythonFile<'_>], named: bool) -> BTreeMap<String, Constant> {
    let uses = |name: &str| {
        let mut all = files.iter().flat_map(|f| &f.tokens);
        all.any(|t| t.kind == TokenKind::Name && t.text == name)
    };
    let (mut found, mut several) = (BTreeMap::new(), Vec::new());
    if !(named || uses("backward")) || REBINDS.iter().any(|name| uses(name)) {
        return found;
    }
    for file in files {
        for statement in file.tokens.split(|t| t.kind == TokenKind::End) {
            let Some((name, value)) = assignment(statement) else {
                continue;
            };
            let key = name.text.to_lowercase();
            let constant = Constant {
                value: CodeValue::literal(file, value),
                is_global: is_divided(&file.tokens, name.text, false),
            };
            if found.insert(key.clone(), constant).is_some() {
                several.push(key);
            }
        }
    }
    let once = |key: &String| !several.contains(key) && assignments(files, key) == 1;
    found.retain(|key, _| once(key));
    found
}

/// `name = 8` or `name: int = 8`.
fn assignment<'s, 't>(
    statement: &'s [PythonToken<'t>],
) -> Option<(&'s PythonToken<'t>, &'s PythonToken<'t>)> {
    let (name, value) = match statement {
        [name, equals, value] if equals.is("=") => (name, value),
        [name, colon, _, equals, value] if colon.is(":") && equals.is("=") => (name, value),
        _ => return None,
    };
    let is_value = value.kind == TokenKind::Number || value.is("True") || value.is("False");
    (name.kind == TokenKind::Name && is_value).then_some((name, value))
}

/// How often a name gets a value, with or without an operator, as a variable or as an attribute.
fn assignments(files: &[PythonFile<'_>], key: &str) -> usize {
    let operators = ["+", "-", "*", "/", "%"];
    let sets = |line: &[PythonToken<'_>]| {
        let mut depth = 0_i32;
        let at = line.iter().position(|t| {
            depth += i32::from(["(", "[", "{"].iter().any(|b| t.is(b)));
            depth -= i32::from([")", "]", "}"].iter().any(|b| t.is(b)));
            depth == 0 && t.is("=")
        });
        let before = at.map_or(&[][..], |at| &line[..at]);
        let before = match before {
            [name, colon, ..] if colon.is(":") => std::slice::from_ref(name),
            all => all,
        };
        let left = before
            .iter()
            .rev()
            .skip_while(|t| operators.iter().any(|o| t.is(o)));
        left.filter(|t| t.text.to_lowercase() == key).count()
    };
    let lines = files
        .iter()
        .flat_map(|f| f.tokens.split(|t| t.kind == TokenKind::End));
    lines.map(sets).sum()
}
