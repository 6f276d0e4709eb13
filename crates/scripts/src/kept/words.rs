//! What the words of an expression say: names, calls, and what has no graph.

use super::super::python::{PythonToken, TokenKind, calls, calls_backward};
use super::lines::{behind_bracket, dotted};
use oomctl_base::word_list;

/// Methods and functions whose results have no graph.
const FREES: [&str; 12] =
    word_list("item detach detach_ data numpy tolist argmax argsort int long byte bool");

/// Functions of Python whose results are no tensors.
const NUMBERS: [&str; 3] = ["float", "int", "str"];

/// Whether an expression lets go of the graph, as far as its words tell.
pub(super) fn frees(value: &[PythonToken<'_>]) -> bool {
    let attribute = |at: usize| at > 0 && value[at - 1].is(".") && FREES.contains(&value[at].text);
    let compares = |at: usize| {
        let sign = value[at].is("<") || value[at].is(">");
        sign || value[at].is("=") && value.get(at + 1).is_some_and(|t| t.is("="))
    };
    let number = |at: usize| {
        let called = value.get(at + 1).is_some_and(|t| t.is("("));
        let bare = at == 0 || !value[at - 1].is(".");
        called && bare && NUMBERS.contains(&value[at].text)
    };
    (0..value.len()).any(|at| attribute(at) || compares(at) || number(at))
}

/// Whether a name says that it is a loss.
pub(super) fn is_loss(name: &str) -> bool {
    name.to_lowercase().contains("loss")
}

/// The dotted names of an expression, without the methods that are called.
pub(super) fn names(value: &[PythonToken<'_>]) -> Vec<String> {
    let found = (0..value.len()).filter_map(|at| {
        let (path, end) = dotted(value, at)?;
        let called = value.get(end).is_some_and(|t| t.is("("));
        match path.rsplit_once('.') {
            Some((object, _)) if called => Some(object.to_owned()),
            _ => Some(path),
        }
    });
    found.collect()
}

/// `list.append(value)`: the list and the value.
pub(super) fn appended<'a, 't>(
    line: &'a [PythonToken<'t>],
) -> Option<(String, &'a [PythonToken<'t>])> {
    called(line, &["append", "extend"])
}

/// `object.method(value)` where the method has one of these names; what lies in brackets behind the object is left out.
pub(super) fn called<'a, 't>(
    line: &'a [PythonToken<'t>],
    methods: &[&str],
) -> Option<(String, &'a [PythonToken<'t>])> {
    let (path, end) = dotted(line, 0)?;
    let (object, method, open) = match path.rsplit_once('.') {
        Some((object, method)) if line.get(end)?.is("(") => (object.to_owned(), method, end),
        _ if line.get(end)?.is("[") => {
            let behind = behind_bracket(line, end);
            let method = line.get(behind + 1).filter(|t| t.kind == TokenKind::Name)?;
            (path, method.text, behind + 2)
        }
        _ => return None,
    };
    let open = line.get(open).filter(|t| t.is("(")).map(|_| open)?;
    let close = behind_bracket(line, open);
    let value = &line[open + 1..close.saturating_sub(1).max(open + 1)];
    (methods.contains(&method) && close == line.len() && !value.is_empty())
        .then_some((object, value))
}

/// Whether a line computes gradients, clears them, or takes a step of an optimizer.
pub(super) fn trains(line: &[PythonToken<'_>]) -> bool {
    let steps = |at: usize| {
        let object = at.checked_sub(2).map(|at| line[at].text.to_lowercase());
        line[at].is("zero_grad") || object.is_some_and(|name| name.contains("opt"))
    };
    let called = calls(line, |t| t.is("zero_grad") || t.is("step"));
    calls_backward(line) || called.into_iter().any(steps)
}
