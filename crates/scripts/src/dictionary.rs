//! A dictionary of settings that a program writes out and looks up: `config = {"batch_size": 8}`, then `config["batch_size"]`.

use super::code_value::{CodeValue, PythonFile};
use super::constants::{
    Constant, carries, is_aside, is_fixed_here, is_plain, may_rebind, runs_aside, trains,
};
use super::declared::is_by_parts;
use super::loaded::load;
use super::python::{PythonToken, TokenKind, arguments, statements};

/// Methods by which a dictionary gets other values.
const CHANGES: [&str; 4] = ["update", "setdefault", "pop", "__setitem__"];

/// An entry of a dictionary that is written out.
struct Entry<'s, 't> {
    file: &'s PythonFile<'t>,
    /// The name of the dictionary.
    of: &'t str,
    key: &'t str,
    value: &'s PythonToken<'t>,
}

/// A place at which a value is looked up: the name before the key, and what follows.
struct Lookup<'s, 't> {
    of: &'t str,
    line: &'s [PythonToken<'t>],
    rest: &'s [PythonToken<'t>],
}

/// The entries that training looks up and that nothing else gives a value, by key.
pub(super) fn entries<'t>(files: &[PythonFile<'t>]) -> Vec<(&'t str, Constant)> {
    let trains = |f: &PythonFile<'_>| trains(&f.tokens);
    // Settings of a file may take the dictionary's place.
    if load(files) || may_rebind(files) || !files.iter().any(trains) {
        return Vec::new();
    }
    let all: Vec<Entry<'_, 't>> = files.iter().flat_map(written).collect();
    let is_single = |entry: &&Entry<'_, '_>| {
        let same = all.iter().filter(|other| other.key == entry.key);
        same.count() == 1 && keyed(files, entry.key) <= 1
    };
    all.iter()
        .filter(is_single)
        .filter_map(|entry| Some((entry.key, constant(files, entry)?)))
        .collect()
}

/// The entries with a plain value of the dictionaries in a file.
fn written<'s, 't>(file: &'s PythonFile<'t>) -> Vec<Entry<'s, 't>> {
    let tokens = &file.tokens;
    let of = |at: usize| match &tokens[at..] {
        [name, equals, open, rest @ ..] if equals.is("=") && open.is("{") => Some((name, rest)),
        [name, equals, dict, open, rest @ ..]
            if equals.is("=") && dict.is("dict") && open.is("(") =>
        {
            Some((name, rest))
        }
        _ => None,
    };
    let dictionaries = (0..tokens.len()).filter(|at| is_fixed_here(file, *at));
    let dictionaries = dictionaries
        .filter_map(of)
        .filter(|(name, _)| !is_aside(name.text));
    let entries = dictionaries.flat_map(|(name, rest)| {
        arguments(rest).into_iter().filter_map(|entry| match entry {
            [key, is, value] if is.is(":") && key.kind == TokenKind::Text || is.is("=") => {
                is_plain(value).then_some(Entry {
                    file,
                    of: name.text,
                    key: key.text,
                    value,
                })
            }
            _ => None,
        })
    });
    entries.collect()
}

/// How often a key stands in braces with a value, or is given one later.
fn keyed(files: &[PythonFile<'_>], key: &str) -> usize {
    let is_key = |t: &PythonToken<'_>| t.kind == TokenKind::Text && t.text == key;
    let gives = |tokens: &[PythonToken<'_>], at: usize| match &tokens[at..] {
        [text, colon, ..] if is_key(text) => colon.is(":"),
        [open, text, close, rest @ ..] if open.is("[") && is_key(text) => {
            close.is("]") && is_given(rest)
        }
        _ => false,
    };
    let in_file = |f: &PythonFile<'_>| {
        (0..f.tokens.len())
            .filter(|at| gives(&f.tokens, *at))
            .count()
    };
    files.iter().map(in_file).sum()
}

/// Whether `=` follows, or an operator with it.
fn is_given(rest: &[PythonToken<'_>]) -> bool {
    let operators = ["+", "-", "*", "/", "%", "|"];
    let mut rest = rest
        .iter()
        .skip_while(|t| operators.iter().any(|o| t.is(o)));
    rest.next().is_some_and(|t| t.is("=")) && !rest.next().is_some_and(|t| t.is("="))
}

fn constant(files: &[PythonFile<'_>], entry: &Entry<'_, '_>) -> Option<Constant> {
    let found: Vec<Lookup<'_, '_>> = files.iter().flat_map(|f| lookups(f, entry.key)).collect();
    let mut names: Vec<&str> = found.iter().map(|l| l.of).collect();
    names.push(entry.of);
    let is_changed = |f: &PythonFile<'_>| {
        let mut all = f.tokens.windows(3);
        let by_call =
            all.any(|w| names.contains(&w[0].text) && w[1].is(".") && CHANGES.contains(&w[2].text));
        by_call
            || names
                .iter()
                .any(|name| given(&f.tokens, name) > usize::from(*name == entry.of))
    };
    let trains = |l: &Lookup<'_, '_>| !runs_aside(l.line);
    if files.iter().any(is_changed) || !found.iter().any(trains) {
        return None;
    }
    let value = CodeValue::literal(entry.file, entry.value);
    let mut lines = files.iter().flat_map(|f| statements(&f.tokens));
    let stays = lines.any(|line| carries(line, entry.key, true));
    Some(Constant {
        is_global: found.iter().any(|l| is_by_parts(l.rest)),
        value: CodeValue {
            is_own: value.is_own && !stays,
            ..value
        },
    })
}

/// Where a file looks a key up: `config["key"]`, `config.get("key")`.
fn lookups<'s, 't>(file: &'s PythonFile<'t>, key: &str) -> Vec<Lookup<'s, 't>> {
    let lines = statements(&file.tokens);
    let of_line = |line: &'s [PythonToken<'t>]| {
        (0..line.len()).filter_map(move |at| {
            let (found, rest) = match &line[at..] {
                [name, open, found, close, rest @ ..] if open.is("[") && close.is("]") => {
                    (found, (name, rest))
                }
                [name, dot, get, open, found, rest @ ..]
                    if dot.is(".") && get.is("get") && open.is("(") =>
                {
                    (found, (name, rest))
                }
                _ => return None,
            };
            let (name, rest) = rest;
            let is = found.kind == TokenKind::Text && found.text == key;
            (is && name.kind == TokenKind::Name).then_some(Lookup {
                of: name.text,
                line,
                rest,
            })
        })
    };
    lines.flat_map(of_line).collect()
}

/// How often a name is given a value, as an argument of a function not counted: what is looked up in it says whose it is.
fn given(tokens: &[PythonToken<'_>], name: &str) -> usize {
    let mut depth = 0_usize;
    let mut count = 0;
    for (at, token) in tokens.iter().enumerate() {
        depth = token.depth_after(depth);
        let is_name = depth == 0 && token.is(name);
        count += usize::from(is_name && is_given(&tokens[at + 1..]));
    }
    count
}
