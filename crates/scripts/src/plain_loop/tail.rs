//! The end of an epoch, where its rows do not fill the last step.

use super::lines::{calls_in, is_optimizer, lines_in};
use super::{DoubtPlace, LoopOfBatches, LoopProgram, rest_of_line};

const TAIL: &str = "with accumulation, what the rows at the end of an epoch leave of a step is dropped or goes into the next epoch";

const REST: &str = "with accumulation, the last step of an epoch may have fewer micro batches, and its loss is divided as if it had all";

impl LoopProgram<'_, '_> {
    /// The condition that lets an optimizer step after so many micro batches, and never at the end of the loop over a loader or there
    /// after fewer.
    pub(super) fn tail(&self) -> Option<DoubtPlace> {
        let drops = |(file, at): &(usize, usize)| {
            let given = &self.files[*file][at + 1..];
            !matches!(given, [equals, no, ..] if equals.is("=") && no.is("False"))
        };
        if self.places("drop_last").iter().any(drops) {
            return None;
        }
        self.loops().iter().find_map(LoopOfBatches::tail)
    }
}

impl LoopOfBatches<'_, '_> {
    fn tail(&self) -> Option<DoubtPlace> {
        if self.accumulates || self.is_framework() || !self.tokens[self.begin].is("for") {
            return None;
        }
        let waits = |at: usize, at_end: bool| {
            let line = self.line(at);
            let has = |text: &str| line.iter().any(|t| t.is(text));
            let accumulates = line.iter().any(|t| self.program.is_accumulation(t));
            let ends = has("or") || has("len");
            line[0].is("if") && has("%") && accumulates && ends == at_end
        };
        let found = |at_end: bool| {
            let mut all = self.waits.iter().copied();
            all.find(|at| waits(*at, at_end))
        };
        if let Some(at) = found(true) {
            return Some((REST, self.file, at));
        }
        let at = found(false)?;
        (!self.steps_outside()).then_some((TAIL, self.file, at))
    }

    /// Whether an optimizer steps elsewhere in this file than in the loop.
    fn steps_outside(&self) -> bool {
        let inside = lines_in(self.tokens, self.begin);
        let ends = inside.last().map_or(self.begin, |at| {
            at + rest_of_line(&self.tokens[*at..]).len()
        });
        let mut all = calls_in(self.tokens, 0, self.tokens.len());
        all.any(|at| {
            let object = at.checked_sub(2).map_or("", |at| self.tokens[at].text);
            let steps = self.tokens[at].is("step") && is_optimizer(object);
            steps && !(self.begin..ends).contains(&at)
        })
    }
}
