//! Which lines of a loop over micro batches wait for the optimizer's step.

use super::super::python::line_above;
use std::collections::BTreeSet;

use super::lines::{assignment, lines_in};
use super::{LoopProgram, PythonToken, TokenKind, headers, rest_of_line};
use oomctl_base::word_list;

/// Frameworks say with it that this is the last micro batch of a step.
pub(super) const SYNCS: &str = "sync_gradients";
/// Parts of names of the last micro batch of an epoch.
const LAST: [&str; 8] = word_list("len last end final total num max steps");

/// The conditions of a loop.
pub(super) struct StepConditions<'a, 't> {
    program: &'a LoopProgram<'a, 't>,
    tokens: &'a [PythonToken<'t>],
    begin: usize,
    /// Names of conditions, each with whether it holds at the step.
    named: Vec<(&'t str, bool)>,
}

impl<'a, 't> StepConditions<'a, 't> {
    /// The conditions of the loop at `begin` with these lines, and what it hands to a function whose lines are among them.
    pub(super) fn new(
        program: &'a LoopProgram<'a, 't>,
        tokens: &'a [PythonToken<'t>],
        begin: usize,
        lines: &[usize],
    ) -> Self {
        let mut found = Self {
            program,
            tokens,
            begin,
            named: Vec::new(),
        };
        for at in lines {
            let line = rest_of_line(&tokens[*at..]);
            if assignment(line) == Some(1) {
                found.name(line[0].text, &line[2..]);
            }
        }
        found
    }

    /// Takes in another name of a condition: `is_update = (i + 1) % accum == 0`.
    pub(super) fn name(&mut self, name: &'t str, value: &[PythonToken<'_>]) {
        let counts = value.iter().any(|t| t.is("%") || t.is(SYNCS));
        if let Some(at_step) = self.holds(value).filter(|_| counts) {
            self.named.push((name, at_step));
        }
    }

    /// Whether a condition holds at the step (or at the first micro batch of one), or for all others; nothing where it asks for
    /// something else.
    pub(super) fn holds(&self, value: &[PythonToken<'_>]) -> Option<bool> {
        let ends = |clause: &[PythonToken<'_>]| {
            clause.iter().any(|t| {
                let name = t.text.to_lowercase();
                t.kind == TokenKind::Name && LAST.iter().any(|part| name.contains(part))
            })
        };
        let clauses = || value.split(|t| t.is("and") || t.is("or"));
        let found = clauses().find_map(|clause| self.clause(clause))?;
        // `(i + 1) % accum == 0 or warm` holds at others as well.
        let either = found && value.iter().any(|t| t.is("or"));
        let known = !either || clauses().all(|c| self.clause(c).is_some() || ends(c));
        known.then_some(found)
    }

    fn clause(&self, clause: &[PythonToken<'_>]) -> Option<bool> {
        let name = |t: &PythonToken<'_>| self.named.iter().find(|(name, _)| t.is(name));
        let known = clause.iter().find_map(name).map(|(_, at_step)| *at_step);
        let known = known.or_else(|| clause.iter().any(|t| t.is(SYNCS)).then_some(true));
        let is_accumulation = |t: &PythonToken<'_>| self.program.is_accumulation(t);
        let place = clause.iter().position(is_accumulation);
        let compared = clause.iter().enumerate().find_map(|(at, t)| {
            let equal = clause.get(at + 1).is_some_and(|t| t.is("="));
            let compares = t.is("<") || t.is(">") || equal && (t.is("=") || t.is("!"));
            compares.then_some(at)
        });
        let sign = compared.map_or("", |at| clause[at].text);
        let at_step = match (known, place, compared) {
            // `update is False`, `update == 0`
            (Some(known), ..) => {
                let off = clause.iter().any(|t| t.is("False") || t.is("0"));
                known != (off != (sign == "!"))
            }
            // `i % accum > 0` is so for all others, as a remainder by itself.
            (_, Some(_), _) if clause.iter().any(|t| t.is("%")) => sign == "=",
            (_, Some(place), Some(at)) => {
                let others = if place < at {
                    &clause[at..]
                } else {
                    &clause[..at]
                };
                let says = |t: &&PythonToken<'_>| t.kind == TokenKind::Name;
                // `accum > 1` says nothing of a micro batch.
                others.iter().find(says)?;
                match sign {
                    ">" => place > at,
                    "<" => place < at,
                    sign => sign == "=",
                }
            }
            // A name of its own, of which nobody knows for what it stands.
            (_, place, _) => return place.map(|_| true),
        };
        let negated = clause.iter().filter(|t| t.is("not")).count() % 2 == 1;
        Some(at_step != negated)
    }

    /// The lines that run at the step alone: below such a condition, in the other branch of the opposite one, or behind a line that
    /// passes over all other micro batches.
    pub(super) fn waiting(&self, lines: &[usize]) -> BTreeSet<usize> {
        let within = lines_in(self.tokens, self.begin);
        let passes = |line: &usize| {
            let above = headers(self.tokens, *line).next();
            let direct = above.is_some_and(|(begin, _)| begin == self.begin);
            direct && self.header(*line) == Some(false) && self.continues(*line)
        };
        let passing = within.iter().copied().find(passes);
        let waits = |at: &usize| {
            let around = headers(self.tokens, *at).take_while(|(begin, _)| *begin != self.begin);
            let around = around.map(|(begin, _)| begin);
            let mut all = std::iter::once(*at).chain(around);
            let passed = passing.is_some_and(|line| line < *at && within.contains(at));
            let ours = passing.is_some_and(|line| lines_in(self.tokens, line).contains(at));
            passed && !ours || all.any(|begin| self.header(begin) == Some(true))
        };
        lines.iter().copied().filter(waits).collect()
    }

    /// What the condition of a header says.
    fn header(&self, begin: usize) -> Option<bool> {
        let line = rest_of_line(&self.tokens[begin..]);
        match line[0].text {
            "if" | "elif" => self.holds(&line[1..]),
            "else" => self
                .header(line_above(self.tokens, begin)?)
                .map(|at_step| !at_step),
            _ => None,
        }
    }

    /// `if (i + 1) % accum: continue`
    fn continues(&self, begin: usize) -> bool {
        let is = |t: &PythonToken<'_>| t.is("continue");
        let body = lines_in(self.tokens, begin);
        let direct = |at: &usize| {
            let around = headers(self.tokens, *at).next();
            around.is_some_and(|(above, _)| above == begin)
        };
        rest_of_line(&self.tokens[begin..]).last().is_some_and(is)
            || body.iter().any(|at| is(&self.tokens[*at]) && direct(at))
    }
}
