//! Lines of a program, and calls in them.

use super::super::python::{PythonToken, TokenKind, arguments, closed_call, ends_block, line_of};
use oomctl_base::word_list;

/// What shows and measures, which trains nothing.
const SHOWS: [&str; 29] = word_list(
    "print log logs logger info debug warning write writer bar pbar tqdm progress meter meters metric metrics \
     stats track tracker monitor avg average time speed throughput wandb history mfu",
);

pub(super) fn is_optimizer(name: &str) -> bool {
    name == "opt" || name.contains("optim")
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

/// The places of the lines of a block, without the one that begins it.
pub(super) fn lines_in(tokens: &[PythonToken<'_>], begin: usize) -> Vec<usize> {
    let ends = (begin..tokens.len()).filter(|at| tokens[*at].kind == TokenKind::End);
    let inside = ends.take_while(|at| !ends_block(tokens, begin, *at));
    let lines = inside.map(|at| at + 1);
    let lines = lines.filter(|at| tokens.get(*at).is_some_and(|t| t.kind != TokenKind::End));
    lines.collect()
}

/// The place of the sign by which a line gives its first names a value: `a = b`, `a, b = c`, `a /= b`.
pub(super) fn assignment(line: &[PythonToken<'_>]) -> Option<usize> {
    let mut depth = 0;
    for (at, token) in line.iter().enumerate() {
        let is = |at: Option<usize>, sign: &str| {
            at.and_then(|at| line.get(at)).is_some_and(|t| t.is(sign))
        };
        let before = at.checked_sub(1);
        let compares = is(Some(at + 1), "=") || ["=", "<", ">", "!"].iter().any(|s| is(before, s));
        if depth == 0 && token.is("=") {
            return (!compares).then_some(at);
        }
        depth = token.depth_after(depth);
    }
    None
}

pub(super) fn is_over_samples(name: &str) -> bool {
    [
        "mean",
        "sum",
        "max",
        "min",
        "softmax",
        "flip",
        "roll",
        "sort",
        "norm",
        "normalize",
    ]
    .contains(&name)
}

/// Whether a call goes along the samples of a batch: `x.mean(0)`, `x.flip(dims=[0])`.
pub(super) fn mixes_samples(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let all = arguments(&tokens[at + 2..]);
    let of = at.checked_sub(2).map_or("", |at| tokens[at].text);
    let skipped = usize::from(["torch", "F", "np"].contains(&of));
    let zero = |argument: &&[PythonToken<'_>]| {
        let value = match argument {
            [key, equals, value @ ..] if equals.is("=") => match key.text {
                "dim" | "axis" | "dims" => value,
                _ => return false,
            },
            value => value,
        };
        matches!(value, [one] if one.is("0"))
            || matches!(value, [open, one, close] if open.opens() && one.is("0") && close.closes())
    };
    all.iter().skip(skipped).any(zero)
}

/// Functions of which a mean over samples is no mean any more.
const BENDS: [&str; 8] = word_list("sqrt rsqrt log log1p exp pow square norm");

/// Whether a call is no mean over samples although what it is of is one: `torch.sqrt(F.mse_loss(a, b))`, `losses.max()`.
pub(super) fn bends_a_mean(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let name = tokens[at].text;
    let all = arguments(&tokens[at + 2..]);
    let before = |n: usize| at.checked_sub(n).map(|at| &tokens[at]);
    let of_loss = |t: &PythonToken<'_>| t.text.to_lowercase().ends_with("loss");
    let method = before(1).is_some_and(|t| t.is("."));
    let object = before(2).filter(|_| method);
    let is_of_loss = object.is_some_and(of_loss) || all.iter().flat_map(|a| a.iter()).any(of_loss);
    let extreme = ["max", "min"].contains(&name) && all.is_empty() && method;
    extreme || BENDS.contains(&name) && is_of_loss
}

/// What counts samples, or their values.
const COUNTS: [&str; 4] = word_list("numel shape size len");
/// Most tokens behind a sum that can divide it by a count.
const DIVISOR: usize = 8;

/// Whether a call adds up a micro batch (or takes the norm of all of it), and no count of its samples divides the sum: `(each * mask).sum()`.
pub(super) fn adds_up(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let before = |n: usize, text: &str| at.checked_sub(n).is_some_and(|at| tokens[at].is(text));
    if !(tokens[at].is("sum") || tokens[at].is("norm")) || !before(1, ".") {
        return false;
    }
    let rest = &tokens[at + 2..];
    let of_module = before(2, "torch") || before(2, "np");
    if arguments(rest).len() != usize::from(of_module) {
        return false;
    }
    let end = closed_call(rest).and_then(|(_, end)| rest.iter().position(|t| t.from >= end));
    let behind = end.map_or(&[][..], |end| &rest[end..]);
    let mut behind = behind.iter().skip_while(|t| t.closes()).take(DIVISOR);
    let next = behind.next();
    // A loss that is a sum is the same in parts; whether something divides it is asked elsewhere.
    let line = &tokens[line_of(tokens, at)..at];
    let is_loss = line.first().is_some_and(|t| t.text.ends_with("loss"));
    let whole = next.is_none_or(|t| t.kind == TokenKind::End);
    if is_loss && whole && tokens[at].is("sum") {
        return false;
    }
    let divided = next.is_some_and(|t| t.is("/"));
    let mut divisor = behind.take_while(|t| t.kind != TokenKind::End);
    !(divided && divisor.any(|t| COUNTS.contains(&t.text)))
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
