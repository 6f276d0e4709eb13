//! The number of micro batches of an epoch, as programs write it.

use std::collections::BTreeSet;

use super::super::python::{callee, line};
use super::computed::target_of;
use super::lines::shows;
use super::{LoopProgram, PythonToken, TokenKind, bracket};

/// Calls that keep how many there are.
const KEEPS: [&str; 3] = ["list", "tuple", "tqdm"];

/// `len(train_loader)`, whatever the name of what loads the data is.
pub(super) fn is_length(
    program: &LoopProgram<'_, '_>,
    tokens: &[PythonToken<'_>],
    at: usize,
    loaders: &BTreeSet<&str>,
) -> bool {
    let path = counted(tokens, at);
    let names = path.iter().filter(|t| !t.is("."));
    let names: Vec<&str> = names.map(|t| t.text).collect();
    let has = |part: &str| names.iter().any(|name| name.to_lowercase().contains(part));
    let of_training = !["eval", "val", "test"].iter().any(|part| has(part));
    let loads = |name: &str| loaders.contains(name) || program.loads(name);
    let is_loader = |name: &&str| {
        // `self.train = loader`
        let made = program.made_by(name);
        let again = |value: &[PythonToken<'_>]| matches!(value, [one] if loads(one.text));
        loads(name) || made.iter().any(|(.., value)| again(value))
    };
    of_training && (has("loader") || names.last().is_some_and(is_loader))
}

/// What a call counts: `len(a.b)`, `len(list(a.b))`, `sum(1 for _ in a.b)`, `a.b.__len__()`.
fn counted<'a, 't>(tokens: &'a [PythonToken<'t>], at: usize) -> &'a [PythonToken<'t>] {
    let is_path = |t: &PythonToken<'_>| t.kind == TokenKind::Name || t.is(".");
    let leads = |from: usize| {
        let rest = tokens.get(from..).unwrap_or_default();
        let length = rest.iter().take_while(|t| is_path(t)).count();
        &rest[..length]
    };
    match tokens.get(at..).unwrap_or_default() {
        [len, open, name, again, ..]
            if len.is("len") && open.is("(") && again.is("(") && KEEPS.contains(&name.text) =>
        {
            leads(at + 4)
        }
        [len, open, ..] if len.is("len") && open.is("(") => leads(at + 2),
        [sum, open, one, each, _, within, ..]
            if sum.is("sum")
                && open.is("(")
                && one.is("1")
                && each.is("for")
                && within.is("in") =>
        {
            leads(at + 6)
        }
        [len, ..] if len.is("__len__") => {
            let before = tokens[..at].iter().rev();
            let length = before.take_while(|t| is_path(t) && !t.is("def")).count();
            &tokens[at - length..at]
        }
        _ => &[],
    }
}

/// Whether a length is put into a table whose name sounds like what is shown, and is taken out where nothing is: `info = {"steps":
/// len(loader)}`.
pub(super) fn is_told(
    program: &LoopProgram<'_, '_>,
    tokens: &[PythonToken<'_>],
    at: usize,
) -> bool {
    let own = line(tokens, at);
    let Some(name) = target_of(own).filter(|_| !shows(&own[1..])) else {
        return false;
    };
    let keyed = bracket(tokens, at).is_some_and(|open| tokens[open].is("{"));
    let mut places = program.places(name).iter();
    let excused = own.iter().any(|t| program.is_accumulation(t));
    keyed
        && !excused
        && shows(&own[..1])
        && places.any(|(file, at)| {
            let tokens = program.files[*file];
            let own = line(tokens, *at);
            let taken = tokens.get(at + 1).is_some_and(|t| t.is("["));
            taken
                && callee(tokens, *at).is_some()
                && !own.iter().any(|t| !t.is(name) && shows(&[*t]))
        })
}

/// Whether a length only says how far an epoch is: `i / len(loader)`, `i == len(loader) - 1`, `range(len(loader))`.
pub(super) fn is_progress(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let is = |at: Option<usize>, text: &str| at.is_some_and(|at| tokens[at].is(text));
    let (one, two) = (at.checked_sub(1), at.checked_sub(2));
    let share = is(one, "/") && !is(two, "/");
    let same = is(one, "=") && is(two, "=");
    let callee = callee(tokens, at);
    let loops =
        callee.is_some_and(|at| ["range", "enumerate", "str", "format"].contains(&tokens[at].text));
    share || same || loops
}
