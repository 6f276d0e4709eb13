//! Samples that a loop takes from its batch by their number, and halves of a batch that meet.

use super::super::python::{bracket, calls, is_loop};
use super::called_values::LOSSES;
use super::lines::{assignment, lines_in, value_of};
use super::means::axes;
use super::meets::is_of_first_axis;
use super::{LoopProgram, PythonToken, TokenKind, arguments, headers, rest_of_line};
use oomctl_base::word_list;

/// Calls that move or cast a tensor.
const MOVES: [&str; 5] = word_list("to cuda float long half");
/// What tells of a sample only how large it is.
const SIZES: [&str; 5] = word_list("shape size dim device dtype");
/// Calls that put values behind each other.
const JOINS: [&str; 7] = word_list("cat concat concatenate stack vstack extend collate_fn");
/// Parts of names of the halves of a batch that its rows were joined of.
const PAIRED: [&str; 10] = word_list("chosen reject pos neg win los real fake cond view");
const SIGNS: [&str; 5] = ["+", "-", "*", "/", "@"];

impl<'t> LoopProgram<'_, 't> {
    /// `x[0] = 0`, `out[1:]`: where a line takes samples of a batch by their number.
    pub(super) fn takes_by_number(&self, file: usize, begin: usize) -> Option<usize> {
        let tokens = self.files[file];
        let line = rest_of_line(&tokens[begin..]);
        let all = begin..(begin + line.len()).saturating_sub(2);
        let mut parts = all.filter(|at| {
            let of = at.checked_sub(1).is_some_and(|at| tokens[at].is("."));
            let is_part = tokens[*at].kind == TokenKind::Name && tokens[at + 1].is("[") && !of;
            is_part && !tells_of_its_size(tokens, *at)
        });
        parts.find(|at| {
            let index = arguments(&tokens[at + 2..]).first().copied();
            index.is_some_and(is_of_first_axis) && is_tensor(tokens, begin, tokens[*at].text)
        })
    }

    /// `a, b = x.chunk(2)`, then `a - b`: where halves are made that meet, of what nothing joined in pairs.
    pub(super) fn halves_that_meet(&self, file: usize, begin: usize) -> Option<usize> {
        let tokens = self.files[file];
        let line = rest_of_line(&tokens[begin..]);
        let [a, comma, b, equals, ..] = line else {
            return None;
        };
        let paired = |t: &PythonToken<'_>| PAIRED.iter().any(|part| t.text.contains(part));
        let halves = comma.is(",") && equals.is("=") && !paired(a) && !paired(b);
        let mut cuts = calls(tokens, |t| t.is("chunk")).filter(|_| halves);
        let cut = cuts.find(|at| (begin..begin + line.len()).contains(at))?;
        let given: Vec<_> = axes(tokens, cut).map(|(_, value)| value).collect();
        let is = |value: &[PythonToken<'_>], text: &str| matches!(value, [one] if one.is(text));
        let in_halves = match given[..] {
            [parts] => is(parts, "2"),
            [parts, axis] => is(parts, "2") && is(axis, "0"),
            _ => false,
        };
        let names = [a.text, b.text];
        let scope = scope(tokens, begin);
        let later = scope.iter().filter(|at| **at > begin);
        let mut later = later.filter(|at| meet(tokens, **at, names));
        (in_halves && !self.joins_pairs(names) && later.next().is_some()).then_some(cut)
    }

    /// Whether something puts values behind each other that are not these.
    fn joins_pairs(&self, names: [&str; 2]) -> bool {
        let mut places = JOINS.iter().flat_map(|name| self.places(name));
        places.any(|(file, at)| {
            let given = arguments(self.files[*file].get(at + 2..).unwrap_or_default());
            let mut given = given.iter().flat_map(|one| one.iter());
            !given.any(|t| names.contains(&t.text))
        })
    }
}

/// `x[0].shape`
fn tells_of_its_size(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let closed = tokens[at..].iter().position(|t| t.is("]"));
    let behind = closed.and_then(|closed| tokens.get(at + closed + 1..));
    matches!(behind, Some([dot, told, ..]) if dot.is(".") && SIZES.contains(&told.text))
}

/// The lines of the function or of the outermost block around a line.
fn scope(tokens: &[PythonToken<'_>], begin: usize) -> Vec<usize> {
    let around = headers(tokens, begin).map(|(begin, header)| (begin, header[0].is("def")));
    let mut around: Vec<(usize, bool)> = around.collect();
    let function = around.iter().position(|(_, is_function)| *is_function);
    let outer = function.and_then(|at| around.get(at).copied());
    let outer = outer.or_else(|| around.pop());
    outer.map_or_else(Vec::new, |(begin, _)| lines_in(tokens, begin))
}

/// Whether a name is known for a tensor of which the first axis are samples: one of several that a loader hands over, one
/// that was moved, and what a loss of PyTorch or an index of several axes takes.
fn is_tensor(tokens: &[PythonToken<'_>], begin: usize, name: &str) -> bool {
    let mut loops = headers(tokens, begin).filter(|(_, header)| is_loop(header));
    let is_handed = |header: &[PythonToken<'_>]| {
        let target = header.iter().position(|t| t.is(name));
        let within = header.iter().position(|t| t.is("in"));
        let target = target.filter(|at| within.is_some_and(|within| *at < within));
        target.is_some_and(|at| bracket(header, at).is_some())
    };
    let is_used = |at: usize| {
        let length = rest_of_line(&tokens[at..]).len();
        let mut names = (at..at + length).filter(|at| tokens[*at].is(name));
        names.any(|at| {
            let several = match tokens.get(at + 1..) {
                Some([open, first, ..]) => open.is("[") && (first.is(":") || first.is(".")),
                _ => false,
            };
            several || is_taken_whole(tokens, at)
        })
    };
    let mut lines = scope(tokens, begin).into_iter();
    loops.any(|(_, header)| is_handed(header))
        || lines.any(|at| is_used(at) || moves(rest_of_line(&tokens[at..]), name))
}

/// Whether a name is an argument of a loss of PyTorch.
fn is_taken_whole(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let ends = |t: Option<&PythonToken<'_>>| t.is_some_and(|t| t.is(",") || t.is(")"));
    let begins = |t: &PythonToken<'_>| t.is(",") || t.is("(");
    let called = bracket(tokens, at).and_then(|open| open.checked_sub(1));
    let whole = at.checked_sub(1).is_some_and(|at| begins(&tokens[at])) && ends(tokens.get(at + 1));
    whole && called.is_some_and(|at| LOSSES.contains(&tokens[at].text))
}

/// `x, y = x.to(device), y.to(device)`: whether a line moves a value under this name.
fn moves(line: &[PythonToken<'_>], name: &str) -> bool {
    let Some(sign) = assignment(line) else {
        return false;
    };
    let mut target = (0..sign).filter(|at| line[*at].is(name));
    let moved = |value: &[PythonToken<'_>]| {
        // `batch = tuple(t.to(device) for t in batch)` is none.
        let several = value.iter().any(|t| t.is("for"));
        let mut calls = value.windows(3).filter(|_| !several);
        calls.any(|w| w[0].is(".") && MOVES.contains(&w[1].text) && w[2].is("("))
    };
    target.any(|at| value_of(line, at).is_some_and(|(_, value)| moved(value)))
}

/// Whether two names are computed with each other in a line, or are handed to one call.
fn meet(tokens: &[PythonToken<'_>], begin: usize, names: [&str; 2]) -> bool {
    let length = rest_of_line(&tokens[begin..]).len();
    let places = |name: &str| {
        let places = (begin..begin + length).filter(|at| tokens[*at].is(name));
        places.collect::<Vec<usize>>()
    };
    let computes = |at: usize| {
        let around = [at.checked_sub(1), Some(at + 1)].into_iter().flatten();
        let mut around = around.filter_map(|at| tokens.get(at));
        around.any(|t| SIGNS.contains(&t.text))
    };
    let called = |open: usize| {
        let name = open.checked_sub(1).map(|at| &tokens[at]);
        name.is_some_and(|t| t.kind == TokenKind::Name && !JOINS.contains(&t.text))
            && tokens[open].is("(")
    };
    let [first, second] = names.map(places);
    first.iter().any(|a| {
        second.iter().any(|b| {
            let open = bracket(tokens, *a);
            let one_call = open.is_some_and(called);
            open == bracket(tokens, *b) && (one_call || computes(*a) || computes(*b))
        })
    })
}
