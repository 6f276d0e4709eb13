//! Calls that compute each sample by itself, and sums that are divided by how many there are.

use super::super::python::{calls, keyword, line};
use super::lines::{assignment, calls_in};
use super::means::{LOSSES, behind_call, is_of_all, is_unreduced};
use super::{
    LAYERS, LoopProgram, PythonToken, TokenKind, arguments, bracket, line_of, rest_of_line,
};
use oomctl_base::word_list;

/// Functions of each sample, and means over them.
const EACH: [&str; 5] =
    word_list("gaussian_nll_loss poisson_nll_loss PoissonNLLLoss Softmax LogSoftmax");
/// Functions of which a mean over samples is no mean any more.
const CURVES: [&str; 6] = word_list("maximum minimum fmax fmin logaddexp softplus");
/// Distributions of PyTorch (torch.distributions).
const DISTRIBUTIONS: [&str; 9] =
    word_list("Normal Laplace Bernoulli Categorical Poisson Beta Gamma LogNormal Exponential");
/// What they compute of each value.
const METHODS: [&str; 3] = ["log_prob", "entropy", "rsample"];
/// Parts of names of loaders that train nothing.
const ASIDE: [&str; 3] = ["val", "test", "eval"];

impl<'t> LoopProgram<'_, 't> {
    /// Whether a call computes each sample by itself.
    pub(super) fn is_by_sample(&self, file: usize, at: usize) -> bool {
        let tokens = self.files[file];
        let name = tokens[at].text;
        if !self.bodies(name).is_empty() {
            return false;
        }
        let of = at.checked_sub(2).map_or("", |at| tokens[at].text);
        match name {
            name if EACH.contains(&name) => {
                LAYERS.contains(&of) || ["torch", "F", "functional"].contains(&of)
            }
            name if CURVES.contains(&name) => {
                ["torch", "F"].contains(&of) && self.is_curve_of_each(file, at)
            }
            name if DISTRIBUTIONS.contains(&name) => self.is_distribution(tokens, at),
            name if METHODS.contains(&name) => self.is_of_a_distribution(tokens, at),
            _ => false,
        }
    }

    /// `torch.maximum(q * err, (q - 1) * err).mean()`: whether no mean over samples stands in it, and one is taken of it.
    fn is_curve_of_each(&self, file: usize, at: usize) -> bool {
        let tokens = self.files[file];
        let given = arguments(&tokens[at + 2..]);
        let behind =
            matches!(behind_call(tokens, at), [dot, mean, ..] if dot.is(".") && mean.is("mean"));
        let around = bracket(tokens, at).and_then(|open| open.checked_sub(1));
        let within = around.is_some_and(|at| tokens[at].is("mean"));
        (behind || within) && given.iter().all(|value| self.is_of_each(value, 0))
    }

    /// Whether nothing in a value is a mean or a sum over samples, nor are the names in it that the program makes.
    fn is_of_each(&self, value: &[PythonToken<'t>], depth: usize) -> bool {
        const MOST: usize = 3;
        depth < MOST
            && (0..value.len()).all(|at| {
                let token = &value[at];
                let called = value.get(at + 1).is_some_and(|t| t.is("("));
                let member = at.checked_sub(1).is_some_and(|at| value[at].is("."));
                let of_loss = LOSSES.iter().any(|part| token.text.contains(part));
                match token.kind {
                    TokenKind::Name if of_loss && !called => false,
                    TokenKind::Name if called => !comes_to_one(value, at),
                    TokenKind::Name if !member && !token.is("torch") => {
                        let made = self.made_by(token.text);
                        let own = |of: &[PythonToken<'t>]| of.iter().any(|t| t.is(token.text));
                        let mut made = made.iter().map(|(.., value)| *value);
                        made.all(|of| match own(of) {
                            // `x = x.to(device)`
                            true => (0..of.len()).all(|at| !comes_to_one(of, at)),
                            false => self.is_of_each(of, depth + 1),
                        })
                    }
                    _ => true,
                }
            })
    }

    /// `torch.distributions.Normal(a, b)`, of no mean.
    fn is_distribution(&self, tokens: &[PythonToken<'_>], at: usize) -> bool {
        let given = arguments(&tokens[at + 2..]);
        let mut values = given.iter();
        let named = tokens[..at].iter().rev();
        let mut named = named.take_while(|t| t.is(".") || t.kind == TokenKind::Name);
        let known = named.any(|t| t.is("distributions") || t.is("dist") || t.is("D"));
        (known || self.uses(&["distributions"]))
            && values.all(|value| (0..value.len()).all(|at| !comes_to_one(value, at)))
    }

    /// `u.log_prob(y)` with `u = Normal(…)`, `Normal(…).log_prob(y)`
    fn is_of_a_distribution(&self, tokens: &[PythonToken<'_>], at: usize) -> bool {
        let Some(object) = at.checked_sub(2) else {
            return false;
        };
        if tokens[object].closes() {
            let head = bracket(tokens, object).and_then(|open| open.checked_sub(1));
            return head.is_some_and(|at| DISTRIBUTIONS.contains(&tokens[at].text));
        }
        let made = self.made_by(tokens[object].text);
        let makes = |value: &[PythonToken<'_>]| {
            let mut head = value.iter().take_while(|t| !t.is("("));
            head.any(|t| DISTRIBUTIONS.contains(&t.text))
        };
        !made.is_empty() && made.iter().all(|(.., value)| makes(value))
    }

    /// The byte at which the last word of a divisor begins: `reduction="sum") / args.batch_size`, where all loaders that take so many leave out a rest.
    pub(super) fn divisor_of_full_batches(&self, file: usize, at: usize) -> Option<usize> {
        let tokens = self.files[file];
        let given = arguments(&tokens[at + 2..]);
        let sums = keyword(&given, "reduction");
        sums.filter(|value| matches!(value, [one] if one.text == "sum"))?;
        let [by, path @ ..] = rest_of_line(behind_call(tokens, at)) else {
            return None;
        };
        let is_path = |t: &&PythonToken<'_>| t.kind == TokenKind::Name || t.is(".");
        let length = path.iter().take_while(is_path).count();
        let ends = path.get(length).is_none_or(|t| t.is("+") || t.is(")"));
        let divisor = &path[..length];
        let same = |size: &[PythonToken<'_>]| {
            size.len() == length && size.iter().zip(divisor).all(|(a, b)| a.is(b.text))
        };
        let trains = |tokens: &[PythonToken<'_>], at: usize| {
            let line = line(tokens, at);
            let target = &line[..assignment(line).unwrap_or(0)];
            let aside = |t: &PythonToken<'_>| ASIDE.iter().any(|part| t.text.contains(part));
            !target.iter().any(aside)
        };
        let loaders = self.files.iter().flat_map(|tokens| {
            let loaders = calls(tokens, |t| t.text.ends_with("DataLoader"));
            let loaders = loaders.filter(move |at| trains(tokens, *at));
            loaders.map(|at| arguments(&tokens[at + 2..]))
        });
        let loaders: Vec<_> = loaders.collect();
        let full = |given: &Vec<&[PythonToken<'_>]>| {
            let drops = keyword(given, "drop_last");
            keyword(given, "batch_size").is_some_and(same)
                && drops.is_some_and(|value| matches!(value, [one] if one.is("True")))
        };
        let last = divisor.last()?;
        let fills = by.is("/") && ends && !loaders.is_empty() && loaders.iter().all(full);
        fills.then_some(last.from)
    }

    /// Whether a place is the end of such a divisor.
    pub(super) fn divides_full_batches(&self, file: usize, at: usize) -> bool {
        let tokens = self.files[file];
        let begin = line_of(tokens, at);
        let from = tokens[at].from;
        let mut calls = calls_in(tokens, begin, at - begin);
        calls.any(|call| self.divisor_of_full_batches(file, call) == Some(from))
    }
}

/// Whether a call comes to one number of all samples: `x.mean()`, `F.cross_entropy(x, y)`, and no `reduction="none"`.
fn comes_to_one(tokens: &[PythonToken<'_>], at: usize) -> bool {
    const REDUCES: [&str; 7] = word_list("mean sum max min std var norm");
    let name = tokens[at].text.to_lowercase();
    let called = tokens.get(at + 1).is_some_and(|t| t.is("("));
    let reduces = REDUCES.contains(&name.as_str()) && is_of_all(tokens, at);
    let of_loss = LOSSES.iter().any(|part| name.contains(part));
    called && (reduces || of_loss && !is_unreduced(tokens, at))
}
