//! What makes a batch of samples.

use super::lines::calls_in;
use super::means::{is_over_samples, mixes_samples};
use super::{DoubtPlace, LoopProgram, MIXED, MIXES, TOGETHER, rest_of_line};

/// Arguments that take what makes a batch of samples.
const COLLATORS: [&str; 2] = ["data_collator", "collate_fn"];

impl LoopProgram<'_, '_> {
    /// A collator of one's own that mixes the samples of a batch.
    pub(super) fn collators(&self) -> Option<DoubtPlace> {
        let given = COLLATORS.iter().flat_map(|name| self.places(name));
        let names = given.filter_map(|(file, at)| match &self.files[*file][at + 1..] {
            [equals, value, ..] if equals.is("=") => Some(value.text),
            _ => None,
        });
        names.into_iter().find_map(|name| {
            let made = self.made_by(name).into_iter();
            let made = made.filter_map(|(.., value)| value.first().map(|t| t.text));
            let mut all = std::iter::once(name).chain(made);
            all.find_map(|name| {
                let mut bodies = self.bodies(name).into_iter();
                bodies.find_map(|(file, lines)| {
                    let mut lines = lines.into_iter();
                    lines.find_map(|at| self.mixing(file, at))
                })
            })
        })
    }

    /// The first call of a line that looks at several samples of a batch.
    fn mixing(&self, file: usize, begin: usize) -> Option<DoubtPlace> {
        let tokens = self.files[file];
        let length = rest_of_line(&tokens[begin..]).len();
        let mixes = |at: &usize| {
            let name = tokens[*at].text;
            let is_method = at.checked_sub(1).is_some_and(|at| tokens[at].is("."));
            MIXES.contains(&name)
                || TOGETHER.contains(&name)
                || is_method && is_over_samples(name) && mixes_samples(tokens, *at)
        };
        let mut all = calls_in(tokens, begin, length);
        all.find(mixes).map(|at| (MIXED, file, at))
    }
}
