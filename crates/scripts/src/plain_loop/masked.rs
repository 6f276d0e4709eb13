//! A loss that a class computes of what counts in a micro batch: in the forward of a model that returns its loss, in a loss of one's own.

use super::super::python::{functions_around, keyword, line_begins};
use super::lines::lines_in;
use super::means::{adds_up, weighs};
use super::{
    DoubtPlace, LoopProgram, PythonToken, TokenKind, WEIGHED, arguments, headers, line_of,
    rest_of_line,
};
use oomctl_base::word_list;

/// What a class defines that PyTorch or Lightning calls.
const STEPS: [&str; 2] = ["forward", "training_step"];
/// Parts of the names of calls that make a loss.
const LOSSES: [&str; 6] = word_list("loss criterion cross_entropy nll_loss log_prob mse");
/// Calls that write a number into labels.
const WRITES: [&str; 8] =
    word_list("full full_like fill fill_ masked_fill masked_fill_ where pad_sequence");

/// The name of the class of layers around a place: one that is a module, or has a forward.
pub(super) fn class_around<'t>(tokens: &[PythonToken<'t>], at: usize) -> Option<&'t str> {
    let (begin, header) = headers(tokens, at).find(|(_, header)| header[0].is("class"))?;
    let defines = |at: &usize| {
        let mut pairs = rest_of_line(&tokens[*at..]).windows(2);
        pairs.any(|w| w[0].is("def") && STEPS.contains(&w[1].text))
    };
    let is_module = header.iter().any(|t| t.text.ends_with("Module"))
        || lines_in(tokens, begin).iter().any(defines);
    Some(header.get(1)?.text).filter(|_| is_module)
}

impl LoopProgram<'_, '_> {
    /// Whether the call at `at`, in a class of layers, is a mean over what counts.
    pub(super) fn weighs_in_a_module(&self, file: usize, at: usize) -> bool {
        let tokens = self.files[file];
        let why = weighs(tokens, at).or_else(|| adds_up(tokens, at));
        why == Some(WEIGHED)
            && class_around(tokens, at).is_some()
            && !self.ignores_what_it_never_writes(tokens, at)
    }

    /// The rows that a condition picks in such a class, where a loss is made of them.
    pub(super) fn picks_in_a_module(&self, file: usize) -> Option<DoubtPlace> {
        let tokens = self.files[file];
        let mut picked = line_begins(tokens).filter_map(|begin| self.picks_rows(file, begin));
        let found =
            picked.find(|at| makes_a_loss(tokens, *at) && class_around(tokens, *at).is_some());
        found.map(|at| (WEIGHED, file, at))
    }

    /// `ignore_index=-1` where no line writes -1 into labels: no label is ignored.
    fn ignores_what_it_never_writes(&self, tokens: &[PythonToken<'_>], at: usize) -> bool {
        let all = arguments(&tokens[at + 2..]);
        let Some([minus, number]) = keyword(&all, "ignore_index") else {
            return false;
        };
        let is_number = |w: &[PythonToken<'_>]| w[0].is("-") && w[1].is(number.text);
        let writes = |tokens: &[PythonToken<'_>]| {
            (0..tokens.len().saturating_sub(1)).any(|at| {
                let begin = line_of(tokens, at);
                let line = &tokens[begin..at];
                let into = line.iter().any(|t| t.is("]")) && line.last().is_some_and(|t| t.is("="));
                let called = line.iter().any(|t| {
                    WRITES.contains(&t.text) || ["label", "pad"].iter().any(|p| t.text.contains(p))
                });
                is_number(&tokens[at..at + 2]) && (into || called)
            })
        };
        let mut ignores = self.files.iter();
        minus.is("-") && !ignores.any(|tokens| writes(tokens))
    }
}

/// Whether the function around a place makes a loss.
fn makes_a_loss(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let Some((begin, _)) = functions_around(tokens, at).next() else {
        return false;
    };
    let lines = lines_in(tokens, begin).into_iter();
    let mut names = lines.flat_map(|at| rest_of_line(&tokens[at..]));
    names.any(|t| {
        let name = t.text.to_lowercase();
        t.kind == TokenKind::Name && LOSSES.iter().any(|part| name.contains(part))
    })
}
