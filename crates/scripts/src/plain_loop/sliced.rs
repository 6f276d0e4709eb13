//! A loop over slices of the batch of one step: `for i in range(0, len(ids), args.micro_batch):`, with the step behind it.

use std::collections::BTreeSet;

use super::super::python::{calls, headers, line_begins};
use super::lines::{assignment, calls_in, is_optimizer, lines_in};
use super::means::COUNTS;
use super::{LoopOfBatches, PythonToken, TokenKind, arguments, rest_of_line};

/// Calls that count.
const RANGES: [&str; 2] = ["range", "trange"];

/// The name of the width of the slices that the loop at `begin` goes over, the last argument of its `range(0, n, width)`, where no
/// optimizer steps within it.
fn width<'t>(tokens: &[PythonToken<'t>], begin: usize) -> Option<&'t str> {
    let header = rest_of_line(&tokens[begin..]);
    let range = header.iter().position(|t| RANGES.contains(&t.text))?;
    let given = arguments(header.get(range + 2..)?);
    let [[zero], _, width] = given[..] else {
        return None;
    };
    let is_path = |t: &PythonToken<'_>| t.kind == TokenKind::Name || t.is(".");
    let name = width.last().filter(|_| width.iter().all(is_path))?;
    let steps =
        |t: &PythonToken<'_>| t.is("step") || t.text.contains("step") && is_optimizer(t.text);
    let steps = lines_in(tokens, begin).into_iter().any(|at| {
        let mut calls = calls_in(tokens, at, rest_of_line(&tokens[at..]).len());
        calls.any(|at| steps(&tokens[at]))
    });
    (header[0].is("for") && zero.is("0") && !steps).then_some(name.text)
}

/// Whether the loop at `begin` goes over slices of a batch.
pub(super) fn is_sliced(tokens: &[PythonToken<'_>], begin: usize) -> bool {
    width(tokens, begin).is_some()
}

/// The loops over slices that go backward one by one: where each begins, and the name of its width.
fn loops<'t>(tokens: &[PythonToken<'t>]) -> impl Iterator<Item = (usize, &'t str)> {
    let backward = calls(tokens, |t| t.is("backward"));
    backward.filter_map(|at| {
        let mut around = headers(tokens, at).map(|(begin, _)| begin);
        around.find_map(|begin| Some((begin, width(tokens, begin)?)))
    })
}

/// The names of the widths of slices that go backward one by one.
pub(in super::super) fn widths<'t>(tokens: &[PythonToken<'t>]) -> BTreeSet<&'t str> {
    loops(tokens).map(|(_, width)| width).collect()
}

/// Where the first loop over such slices begins.
pub(in super::super) fn first_slices(tokens: &[PythonToken<'_>]) -> Option<usize> {
    loops(tokens).next().map(|(begin, _)| begin)
}

/// Names of numbers of slices: `n = len(ids) // args.micro_batch`.
pub(super) fn counts<'t>(tokens: &[PythonToken<'t>]) -> Vec<&'t str> {
    let widths = widths(tokens);
    let counted = line_begins(tokens).filter_map(|begin| {
        let line = rest_of_line(&tokens[begin..]);
        let sign = assignment(line).filter(|sign| *sign == 1)?;
        let mut value = line[sign + 1..].iter();
        let divides = value.clone().any(|t| t.is("/"));
        (divides && value.any(|t| widths.contains(t.text))).then_some(line[0].text)
    });
    match widths.is_empty() {
        true => Vec::new(),
        false => counted.collect(),
    }
}

impl LoopOfBatches<'_, '_> {
    /// Whether a line weighs the mean over a slice as a part of the batch: `loss * len(part) / len(ids)`.
    pub(super) fn weighs_a_slice(&self) -> bool {
        let sized = |tokens: &[PythonToken<'_>]| tokens.iter().any(|t| COUNTS.contains(&t.text));
        is_sliced(self.tokens, self.begin)
            && self.lines.iter().any(|at| {
                let line = self.line(*at);
                let place = |sign: &str| line.iter().position(|t| t.is(sign));
                let of_loss = line.iter().any(|t| t.text.contains("loss"));
                let between = place("*").zip(place("/")).filter(|(times, by)| times < by);
                of_loss
                    && between
                        .is_some_and(|(times, by)| sized(&line[times..by]) && sized(&line[by..]))
            })
    }
}
