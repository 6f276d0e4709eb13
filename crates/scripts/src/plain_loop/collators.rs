//! What makes a batch of samples.

use super::lines::calls_in;
use super::made::{MIXES, TOGETHER};
use super::means::{is_over_samples, mixes_samples};
use super::{DoubtPlace, LoopProgram, MIXED, rest_of_line};
use oomctl_base::word_list;

/// Arguments that take what makes a batch of samples.
const COLLATORS: [&str; 2] = ["data_collator", "collate_fn"];

/// Calls that put rows behind each other, of which one sample may have more than another.
const JOINS: [&str; 6] = word_list("cat concat concatenate hstack vstack block_diag");
/// Packages whose batches are graphs, joined to one.
const GRAPHS: [&str; 2] = ["torch_geometric", "dgl"];
const JOINED: &str =
    "this joins the rows of samples, and a mean over rows counts longer samples more";

impl LoopProgram<'_, '_> {
    /// What joins samples of different length to one, in a loop of one's own: a Trainer's models count what they take a mean over.
    pub(super) fn joins(&self) -> Option<DoubtPlace> {
        let pools = || {
            self.places
                .keys()
                .any(|name| name.contains("pool") || name.contains("readout"))
        };
        let graphs = GRAPHS.iter().find_map(|name| self.places(name).first());
        let graphs = graphs
            .filter(|_| !pools())
            .map(|(file, at)| (JOINED, *file, *at));
        graphs.or_else(|| {
            self.in_collators(|file, begin| {
                let line = rest_of_line(&self.files[file][begin..]);
                let single = line.iter().any(|t| t.is("unsqueeze") || t.is("None"));
                let mut all = calls_in(self.files[file], begin, line.len());
                let joins = all.find(|at| JOINS.contains(&self.files[file][*at].text));
                joins.filter(|_| !single).map(|at| (JOINED, file, at))
            })
        })
    }

    /// A collator of one's own that mixes the samples of a batch.
    pub(super) fn collators(&self) -> Option<DoubtPlace> {
        self.in_collators(|file, begin| self.mixing(file, begin))
    }

    /// What is found first in the lines of collators of one's own.
    fn in_collators(
        &self,
        find: impl Fn(usize, usize) -> Option<DoubtPlace>,
    ) -> Option<DoubtPlace> {
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
                    lines.find_map(|at| find(file, at))
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
