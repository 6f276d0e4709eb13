//! Lines of a program, and calls in them.

use super::super::python::{PythonToken, TokenKind};
pub(super) use super::super::python::{assignment, lines_in};
use oomctl_base::word_list;

/// What shows and measures, which trains nothing.
const SHOWS: [&str; 29] = word_list(
    "print log logs logger info debug warning write writer bar pbar tqdm progress meter meters metric metrics \
     stats track tracker monitor avg average time speed throughput wandb history mfu",
);

pub(super) fn is_optimizer(name: &str) -> bool {
    let name = name.to_lowercase();
    name == "opt" || name.starts_with("opt_") || name.ends_with("_opt") || name.contains("optim")
}

/// Whether a line shows or measures something.
pub(super) fn shows(line: &[PythonToken<'_>]) -> bool {
    line.iter().any(|t| {
        let name = t.text.to_lowercase();
        let mut parts = name.split('_');
        let ends = ["meter", "meters", "metrics", "accuracy", "bar", "logger"]
            .iter()
            .any(|end| name.ends_with(end));
        let is = parts.any(|part| SHOWS.contains(&part)) || ends && !name.contains("parameter");
        t.kind == TokenKind::Name && is
    })
}

/// `self.calls += 1`, `out, self.h = rnn(x, self.h)`: whether a line makes a value of what the micro batch before left in it.
pub(super) fn keeps(line: &[PythonToken<'_>]) -> bool {
    let Some(sign) = assignment(line) else {
        return false;
    };
    let own = |w: &[PythonToken<'_>]| w[0].is("self") && w[1].is(".");
    let mut given = line[..sign].windows(3).filter(|w| own(w));
    let adds = line[sign - 1].kind == TokenKind::Other;
    given.any(|w| {
        let mut taken = line[sign..].windows(3).filter(|w| own(w));
        adds || taken.any(|taken| taken[2].is(w[2].text))
    })
}

/// The calls in `length` tokens from `begin` on.
pub(super) fn calls_in(
    tokens: &[PythonToken<'_>],
    begin: usize,
    length: usize,
) -> impl Iterator<Item = usize> {
    let end = (begin + length).min(tokens.len());
    let called = move |at: &usize| tokens.get(at + 1).is_some_and(|t| t.is("("));
    (begin..end).filter(move |at| tokens[*at].kind == TokenKind::Name && called(at))
}

/// The values of a list without brackets: `a`, `f(b, c)`.
pub(super) fn listed<'a, 't>(all: &'a [PythonToken<'t>]) -> Vec<&'a [PythonToken<'t>]> {
    let mut depth = 0;
    let parts = all.split(|t| {
        let splits = depth == 0 && t.is(",");
        depth = t.depth_after(depth);
        splits
    });
    parts.filter(|part| !part.is_empty()).collect()
}

/// The part of a line's value that it gives what stands at a place of it, with where it begins: `c` of `a, b = c, d` for `a`; all
/// where the two lists are not as long as each other.
pub(super) fn value_of<'a, 't>(
    line: &'a [PythonToken<'t>],
    at: usize,
) -> Option<(usize, &'a [PythonToken<'t>])> {
    let sign = assignment(line)?;
    let (targets, values) = (listed(&line[..sign]), listed(&line[sign + 1..]));
    let place = line.get(at)?.from;
    let number = targets
        .iter()
        .position(|target| target.iter().any(|t| t.from == place));
    let paired = number.filter(|_| targets.len() == values.len());
    let paired = paired.and_then(|number| values.get(number).copied());
    let value = paired.unwrap_or(&line[sign + 1..]);
    let begin = value.first()?.from;
    Some((line.iter().position(|t| t.from == begin)?, value))
}

/// Whether a line has `reduction="sum"`.
pub(super) fn reduces_to_a_sum(line: &[PythonToken<'_>]) -> bool {
    let mut parts = line.windows(3);
    parts.any(|w| w[0].is("reduction") && w[1].is("=") && w[2].text == "sum")
}

/// Whether one of these signs stands outside of a line's brackets, or a mean anywhere.
pub(super) fn has_sign_or_mean(line: &[PythonToken<'_>], signs: [&str; 2]) -> bool {
    let mut depth = 0;
    line.iter().any(|t| {
        let sign = depth == 0 && signs.iter().any(|sign| t.is(sign));
        depth = t.depth_after(depth);
        sign || t.is("mean")
    })
}
