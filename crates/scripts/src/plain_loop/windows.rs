//! A loop over the micro batches of one step that were collected before, with a count over all of them: `n = sum(count(b) for b in
//! window)`, then `for batch in window:` with the sum of its losses divided by `n`.

use super::lines::{
    assignment, calls_in, has_sign_or_mean, is_optimizer, lines_in, reduces_to_a_sum,
};
use super::{LoopOfBatches, LoopProgram, PythonToken, headers, rest_of_line};
use oomctl_base::word_list;

/// What adds up over the samples of a batch, and what does not.
const ADDS: [&str; 2] = ["sum", "len"];
const DIFFERS: [&str; 6] = word_list("mean max min numel shape size");

/// The name of what the loop at `begin` goes over, and the loop around it that collects so many micro batches.
fn window<'t>(
    program: &LoopProgram<'_, '_>,
    tokens: &[PythonToken<'t>],
    begin: usize,
) -> Option<(&'t str, usize)> {
    let header = rest_of_line(&tokens[begin..]);
    let [.., within, name, _] = header else {
        return None;
    };
    let (outer, around) = headers(tokens, begin).next()?;
    let sign = around.iter().position(|t| t.is("in"))?;
    let (targets, over) = around.split_at(sign);
    let collects = targets.last().is_some_and(|t| t.is(name.text))
        && over.iter().any(|t| program.is_accumulation(t));
    let steps = |at: &usize| {
        let mut calls = calls_in(tokens, *at, rest_of_line(&tokens[*at..]).len());
        calls.any(|at| tokens[at].is("step") || is_optimizer(tokens[at].text))
    };
    let waits = !lines_in(tokens, begin).iter().any(steps);
    let loops = [header, around].iter().all(|line| line[0].is("for"));
    (loops && within.is("in") && collects && waits).then_some((name.text, outer))
}

/// Whether the loop at `begin` goes over the micro batches of one step.
pub(super) fn is_window(
    program: &LoopProgram<'_, '_>,
    tokens: &[PythonToken<'_>],
    begin: usize,
) -> bool {
    window(program, tokens, begin).is_some()
}

impl<'t> LoopOfBatches<'_, 't> {
    /// The name of a count over the whole window.
    fn count(&self) -> Option<&'t str> {
        let (window, outer) = window(self.program, self.tokens, self.begin)?;
        let before = lines_in(self.tokens, outer).into_iter();
        let mut before = before.filter(|at| *at < self.begin);
        before.find_map(|at| {
            let line = self.line(at);
            let sign = assignment(line).filter(|sign| *sign == 1)?;
            let value = &line[sign + 1..];
            let over = value
                .windows(3)
                .any(|w| w[0].is("in") && w[1].is(window) && w[2].is(")"));
            let has = |words: &[&str]| value.iter().any(|t| words.contains(&t.text));
            let sums = value.first().is_some_and(|t| t.is("sum"));
            let each = value.get(1..)?.iter().any(|t| ADDS.contains(&t.text));
            (sums && each && over && !has(&DIFFERS)).then_some(line[0].text)
        })
    }

    /// Whether its loss is a sum that is divided by a count over the whole window, and by nothing else: the same however the window
    /// is cut.
    pub(super) fn counts_its_window(&self) -> bool {
        let Some(count) = self.count().filter(|_| !self.is_framework()) else {
            return false;
        };
        let divides = |line: &[PythonToken<'_>]| {
            let mut pairs = line.windows(2);
            pairs.any(|w| w[0].is("/") && w[1].is(count))
        };
        let all = || self.lines.iter().map(|at| self.line(*at));
        let of_loss = |line: &&[PythonToken<'_>]| {
            line.iter()
                .any(|t| t.text.contains("loss") || t.is("backward"))
        };
        let signs = all().filter(of_loss).flatten().filter(|t| t.is("/"));
        signs.count() == 1
            && all()
                .filter(of_loss)
                .filter(|line| reduces_to_a_sum(line))
                .count()
                == 1
            && all().any(divides)
            && !all()
                .filter(of_loss)
                .any(|line| has_sign_or_mean(line, ["+", "*"]))
            && !self
                .program
                .is_handed("Accelerator", |t| self.program.is_accumulation(t))
    }
}
