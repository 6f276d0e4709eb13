//! Variables that a function has for itself: its parameters, and names to which it gives a value without `global`.

use super::code_value::PythonFile;
use super::python::{
    PythonToken, TokenKind, assignment, definition, functions_around, line, lines_in, statements,
};

/// The statements of a file in which a name stands, without those of functions that have a variable of their own with this name,
/// but for the function `own`.
pub(super) fn lines_of<'s, 't>(
    file: &'s PythonFile<'t>,
    name: &str,
    own: Option<(&str, usize)>,
) -> impl Iterator<Item = &'s [PythonToken<'t>]> {
    let tokens = &file.tokens;
    let own = own
        .filter(|(path, _)| *path == file.path)
        .map(|(_, begin)| begin);
    let lower = name.to_lowercase();
    statements(tokens).filter(move |line| {
        let mut long = line.iter().filter(|t| t.text.len() >= lower.len());
        let is_named = long.any(|t| t.text.to_lowercase().contains(&lower));
        let begin = || tokens.partition_point(|t| t.from < line[0].from);
        let is_own = || local_to(tokens, begin(), &lower).is_none_or(|of| own == Some(of));
        is_named && is_own()
    })
}

/// Where the function begins to which a name at a place is local, whatever its case; `name` is in small letters. The line that
/// declares a function belongs to it.
fn local_to(tokens: &[PythonToken<'_>], at: usize, name: &str) -> Option<usize> {
    let own = definition(line(tokens, at)).map(|_| at);
    let around = functions_around(tokens, at).map(|(begin, _)| begin);
    let mut functions = own.into_iter().chain(around);
    functions.find(|begin| has_variable(tokens, *begin, name))
}

/// Whether the function that begins there has a variable of this name.
fn has_variable(tokens: &[PythonToken<'_>], begin: usize, name: &str) -> bool {
    let is = |t: &PythonToken<'_>| t.kind == TokenKind::Name && t.text.eq_ignore_ascii_case(name);
    let header = line(tokens, begin);
    let is_parameter = (1..header.len()).any(|at| {
        let before = &header[at - 1];
        is(&header[at]) && (before.is("(") || before.is(",") || before.is("*"))
    });
    let body = lines_in(tokens, begin);
    let mut lines = body.iter().map(|at| line(tokens, *at));
    let is_global = |line: &[PythonToken<'_>]| line[0].is("global") && line.iter().any(is);
    let is_given = |line: &[PythonToken<'_>]| {
        let targets = match line[0].is("for") {
            true => line.iter().position(|t| t.is("in")),
            false => assignment(line),
        };
        let targets = &line[..targets.unwrap_or(0)];
        (0..targets.len()).any(|at| {
            let is_part = at > 0 && targets[at - 1].is(".");
            let has_parts = targets.get(at + 1).is_some_and(|t| t.is(".") || t.is("["));
            is(&targets[at]) && !is_part && !has_parts
        })
    };
    let is_global = lines.clone().any(is_global);
    is_parameter || !is_global && lines.any(is_given)
}

#[cfg(test)]
mod tests {
    use super::super::python::{line_begins, tokens};
    use super::*;

    #[test]
    fn a_name_is_local_to_the_function_that_gives_it_a_value() {
        let local = |text: &str| {
            let tokens = tokens(text);
            let mut places = (0..tokens.len()).rev();
            let last = places.find(|at| tokens[*at].is("n")).unwrap();
            let begins: Vec<usize> = line_begins(&tokens).filter(|at| *at <= last).collect();
            local_to(&tokens, *begins.last().unwrap(), "n").is_some()
        };
        for text in [
            "def f(n):\n  g(n)",
            "def f(x, n=3): pass",
            "def f():\n  n = x.size(0)\n  g(n)",
            "def f():\n  for n in x:\n    g(n)",
            "def f(N):\n  def g():\n    h(n)",
        ] {
            assert!(local(text), "{text}");
        }
        for text in [
            "n = 3\ng(n)",
            "def f():\n  g(n)",
            "def f():\n  global n\n  n = 4",
            "def f():\n  self.n = 4\n  g(n)",
            "def f():\n  g(n=4)",
            "def f(m=n): pass",
        ] {
            assert!(!local(text), "{text}");
        }
    }
}
