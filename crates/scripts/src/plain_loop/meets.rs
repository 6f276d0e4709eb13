//! Samples that meet: in a norm over all axes, in a product with what was transposed, in a difference to one of them.

use super::super::python::{argument, callee, functions_around, line, line_begins};
use super::libraries::BATCH_NORM;
use super::lines::{assignment, shows};
use super::masked::class_around;
use super::means::{axes, names_a_weight};
use super::{DoubtPlace, LoopProgram, MIXED, PythonToken, TokenKind, arguments, rest_of_line};
use oomctl_base::word_list;

/// Norms that take the axes as an argument.
const SHAPED: [&str; 4] = word_list("layer_norm LayerNorm rms_norm RMSNorm");
/// Products of matrices.
const PRODUCTS: [&str; 2] = ["matmul", "mm"];

/// Whether a place stands in a module, where samples pass: what makes the module sees none.
pub(super) fn is_in_a_module(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let made = functions_around(tokens, at).next();
    let made = made.and_then(|(_, line)| line.get(1));
    let makes = made.is_some_and(|t| t.is("__init__"));
    let later = || line(tokens, at).iter().any(|t| t.is("lambda"));
    (!makes || later()) && class_around(tokens, at).is_some()
}

/// Whether a place stands in a function that measures and trains nothing, by its name, or in a line that shows: by the
/// name that it gives a value, where it gives one.
pub(super) fn is_aside(tokens: &[PythonToken<'_>], at: usize) -> bool {
    const ASIDE: [&str; 9] = word_list("eval valid test metric confusion hist iou score plot");
    functions_around(tokens, at).any(|(_, line)| {
        let name = line
            .get(1)
            .map_or_else(String::new, |t| t.text.to_lowercase());
        ASIDE.iter().any(|part| name.contains(part))
    }) || {
        let line = line(tokens, at);
        let given = assignment(line).map_or(line, |sign| &line[..sign]);
        !line[0].is("return") && shows(given)
    }
}

impl LoopProgram<'_, '_> {
    /// Where a line of a module lets samples meet.
    pub(super) fn meetings(&self) -> Option<DoubtPlace> {
        self.files.iter().enumerate().find_map(|(file, tokens)| {
            let found = line_begins(tokens).filter_map(|begin| self.meeting(file, begin));
            let mut found = found.filter(|(.., at)| is_in_a_module(tokens, *at));
            found.find(|(.., at)| !is_aside(tokens, *at))
        })
    }

    /// The first place of a line where samples meet.
    pub(super) fn meeting(&self, file: usize, begin: usize) -> Option<DoubtPlace> {
        let tokens = self.files[file];
        let mut all = begin..begin + rest_of_line(&tokens[begin..]).len();
        all.find_map(|at| {
            let called = tokens.get(at + 1).is_some_and(|t| t.is("("));
            let why = match tokens[at].text {
                name if called && SHAPED.contains(&name) && is_over_all(tokens, at) => MIXED,
                "batch_norm" if called && is_trained(tokens, at) => BATCH_NORM,
                "einsum" if called && self.pairs_samples(tokens, at) => MIXED,
                "roll" if called && is_told_no_axis(tokens, at) => MIXED,
                "transpose" | "permute" | "T" if self.is_turned_factor(tokens, at) => MIXED,
                _ if is_beside_one(tokens, at) => MIXED,
                _ => return None,
            };
            Some((why, file, at))
        })
    }

    /// `x @ x.transpose(0, 1)`: each sample beside each other.
    fn is_turned_factor(&self, tokens: &[PythonToken<'_>], at: usize) -> bool {
        let [rest @ .., object, dot] = &tokens[..at] else {
            return false;
        };
        let given: Vec<&[PythonToken<'_>]> = match tokens.get(at + 1) {
            Some(open) if open.is("(") => arguments(&tokens[at + 2..]),
            _ => Vec::new(),
        };
        let numbers: Vec<&str> = given.iter().flat_map(|one| *one).map(|t| t.text).collect();
        let turns = match tokens[at].text {
            "T" => given.is_empty(),
            _ => matches!(numbers[..], ["0", "1"] | ["1", "0"]),
        };
        let product = || {
            let called = callee(tokens, at).map_or("", |at| tokens[at].text);
            rest.last().is_some_and(|t| t.is("@")) || PRODUCTS.contains(&called)
        };
        dot.is(".") && turns && self.is_of_samples(rest, object) && product()
    }

    /// Whether a name behind these tokens is no weight, nor what `self` holds.
    fn is_of_samples(&self, before: &[PythonToken<'_>], name: &PythonToken<'_>) -> bool {
        let member = before.last().is_some_and(|t| t.is("."));
        let held = || {
            let made = self.made_by(name.text);
            let is_member = |value: &[PythonToken<'_>]| {
                value.first().is_some_and(|t| t.is("self")) && !value.iter().any(|t| t.is("("))
            };
            !made.is_empty() && made.iter().all(|(.., value)| is_member(value))
        };
        name.kind == TokenKind::Name && !member && !names_a_weight(name.text) && !held()
    }

    /// `einsum("id,jd->ij", x, x)`: two values that are summed over an axis, and whose first axes both stay.
    fn pairs_samples(&self, tokens: &[PythonToken<'_>], at: usize) -> bool {
        let given = arguments(&tokens[at + 2..]);
        let texts = given.iter().filter_map(|one| match one {
            [text] if text.kind == TokenKind::Text => Some(text.text),
            _ => None,
        });
        let names = given.iter().filter_map(|one| match one {
            [name] if self.is_of_samples(&[], name) => Some(name),
            _ => None,
        });
        let pairs = |text: &str| {
            let (from, into) = text.split_once("->")?;
            let (left, right) = from.split_once(',')?;
            let first = |axes: &str| axes.trim().chars().next().filter(|c| c.is_alphabetic());
            let [a, b] = [first(left)?, first(right)?];
            let axes = |axes: &str| axes.chars().filter(|c| c.is_alphabetic()).count();
            let summed = left.chars().filter(|c| c.is_alphabetic());
            let mut summed = summed.filter(|c| right.contains(*c) && !into.contains(*c));
            let own = !right.contains(a) && !left.contains(b) && axes(left) == axes(right);
            Some(own && into.contains(a) && into.contains(b) && summed.next().is_some())
        };
        let mut texts = texts.map(|text| pairs(text) == Some(true));
        texts.any(|pairs| pairs) && names.count() == 2
    }
}

/// `F.layer_norm(x, x.shape)`: whether a norm goes over all axes of a value.
fn is_over_all(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let given = arguments(&tokens[at + 2..]);
    let place = usize::from(tokens[at].text.ends_with("_norm"));
    let shape = argument(&given, "normalized_shape", place).unwrap_or_default();
    let part = |at: usize| shape.get(at).is_some_and(|t| t.is("["));
    (0..shape.len()).any(|at| match shape[at].text {
        "shape" => !part(at + 1),
        "size" => shape.get(at + 2).is_some_and(|t| t.is(")")) && !part(at + 3),
        _ => false,
    })
}

/// `x.roll(1)`
fn is_told_no_axis(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let mut all = axes(tokens, at).enumerate();
    all.all(|(place, (named, _))| place == 0 && !named)
}

/// `F.batch_norm(x, None, None, training=True)`
fn is_trained(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let given = arguments(&tokens[at + 2..]);
    let training = argument(&given, "training", 5);
    training.is_some_and(|value| !matches!(value, [one] if one.is("False")))
}

/// `x - x[0]`, `x / x[:1]`: whether all samples are computed with one of them.
fn is_beside_one(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let [name, sign, same, open, rest @ ..] = &tokens[at..] else {
        return false;
    };
    let part = at.checked_sub(1).is_some_and(|at| tokens[at].is("."));
    let computes = ["-", "+", "*", "/"].iter().any(|known| sign.is(known));
    let first = || arguments(rest).first().copied().unwrap_or_default();
    let is_name = name.kind == TokenKind::Name && same.is(name.text) && open.is("[");
    is_name && computes && !part && is_of_first_axis(first())
}

/// Whether an index takes samples by their number: `0`, `:-1`, `1:3`.
pub(super) fn is_of_first_axis(index: &[PythonToken<'_>]) -> bool {
    let sign = |t: &PythonToken<'_>| t.is(":") || t.is("-");
    let number = |t: &PythonToken<'_>| t.kind == TokenKind::Number;
    let slices = index.iter().filter(|t| t.is(":")).count();
    slices < 2 && index.iter().any(number) && index.iter().all(|t| sign(t) || number(t))
}
