//! Rows of a micro batch that a condition picks: a mean over them weighs each row by how many others its micro batch picked.

use super::super::python::is_keyword;
use super::lines::assignment;
use super::{LoopProgram, PythonToken, TokenKind, arguments, rest_of_line};
use oomctl_base::word_list;

/// Parts of names of what says which places count.
const SAYS: [&str; 2] = ["mask", "valid"];
/// Calls whose result is one.
const MAKES: [&str; 6] = word_list("nonzero where isnan isfinite bool flatnonzero");

impl LoopProgram<'_, '_> {
    /// `out[y != 0]`, `out[keep]` with `keep = y != 0`: where a line picks rows by what they hold.
    pub(super) fn picks_rows(&self, file: usize, begin: usize) -> Option<usize> {
        let tokens = self.files[file];
        let line = rest_of_line(&tokens[begin..]);
        // `labels[~keep] = 0` sets each place by itself.
        let sign = assignment(line).unwrap_or(0);
        if line[..sign].iter().any(|t| t.is("[")) {
            return None;
        }
        (begin + 1..begin + line.len()).find(|at| {
            let of = &tokens[at - 1];
            let is_part = of.kind == TokenKind::Name && !is_keyword(of.text) || of.closes();
            // The first index decides: `m` of `[m, 0]`.
            let rows = || arguments(&tokens[at + 1..]).first().copied();
            is_part && tokens[*at].is("[") && rows().is_some_and(|index| self.is_mask(index, 0))
        })
    }

    /// Whether an index says of each row whether it counts.
    fn is_mask(&self, index: &[PythonToken<'_>], depth: usize) -> bool {
        match index {
            [name] if name.kind == TokenKind::Name => {
                let made = self.made_by(name.text);
                let mut by_condition = made.iter().map(|(.., value)| value);
                says(name) || depth == 0 && by_condition.any(|value| self.is_mask(value, 1))
            }
            _ => {
                let compares = |w: &[PythonToken<'_>]| {
                    let sign = w[0].is("<") || w[0].is(">");
                    sign || (w[0].is("=") || w[0].is("!")) && w[1].is("=")
                };
                let makes = |w: &[PythonToken<'_>]| MAKES.contains(&w[0].text) && w[1].is("(");
                let inverts = index.first().is_some_and(|t| t.is("~"));
                let mut last = index.iter().rev().filter(|t| t.kind == TokenKind::Name);
                let is_slice = index.iter().any(|t| t.is(":"));
                let is_choice = index.iter().any(|t| t.is("if") || t.is("lambda"));
                !is_slice
                    && !is_choice
                    && (inverts
                        || index.windows(2).any(|w| compares(w) || makes(w))
                        || depth == 0 && last.next().is_some_and(says))
            }
        }
    }
}

fn says(name: &PythonToken<'_>) -> bool {
    let name = name.text.to_lowercase();
    SAYS.iter().any(|part| name.contains(part))
}
