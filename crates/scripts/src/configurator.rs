//! The variables of a program that words of its command override: `batch_size = 12`, then `exec(open('configurator.py').read())`.
//!
//! Source: nanoGPT's configurator.py, which many programs copy: `--name=value` gives a variable of the module another value of
//! the same type, and a word without `=` names a file of such assignments.

use super::declared::{DeclaredOption, Takes};
use super::literal::{is_literal, product};
use super::python::{PythonToken, TokenKind, block, line_begins, rest_of_line};

/// The variables, as options.
pub(super) fn variables<'a, 't>(tokens: &'a [PythonToken<'t>]) -> Vec<DeclaredOption<'a, 't>> {
    let Some(end) = configured_at(tokens) else {
        return Vec::new();
    };
    let mut all: Vec<_> = assignments(&tokens[..end])
        .map(|(at, value)| option(&tokens[at], value))
        .collect();
    let names: Vec<String> = all.iter().map(|o| o.name.clone()).collect();
    // What is given twice has several values.
    all.retain(|o| names.iter().filter(|name| **name == o.name).count() == 1);
    all
}

/// Where a program takes over what its words say: a statement of its own that executes the file.
fn configured_at(tokens: &[PythonToken<'_>]) -> Option<usize> {
    (0..tokens.len()).find(|at| {
        let [exec, paren, open, paren2, file, ..] = &tokens[*at..] else {
            return false;
        };
        let is_call = exec.is("exec") && paren.is("(") && open.is("open") && paren2.is("(");
        let name = file.text.rsplit('/').next().unwrap_or_default();
        is_call
            && file.kind == TokenKind::Text
            && name.starts_with("configurat")
            && block(tokens, *at).is_none()
    })
}

/// `name = 8` at the left margin: where the name stands, and the value.
pub(super) fn assignments<'a, 't>(
    tokens: &'a [PythonToken<'t>],
) -> impl Iterator<Item = (usize, &'a [PythonToken<'t>])> {
    at_the_margin(tokens)
        .filter(|(_, value)| matches!(value, [one] if is_literal(one)) || product(value).is_some())
}

/// The same of any value.
pub(super) fn at_the_margin<'a, 't>(
    tokens: &'a [PythonToken<'t>],
) -> impl Iterator<Item = (usize, &'a [PythonToken<'t>])> {
    line_begins(tokens).filter_map(|at| {
        let [name, equals, rest @ ..] = &tokens[at..] else {
            return None;
        };
        let is_one = name.kind == TokenKind::Name && equals.is("=");
        (is_one && block(tokens, at).is_none()).then_some((at, rest_of_line(rest)))
    })
}

/// An option that gives a variable another value, in one word.
fn option<'a, 't>(name: &PythonToken<'t>, value: &'a [PythonToken<'t>]) -> DeclaredOption<'a, 't> {
    DeclaredOption {
        flag: format!("--{}=", name.text),
        forms: vec![format!("--{}", name.text)],
        name: name.text.to_owned(),
        is_parameter: true,
        default: Some(value),
        takes: Takes::like(value),
        is_global: false,
        range: (name.from, value.last().map_or(name.to, |t| t.to)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::python::tokens;
    use super::*;

    #[test]
    fn variables_before_the_configurator_are_options() {
        let text = "batch_size = 12\ngrad_accum = 5 * 8\ncompile = True\nx = f(2)\nif x:\n  y = 3\nz = 1\nz = 2\n\
                    exec(open('configurator.py').read())\nlate = 4\n";
        let all = tokens(text);
        let shown = variables(&all).into_iter();
        let shown = shown.map(|o| format!("{} {} {:?}", o.name, o.flag, o.takes));
        let expected = [
            "batch_size --batch_size= Value",
            "grad_accum --grad_accum= Value",
            "compile --compile= Truth",
        ];
        assert_eq!(shown.collect::<Vec<_>>(), expected);
        assert!(variables(&tokens("a = 1\nexec(open('model.py').read())\n")).is_empty());
        assert!(variables(&tokens("a = 1\nexec(open(")).is_empty());
    }
}
