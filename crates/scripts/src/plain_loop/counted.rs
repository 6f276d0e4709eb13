//! What a loop does by the number of its micro batches: where it ends, what a step takes, when a step comes.

use super::lines::{lines_in, shows};
use super::{COUNT, LEAVES, LoopOfBatches, PythonToken, TokenKind, arguments};

/// Parts of names of rates and of what sets them.
const RATES: [&str; 4] = ["lr", "rate", "sched", "scheduler"];

impl LoopOfBatches<'_, '_> {
    /// `for step in range(max_steps)`, `while n < max_steps`: so many micro batches, and as many whatever their size.
    pub(super) fn goes_over_a_count(&self) -> bool {
        let header = self.line(self.begin);
        let has = |text: &str| header.iter().any(|t| t.is(text));
        let range = header.iter().position(|t| t.is("range"));
        // `range(0, n, batch)` and `range(len(loader))` follow the batch.
        let follows = range.is_some_and(|at| {
            header
                .get(at + 2..)
                .is_some_and(|rest| arguments(rest).len() > 2)
                || has("len")
        });
        // `steps * accum` of them are as many steps.
        let accumulates = |t: &PythonToken<'_>| {
            let made = self.program.made_by(t.text);
            let mut made = made.iter().flat_map(|(.., value)| value.iter());
            t.kind == TokenKind::Name && made.any(|t| self.program.is_accumulation(t))
        };
        let follows = follows || header.iter().any(accumulates);
        let ranges = header[0].is("for") && range.is_some() && !follows;
        let compares = header[0].is("while") && (has("<") || has(">") || has("!"));
        ranges || compares && self.names_a_counter(header)
    }

    /// Where the loss of one micro batch ends the loop, a rate is taken by the number of micro batches, or the first step comes after
    /// the first of them.
    pub(super) fn counted(&self) -> Option<(&'static str, usize)> {
        let all = || self.lines.iter().chain(&self.waits);
        let ends = all().find(|at| self.ends_by_loss(**at));
        let rates = || self.waits.iter().find(|at| self.takes_a_rate(**at));
        let early = || all().find(|at| self.steps_at_the_first(**at));
        let found = ends.or_else(rates).or_else(early);
        found.map(|at| (COUNT, *at))
    }

    /// Whether a condition or what it guards has a statement of one of these words.
    pub(super) fn has_in_it(&self, begin: usize, words: &[&str]) -> bool {
        let is = |t: &PythonToken<'_>| words.contains(&t.text);
        let mut body = lines_in(self.tokens, begin).into_iter();
        body.any(|at| is(&self.tokens[at])) || self.line(begin).iter().any(is)
    }

    /// Whether a line has the name of something that counts micro batches.
    pub(super) fn names_a_counter(&self, line: &[PythonToken<'_>]) -> bool {
        let counts = |t: &PythonToken<'_>| t.kind == TokenKind::Name && self.is_counter(t.text);
        line.iter().any(counts)
    }

    /// `if loss.item() < 0.1: break`
    fn ends_by_loss(&self, begin: usize) -> bool {
        let line = self.line(begin);
        let compares = line.iter().any(|t| t.is("<") || t.is(">"));
        let loss = |t: &PythonToken<'_>| {
            t.kind == TokenKind::Name && t.text.to_lowercase().contains("loss")
        };
        let leaves = || self.has_in_it(begin, &LEAVES) || self.has_in_it(begin, &["continue"]);
        line[0].is("if") && compares && line.iter().any(loss) && leaves()
    }

    /// `lr = get_lr(i)` before a step.
    fn takes_a_rate(&self, begin: usize) -> bool {
        let line = self.line(begin);
        let rate = |t: &PythonToken<'_>| {
            let name = t.text.to_lowercase();
            let mut parts = name.split('_');
            t.is("param_groups") || parts.any(|part| RATES.contains(&part))
        };
        // `scheduler.step()` has none of a name `step`.
        let counts = |at: usize| {
            let member = at.checked_sub(1).is_some_and(|at| line[at].is("."));
            line[at].kind == TokenKind::Name && !member && self.is_counter(line[at].text)
        };
        let of_steps = line.iter().any(|t| self.program.is_accumulation(t));
        let rates = !of_steps && !shows(line) && line.iter().any(rate);
        rates && (0..line.len()).any(counts)
    }

    /// `if i % accum == 0` with an `i` from 0.
    fn steps_at_the_first(&self, begin: usize) -> bool {
        let line = self.line(begin);
        let header = self.line(self.begin);
        let from_0 = header.iter().any(|t| t.is("enumerate")) && !header.iter().any(|t| t.is("1"));
        let number = header.get(1).filter(|_| from_0);
        let Some(number) = number.filter(|t| t.kind == TokenKind::Name) else {
            return false;
        };
        // A condition on what else is done then is none.
        let mut body = lines_in(self.tokens, begin).into_iter();
        let steps = !line[0].is("if")
            || body.any(|at| {
                let mut pairs = self.line(at).windows(2);
                pairs.any(|w| w[0].is("step") && w[1].is("("))
            });
        steps
            && line.windows(3).enumerate().any(|(at, w)| {
                let by = line[at + 2..].iter().take(4);
                let divides = w[0].is(number.text) && w[1].is("%");
                let ours = divides && by.clone().any(|t| self.program.is_accumulation(t));
                let rest = &line[at + 2..];
                let is_0 = rest
                    .windows(3)
                    .any(|w| w[0].is("=") && w[1].is("=") && w[2].is("0"));
                let no = at.checked_sub(1).is_some_and(|at| line[at].is("not"));
                ours && (is_0 || no)
            })
    }
}
