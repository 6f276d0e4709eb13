//! What a program computes of each micro batch as a whole, so that smaller ones with more accumulation train otherwise.
//!
//! Rule: a sign is what the text shows. A text without one is not proven to be free of it.

use super::accumulation::{alias, is_rate};
use super::by_use::accumulations;
use super::declared::DeclaredOption;
use super::python::{
    PythonToken, TokenKind, argument_with, arguments, assignment, brackets, calls, calls_backward,
    functions_around, headers, is_conditional, is_loop, is_named, keyword, line, line_of,
    rest_of_line,
};
use super::slices::first_slices;
use oomctl_base::word_list;

/// The learning rate is computed of the batch.
const LEARNING_RATE: &str = "<learning rate of the batch>";
/// The loss compares the samples of a batch with each other.
const NEGATIVES: &str = "<negatives of the batch>";
/// The loss takes a deviation over a batch.
const STATISTICS: &str = "<statistics of the batch>";
/// The loss adds the samples of a batch up.
const SUM: &str = "<sum over the batch>";
/// Training ends after a number of micro batches.
const COUNT: &str = "<number of micro batches>";
/// The learning rate or the gradients are changed after each micro batch.
const EACH: &str = "<each micro batch>";

/// A step takes its batch in slices.
const SLICED: &str = "<slices of a batch>";

/// The names of all of it among the names of a program's text ([`super::CodeRule`]).
pub(super) const SIGNS: [&str; 7] = [
    LEARNING_RATE,
    NEGATIVES,
    STATISTICS,
    SUM,
    COUNT,
    EACH,
    SLICED,
];

/// Parts of the names of losses that compare samples of one batch.
const COMPARES: [&str; 10] = word_list(
    "infonce info_nce ntxent nt_xent contrastive cliploss clip_loss siglip supcon multiplenegatives",
);
/// Deviations.
const DEVIATIONS: [&str; 4] = word_list("std var std_mean var_mean");
/// What a loss of samples that were added up is divided by.
const COUNTED: [&str; 7] = word_list("size shape len numel sum mean count");

/// A sign: its name, the file, and its bytes.
pub(super) type Sign = (&'static str, usize, (usize, usize));

/// The signs of a program with these files and these `options`, the first of each kind.
pub(super) fn signs(
    files: &[&[PythonToken<'_>]],
    options: &[Vec<DeclaredOption<'_, '_>>],
) -> Vec<Sign> {
    let accumulations = accumulations(files, options);
    let names = options.iter().flatten().map(|o| o.name.as_str());
    let batches = names.filter(|name| name.contains("batch") && !accumulations.contains(name));
    let batches: Vec<&str> = batches.collect();
    let mut found: Vec<Sign> = Vec::new();
    for (file, tokens) in files.iter().enumerate() {
        let text = MicroBatchText {
            tokens,
            accumulations: &accumulations,
            batches: &batches,
        };
        let here = [
            (LEARNING_RATE, text.rate_of_the_batch()),
            (NEGATIVES, text.negatives()),
            (STATISTICS, text.statistics()),
            (SUM, text.sum()),
            (COUNT, text.count()),
            (EACH, text.each()),
            (SLICED, first_slices(tokens)),
        ];
        for (name, at) in here {
            if let Some(at) = at.filter(|_| found.iter().all(|(known, ..)| *known != name)) {
                found.push((name, file, (tokens[at].from, tokens[at].to)));
            }
        }
    }
    found
}

/// A file of a program, with the names of its options.
struct MicroBatchText<'a, 't> {
    tokens: &'a [PythonToken<'t>],
    accumulations: &'a [&'a str],
    batches: &'a [&'a str],
}

impl MicroBatchText<'_, '_> {
    /// `lr = args.lr * args.batch_size / 256`: where the batch stands. With the accumulation beside it the product stays.
    fn rate_of_the_batch(&self) -> Option<usize> {
        let mut batches = (0..self.tokens.len()).filter(|at| {
            self.tokens[*at].kind == TokenKind::Name
                && self.batches.contains(&self.tokens[*at].text)
        });
        batches.find(|at| {
            let (to, value) = self.given(*at);
            let is_product = value.iter().any(|t| t.is("*") || t.is("/"));
            let names = || value.iter().filter(|t| t.kind == TokenKind::Name);
            let of_rate = to.is_some_and(is_rate) || names().any(|t| is_rate(t.text));
            let accumulates = names().any(|t| self.accumulations.contains(&t.text));
            let is_sure = !is_conditional(self.tokens, *at);
            is_sure && is_product && of_rate && !accumulates
        })
    }

    /// The value in which a place stands, that of an argument or of a statement, with the name that it is given to.
    fn given(&self, at: usize) -> (Option<&str>, &[PythonToken<'_>]) {
        // A bracket that is no call's is a part of the value.
        let is_call = |open: usize| {
            open.checked_sub(1)
                .is_some_and(|at| self.tokens[at].kind == TokenKind::Name)
        };
        let whole = match brackets(self.tokens, at).find(|open| is_call(*open)) {
            Some(open) => argument_with(self.tokens, open, at).unwrap_or_default(),
            None => self.line(at),
        };
        match whole.iter().position(|t| t.is("=")) {
            Some(sign) => (
                sign.checked_sub(1).map(|at| whole[at].text),
                &whole[sign + 1..],
            ),
            None => (None, whole),
        }
    }

    /// A loss that takes the samples of a batch for each other's negatives, by its name or by its labels: `arange(len(x))`.
    fn negatives(&self) -> Option<usize> {
        let tokens = self.tokens;
        let compares = |t: &PythonToken<'_>| {
            let name = t.text.to_lowercase();
            COMPARES.iter().any(|part| name.contains(part))
        };
        let named = calls(tokens, compares).next();
        named.or_else(|| {
            let ranges = calls(tokens, |t| t.is("arange"));
            let ranges: Vec<usize> = ranges.collect();
            // `self.y` is another name than `y`.
            let labels = ranges.iter().filter_map(|at| {
                let name = alias(tokens, *at)?;
                let line = &tokens[line_of(tokens, *at)..*at];
                let member = line.windows(2).any(|w| w[0].is(".") && w[1].is(name));
                Some((name, member))
            });
            let labels: Vec<(&str, bool)> = labels.collect();
            let is_loss = |t: &PythonToken<'_>| {
                let name = t.text.to_lowercase().replace('_', "");
                ["crossentropy", "criterion", "loss"]
                    .iter()
                    .any(|part| name.contains(part))
            };
            let mut losses = calls(tokens, is_loss);
            losses.find(|at| {
                let all = arguments(&tokens[at + 2..]);
                let label = |argument: &[PythonToken<'_>], at: usize| {
                    let member = at > 0 && argument[at - 1].is(".");
                    let t = &argument[at];
                    let is = t.kind == TokenKind::Name && labels.contains(&(t.text, member));
                    t.is("arange") || is
                };
                let mut given = all.iter().skip(1);
                given.any(|argument| (0..argument.len()).any(|at| label(argument, at)))
            })
        })
    }

    /// `x.std()`, `x.var(dim=0)`: a deviation over a batch, in code that makes a loss.
    fn statistics(&self) -> Option<usize> {
        let mut all = calls(self.tokens, |t| DEVIATIONS.contains(&t.text));
        all.find(|at| {
            let line = self.line(*at);
            let shows = line
                .iter()
                .any(|t| ["item", "print", "log", "no_grad"].contains(&t.text));
            self.is_over_a_batch(*at) && !shows && self.makes_a_loss(*at)
        })
    }

    fn is_over_a_batch(&self, at: usize) -> bool {
        let all = arguments(&self.tokens[at + 2..]);
        let of_tensor = at.checked_sub(2).map_or("", |at| self.tokens[at].text);
        let places = match ["torch", "np", "jnp"].contains(&of_tensor) {
            true => all.get(1..).unwrap_or_default(),
            false => &all[..],
        };
        let zero = |value: &[PythonToken<'_>]| matches!(value, [one] if one.is("0"));
        match keyword(places, "dim").or_else(|| keyword(places, "axis")) {
            Some(value) => zero(value),
            None => places
                .first()
                .is_none_or(|first| zero(first) || is_named(first)),
        }
    }

    /// Whether the function around a place computes a gradient, or says by its name that it makes a loss.
    fn makes_a_loss(&self, at: usize) -> bool {
        let function = |at| functions_around(self.tokens, at).next();
        let own = function(at);
        let mut gradients = calls(self.tokens, |t| t.is("backward"));
        let name = own.and_then(|(_, line)| line.get(1));
        let name = name.map_or("", |t| t.text).to_lowercase();
        gradients.any(|backward| function(backward) == own)
            || name.contains("loss")
            || name == "training_step"
    }

    /// `loss = (a - b).pow(2).sum()`, `reduction="sum"`, where nothing divides a loss by what it counts.
    fn sum(&self) -> Option<usize> {
        let of_loss = |t: &PythonToken<'_>| {
            t.kind == TokenKind::Name && t.text.to_lowercase().contains("loss")
        };
        let ends = |t: &PythonToken<'_>| t.kind == TokenKind::End;
        let mut lines = self.tokens.split(ends);
        let divided = lines.any(|line| {
            let counts = |t: &PythonToken<'_>| {
                let named = ["num_", "tokens"].iter().any(|part| t.text.contains(part));
                named || COUNTED.contains(&t.text) || self.batches.contains(&t.text)
            };
            let mut divisor = line.iter().skip_while(|t| !t.is("/"));
            line.iter().any(of_loss) && divisor.any(counts)
        });
        if divided || !calls_backward(self.tokens) {
            return None;
        }
        (0..self.tokens.len()).find(|at| {
            let rest = &self.tokens[*at..];
            let given = matches!(rest, [key, equals, value, ..]
                if key.is("reduction") && equals.is("=") && value.text == "sum");
            let added = matches!(rest, [dot, sum, open, close, ..]
                if dot.is(".") && sum.is("sum") && open.is("(") && close.is(")"))
                && rest_of_line(rest).len() == 4
                && !self.is_behind_a_parameter(*at)
                && self.line(*at).first().is_some_and(of_loss);
            given || added
        })
    }

    /// `log_var.` with `log_var = nn.Parameter(…)`, which has no samples.
    fn is_behind_a_parameter(&self, dot: usize) -> bool {
        let name = dot.checked_sub(1).map(|at| &self.tokens[at]);
        let mut lines = self.tokens.split(|t| t.kind == TokenKind::End);
        let makes = |line: &[PythonToken<'_>], name: &PythonToken<'_>| {
            assignment(line).is_some_and(|sign| {
                let own = line[..sign].iter().any(|t| t.is(name.text));
                own && begins_as_parameter(&line[sign + 1..])
            })
        };
        name.is_some_and(|name| lines.any(|line| makes(line, name)))
    }

    /// A counter of micro batches by which training ends.
    fn count(&self) -> Option<usize> {
        let counts = (0..self.tokens.len()).filter(|at| {
            matches!(&self.tokens[*at..], [name, plus, equals, one, ..]
                if name.kind == TokenKind::Name && plus.is("+") && equals.is("=") && one.is("1"))
                && line_of(self.tokens, *at) == *at
        });
        let mut counts = counts.filter(|at| self.is_of_each(*at));
        counts.find(|at| self.ends_at(self.tokens[*at].text))
    }

    /// Whether a loop ends where a counter has reached a limit.
    fn ends_at(&self, counter: &str) -> bool {
        let ends = |t: &PythonToken<'_>| t.kind == TokenKind::End;
        let limit = |t: &PythonToken<'_>| {
            let name = t.text.to_lowercase();
            ["max", "total", "steps", "iters"]
                .iter()
                .any(|part| name.contains(part))
        };
        let compares = |line: &[PythonToken<'_>]| {
            let is = line.windows(2).any(|pair| {
                pair[0].is(counter) && ["<", ">", "="].iter().any(|sign| pair[1].is(sign))
            });
            let first = line.first().is_some_and(|t| t.is("if") || t.is("while"));
            is && first && line.iter().any(|t| t.kind == TokenKind::Name && limit(t))
        };
        self.tokens.split(ends).any(compares)
    }

    /// `scheduler.step()`, `clip_grad_norm_(…)` after each micro batch. Accelerate's own do nothing until the last one.
    fn each(&self) -> Option<usize> {
        if self.tokens.iter().any(|t| t.is("Accelerator")) {
            return None;
        }
        let clips = |t: &PythonToken<'_>| t.text.starts_with("clip_grad_");
        let steps = |at: &usize| {
            let object = at.checked_sub(2).map_or("", |at| self.tokens[at].text);
            self.tokens[*at].is("step") && object.to_lowercase().contains("sched")
        };
        let all = calls(self.tokens, |t| t.is("step") || clips(t));
        let mut all = all.filter(|at| clips(&self.tokens[*at]) || steps(at));
        all.find(|at| self.is_of_each(*at))
    }

    /// Whether a place runs for each micro batch, in a loop where the optimizer's step waits for the accumulation: `if (i + 1) %
    /// args.accum == 0:`.
    fn is_of_each(&self, at: usize) -> bool {
        let guards = |line: &[PythonToken<'_>]| {
            line.first().is_some_and(|t| t.is("if"))
                && line.iter().any(|t| t.is("%"))
                && line.iter().any(|t| self.is_accumulation(t))
        };
        let around = |at| headers(self.tokens, at).find(|(_, header)| is_loop(header));
        let Some((begin, _)) = around(at) else {
            return false;
        };
        let same = |other| around(other).is_some_and(|(other, _)| other == begin);
        let backward = calls(self.tokens, |t| t.is("backward")).any(same);
        let waits = (0..self.tokens.len())
            .filter(|at| line_of(self.tokens, *at) == *at && guards(self.line(*at)))
            .any(same);
        let mut around = headers(self.tokens, at).take_while(|(other, _)| *other != begin);
        let branches = |header: &[PythonToken<'_>]| header[0].is("if") || header[0].is("else");
        let guarded = around.any(|(_, header)| branches(header)) || guards(self.line(at));
        // `if (i + 1) % accum: continue`
        let passes = |at: usize| self.tokens[at].is("continue") && same(at);
        let passed = || {
            (begin..at).filter(|at| passes(*at)).any(|at| {
                let above = headers(self.tokens, at).next();
                guards(self.line(at)) || above.is_some_and(|(_, header)| guards(header))
            })
        };
        backward && waits && !guarded && !passed()
    }

    /// Whether a token is the number of accumulations, or a name for it.
    fn is_accumulation(&self, token: &PythonToken<'_>) -> bool {
        let is = |name: &str| name.contains("acc") || self.accumulations.contains(&name);
        let given = || {
            let mut all = (0..self.tokens.len())
                .filter(|at| self.accumulations.contains(&self.tokens[*at].text));
            all.any(|at| alias(self.tokens, at) == Some(token.text))
        };
        token.kind == TokenKind::Name && (is(token.text) || given())
    }

    fn line(&self, at: usize) -> &[PythonToken<'_>] {
        line(self.tokens, at)
    }
}

/// `nn.Parameter(…)`: whether a value begins with it.
fn begins_as_parameter(value: &[PythonToken<'_>]) -> bool {
    let head = value.iter().take_while(|t| !t.opens());
    head.last().is_some_and(|t| t.is("Parameter"))
}

#[cfg(test)]
mod tests;
