//! What a loop does by the number of its micro batches: where it ends, what a step takes, when a step comes.

use super::super::python::{functions_around, line_begins};
use super::computed::scales_a_rate;
use super::lines::{assignment, lines_in, shows};
use super::{
    COUNT, LoopOfBatches, PythonToken, TokenKind, arguments, bracket, line_of, rest_of_line,
};

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

    /// Where the first step comes after the first micro batch.
    pub(super) fn counted(&self) -> Option<(&'static str, usize)> {
        let mut all = self.lines.iter().chain(&self.waits);
        let early = all.find(|at| self.steps_at_the_first(**at));
        early.map(|at| (COUNT, *at))
    }

    /// Behind a loop over the micro batches of a step, what goes by how many there were: `if updates % 100 == 0: copy(target, model)`.
    pub(super) fn counted_behind(&self) -> Option<(&'static str, usize)> {
        let raised = |at: &usize| match self.line(*at) {
            [.., name, plus, equals, one] if plus.is("+") && equals.is("=") && one.is("1") => {
                Some(name.text)
            }
            _ => None,
        };
        let names: Vec<&str> = self.lines.iter().filter_map(raised).collect();
        let function = |at: usize| functions_around(self.tokens, at).next().map(|(at, _)| at);
        let acts = |begin: &usize| {
            let line = self.line(*begin);
            let condition = ["if", "elif", "while"].contains(&line[0].text);
            let rates = scales_a_rate(line)
                || self.is_of_groups(*begin)
                || line.iter().any(|t| t.is("param_groups"));
            let ours = line.iter().any(|t| self.program.is_accumulation(t));
            let named = line
                .iter()
                .any(|t| t.kind == TokenKind::Name && names.contains(&t.text));
            named && !ours && (condition && !self.is_beside_training(*begin) || rates)
        };
        let counts = self.accumulates && !names.is_empty();
        let mut lines = line_begins(self.tokens).filter(|at| counts && !self.line(*at).is_empty());
        let own = |at: &usize| self.lines.contains(at) || self.waits.contains(at);
        let found = lines.find(|at| {
            !own(at) && *at != self.begin && function(*at) == function(self.begin) && acts(at)
        });
        found.map(|at| (COUNT, at))
    }

    /// Whether a condition or what it guards has a statement of one of these words.
    pub(super) fn has_in_it(&self, begin: usize, words: &[&str]) -> bool {
        let is = |t: &PythonToken<'_>| words.contains(&t.text);
        let mut body = lines_in(self.tokens, begin).into_iter();
        body.any(|at| is(&self.tokens[at])) || self.line(begin).iter().any(is)
    }

    /// Whether a line has the name of something that counts micro batches: `i`, `self.seen`, and no `scheduler.step()`.
    pub(super) fn names_a_counter(&self, line: &[PythonToken<'_>]) -> bool {
        (0..line.len()).any(|at| {
            let member = at.checked_sub(1).is_some_and(|at| line[at].is("."));
            let called = line.get(at + 1).is_some_and(|t| t.is("("));
            let named = line.get(at + 1).is_some_and(|t| t.is("=")) && bracket(line, at).is_some();
            line[at].kind == TokenKind::Name
                && match member {
                    true => !called && self.is_counting_member(line[at].text),
                    false => !named && self.is_counter(line[at].text),
                }
        })
    }

    /// `model.seen += 1`
    pub(super) fn is_counting_member(&self, name: &str) -> bool {
        self.lines.iter().any(|at| {
            let line = self.line(*at);
            let raised = matches!(line, [.., dot, member, plus, equals, one]
                if dot.is(".") && member.is(name) && plus.is("+") && equals.is("=") && one.is("1"));
            // `self.seen = self.seen + 1`
            raised
                || matches!(line, [own, _, member, equals, again, _, same, plus, one]
                    if own.is("self") && member.is(name) && equals.is("=") && again.is("self")
                        && same.is(name) && plus.is("+") && one.is("1"))
        })
    }

    /// Whether a member stands nowhere but in the lines of the loop, where it begins (`self.seen = 0`) and where it is shown.
    pub(super) fn is_of_the_loop(&self, name: &str) -> bool {
        self.program.places(name).iter().all(|(file, at)| {
            let tokens = self.program.files[*file];
            let begin = line_of(tokens, *at);
            let line = rest_of_line(&tokens[begin..]);
            let begins = matches!(line, [_, dot, member, equals, zero]
                if dot.is(".") && member.is(name) && equals.is("=") && zero.kind == TokenKind::Number);
            let mut own = self.lines.iter().chain(&self.waits);
            *file == self.file && own.any(|known| *known == begin) || begins || shows(line)
        })
    }

    /// `if i % accum == 0` with an `i` from 0, or `waits = i % accum != 0` and `if not waits`.
    fn steps_at_the_first(&self, begin: usize) -> bool {
        let header = self.line(self.begin);
        let from_0 = header.iter().any(|t| t.is("enumerate")) && !header.iter().any(|t| t.is("1"));
        let number = header.get(1).filter(|_| from_0);
        let Some(number) = number.filter(|t| t.kind == TokenKind::Name) else {
            return false;
        };
        let line = self.line(begin);
        // A condition on what else is done then is none.
        let mut body = lines_in(self.tokens, begin).into_iter();
        let steps = !line[0].is("if")
            || body.any(|at| {
                let mut pairs = self.line(at).windows(2);
                pairs.any(|w| w[0].is("step") && w[1].is("("))
            });
        let named = || {
            let mut all = self.lines.iter().map(|at| self.line(*at));
            all.any(|made| {
                assignment(made) == Some(1)
                    && line.iter().any(|t| t.is(made[0].text))
                    && self.begins_with(made, number.text)
            })
        };
        steps && (self.begins_with(line, number.text) || line[0].is("if") && named())
    }

    /// Whether a line asks for the first micro batch of a step by the number of it: `i % accum == 0`, `not i % accum`, or for all
    /// others.
    fn begins_with(&self, line: &[PythonToken<'_>], number: &str) -> bool {
        line.windows(2).enumerate().any(|(at, w)| {
            let rest = &line[at + 1..];
            let mut by = rest.iter().take(4);
            let ours =
                w[0].is(number) && w[1].is("%") && by.any(|t| self.program.is_accumulation(t));
            let is_0 = rest
                .windows(3)
                .any(|w| ["=", "!"].contains(&w[0].text) && w[1].is("=") && w[2].is("0"));
            let no = at.checked_sub(1).is_some_and(|at| line[at].is("not"));
            ours && (is_0 || no)
        })
    }
}
