//! What keeps tensors for others: a buffer that stores what it is handed, and Lightning's hook for the end of an epoch.

use std::collections::BTreeSet;

use super::lines::{CodeText, GivenValue, dotted};
use super::words::{appended, called, frees, is_loss, names};
use crate::python::{PythonToken, TokenKind};
use oomctl_base::word_list;

/// Methods that store.
const STORES: [&str; 8] = word_list("push append add store insert put remember save");

/// Parts of the names of what stores.
const STORED: [&str; 3] = word_list("buffer memory replay");

/// What begins an empty list, or one of places.
const LISTS: [&str; 5] = word_list("[ { list deque dict");

/// What makes tensors of other data, or other data of tensors.
const CONVERTS: [&str; 9] =
    word_list("from_numpy FloatTensor LongTensor as_tensor tensor cpu numpy array asarray");

/// What Lightning before 2.0 hands all that the steps of an epoch returned, each detached and on its GPU
/// (`loops/epoch/training_epoch_loop.py`). Lightning 2.0 removed it (Lightning#16520).
const EPOCH_END: &str = "training_epoch_end";

/// Names of numbers that a step returns.
const NUMBERS: [&str; 5] = word_list("loss acc accuracy metric log");

/// Whether an object is named after what stores.
fn is_store(name: &str) -> bool {
    let name = name.to_lowercase();
    STORED.iter().any(|part| name.contains(part))
}

fn converts(tokens: &[PythonToken<'_>]) -> bool {
    let name = |t: &&PythonToken<'_>| t.kind == TokenKind::Name;
    (tokens.iter().filter(name)).any(|t| CONVERTS.contains(&t.text))
}

/// The method by which a line hands a buffer values, as they are: `self.replay_buffer.push(state, action)`.
pub(super) fn handed<'t>(line: &[PythonToken<'t>]) -> Option<&'t str> {
    let (object, value) = called(line, &STORES)?;
    let last = object.rsplit('.').next().unwrap_or(&object);
    let method = line.iter().rfind(|t| STORES.contains(&t.text))?;
    (is_store(last) && !frees(value) && !converts(value)).then_some(method.text)
}

/// Whether a line of a class of that name stores what its method is handed, and somebody hands it values by one of these methods.
pub(super) fn stores(methods: &BTreeSet<&str>, text: &CodeText<'_, '_>, at: usize) -> bool {
    let line = &text.lines[at];
    let Some(function) = line.function else {
        return false;
    };
    let Some(class) = class_of(text, function) else {
        return false;
    };
    let given = GivenValue::read(line.tokens).filter(|g| !g.adds && g.targets.len() == 1);
    let given = given.map(|g| (g.targets[0].clone(), g.value));
    let Some((field, value)) = given.or_else(|| appended(line.tokens)) else {
        return false;
    };
    let parameters = names(text.lines[function].tokens);
    let is_handed = names(value).iter().any(|name| parameters.contains(name));
    let of_class = || text.below(class).map(|at| text.lines[at].tokens);
    let begins_empty = of_class().filter_map(GivenValue::read).any(|g| {
        let first = g.value.first().is_some_and(|t| LISTS.contains(&t.text));
        let path = || dotted(g.value, 0).is_some_and(|(path, _)| path.ends_with(".deque"));
        g.targets.contains(&field) && (first || path())
    });
    let of_tensors = text
        .lines
        .iter()
        .flat_map(|l| l.tokens)
        .any(|t| t.is("torch"));
    methods.contains(text.name_of(function))
        && field.starts_with("self.")
        && is_handed
        && begins_empty
        && of_tensors
        && !frees(value)
        && !of_class().any(converts)
}

/// The line of the class around a method, where its name is of what stores.
fn class_of(text: &CodeText<'_, '_>, function: usize) -> Option<usize> {
    let class = text.heads(function).next()?;
    let tokens = text.lines[class].tokens;
    let named = tokens.get(1).is_some_and(|name| is_store(name.text));
    (tokens[0].is("class") && named).then_some(class)
}

/// Whether a line begins Lightning's hook that has the outputs of all steps kept, and a step returns more than numbers.
pub(super) fn keeps_outputs(text: &CodeText<'_, '_>, at: usize) -> bool {
    let tokens = text.lines[at].tokens;
    if !tokens[0].is("def") || text.name_of(at) != EPOCH_END {
        return false;
    }
    let Some(class) = text.heads(at).next() else {
        return false;
    };
    let method = |name: &str| {
        let mut lines = text.below(class);
        lines.find(|at| text.lines[*at].tokens[0].is("def") && text.name_of(*at) == name)
    };
    method("training_step").is_some_and(|step| returns_more(text, step, &method, true))
}

/// Whether a method returns a dictionary with more than numbers, itself or by another method that it returns.
fn returns_more(
    text: &CodeText<'_, '_>,
    of: usize,
    method: &dyn Fn(&str) -> Option<usize>,
    first: bool,
) -> bool {
    let lines = text.lines_of(Some(of)).into_iter();
    let mut returned = lines
        .map(|at| text.lines[at].tokens)
        .filter(|t| t[0].is("return"));
    returned.any(|line| {
        let value = &line[1..];
        if value.first().is_some_and(|t| t.is("{")) {
            return holds_more(value);
        }
        let path = dotted(value, 0).filter(|(_, end)| value.get(*end).is_some_and(|t| t.is("(")));
        let called = path.and_then(|(path, _)| match path.as_str() {
            "self" => method("forward"),
            path => method(path.strip_prefix("self.")?),
        });
        first && called.is_some_and(|of| returns_more(text, of, method, false))
    })
}

/// Whether a dictionary has an entry that is named like no number and is left as it is: `"x": x`.
fn holds_more(dictionary: &[PythonToken<'_>]) -> bool {
    let parts = dictionary[1..].split(|t| t.is(","));
    let mut entries = parts.filter_map(|part| match part {
        [key, colon, value @ ..] if key.kind == TokenKind::Text && colon.is(":") => {
            Some((key.text.to_lowercase(), value))
        }
        _ => None,
    });
    entries.any(|(key, value)| {
        let number = is_loss(&key) || NUMBERS.iter().any(|word| key.contains(word));
        let plain = value.first().is_some_and(|t| t.kind == TokenKind::Name);
        plain && !number && !frees_memory(value)
    })
}

fn frees_memory(value: &[PythonToken<'_>]) -> bool {
    let moved = value.iter().any(|t| t.is("cpu") || t.is("item"));
    moved
        || value
            .iter()
            .any(|t| t.is("len") || t.is("float") || t.is("int"))
}
