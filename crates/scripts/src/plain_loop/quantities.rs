//! What a value has of a micro batch, and what it has after arithmetic.

use super::super::python::{PythonToken, TokenKind, is_keyword};

/// What a value has of a micro batch; the later ones hold more of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum BatchQuantity {
    /// Nothing: an option, a parameter, a count.
    #[default]
    Free,
    /// A call gave it, and it may be anything of these but a mean.
    Unread,
    /// A value for each sample.
    Each,
    /// A mean or a sum over the samples, or a sum of multiples of such.
    Mean,
    /// A curve over one, with the file and the token that bends it.
    Curve(usize, usize),
}

use BatchQuantity::{Curve, Each, Mean};

impl BatchQuantity {
    /// What is left of it behind a call or sign that is no line through 0.
    pub(super) fn bent(self, place: (usize, usize)) -> Self {
        match self {
            Mean => Curve(place.0, place.1),
            other => other,
        }
    }

    /// The product, or the quotient.
    pub(super) fn times(self, other: Self, divides: bool, place: (usize, usize)) -> Self {
        let both = self.max(other);
        let bends = self.min(other) >= Each || divides && other == Mean;
        if bends { both.bent(place) } else { both }
    }
}

/// A value, with what its parts are where it is a tuple.
#[derive(Debug, Clone, Default)]
pub(super) struct BatchValue {
    pub(super) whole: BatchQuantity,
    pub(super) parts: Vec<BatchQuantity>,
}

impl From<BatchQuantity> for BatchValue {
    fn from(whole: BatchQuantity) -> Self {
        let parts = Vec::new();
        Self { whole, parts }
    }
}

impl BatchValue {
    /// One of the two, and nobody knows which.
    pub(super) fn or(self, other: &Self) -> Self {
        let same = self.parts.len() == other.parts.len();
        let pairs = self.parts.iter().zip(&other.parts);
        let parts = pairs.filter(|_| same).map(|(a, b)| *a.max(b));
        Self {
            parts: parts.collect(),
            whole: self.whole.max(other.whole),
        }
    }
}

/// A part of a text: where it begins, and where it ends.
pub(super) type TextSpan = (usize, usize);

/// The parts of a span between signs outside of its brackets, each with the place of the sign before it. `sign` has the length of
/// what begins at a place, or 0.
pub(super) fn split(
    tokens: &[PythonToken<'_>],
    (from, to): TextSpan,
    sign: impl Fn(usize) -> usize,
) -> Vec<(usize, TextSpan)> {
    let (mut found, mut depth) = (Vec::new(), 0);
    let (mut begin, mut last, mut at) = (from, from, from);
    while at < to {
        let length = if depth == 0 { sign(at) } else { 0 };
        if length > 0 {
            found.push((last, (begin, at)));
            (last, begin) = (at, at + length);
        }
        depth = tokens[at].depth_after(depth);
        at += length.max(1);
    }
    found.push((last, (begin.min(to), to)));
    found
}

/// Whether a sign at a place stands between two values: `a - b`, and not `-b`.
pub(super) fn is_between(tokens: &[PythonToken<'_>], from: usize, at: usize) -> bool {
    at > from
        && match &tokens[at - 1] {
            t if t.kind == TokenKind::Name => !is_keyword(t.text),
            t => t.kind != TokenKind::Other || t.closes(),
        }
}

/// How many tokens the sign of a power has at a place.
pub(super) fn power(tokens: &[PythonToken<'_>], at: usize) -> usize {
    let raises = tokens[at..].iter().take(2).filter(|t| t.is("*")).count() == 2;
    usize::from(raises) * 2
}

/// How many tokens the sign of a product has there: `*`, `/`, `//`, `%`, `@`.
pub(super) fn product(tokens: &[PythonToken<'_>], from: usize, at: usize) -> usize {
    let is = ["*", "/", "%", "@"].iter().any(|sign| tokens[at].is(sign));
    let raised = |at: usize| power(tokens, at) > 0;
    if !is || raised(at) || at > from && raised(at - 1) || !is_between(tokens, from, at) {
        return 0;
    }
    let again = tokens[at].is("/") && tokens.get(at + 1).is_some_and(|t| t.is("/"));
    1 + usize::from(again)
}
