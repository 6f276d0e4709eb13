//! Layers whose names say what they make of a micro batch.

use super::{DoubtPlace, LoopProgram, PythonToken, arguments, calls};
use oomctl_base::word_list;

const ORDER: &str =
    "without batch_first=True this takes the samples of a micro batch for the steps of a sequence";
/// Layers of PyTorch that take a sequence first by default (torch.nn: RNNBase, MultiheadAttention, Transformer).
const SEQUENCES: [&str; 8] = word_list(
    "RNN LSTM GRU MultiheadAttention Transformer TransformerEncoderLayer TransformerDecoderLayer RNNBase",
);
/// Calls by which a program may bring the sequence first.
const TURNS: [&str; 5] = word_list("transpose permute swapaxes movedim t");

impl LoopProgram<'_, '_> {
    /// A layer that takes the first axis for the sequence, where nothing turns the axes.
    pub(super) fn layers(&self) -> Option<DoubtPlace> {
        if self.uses(&TURNS) {
            return None;
        }
        let first = |given: &[&[PythonToken<'_>]]| {
            let mut given = given.iter();
            given.any(|argument| argument.first().is_some_and(|t| t.is("batch_first")))
        };
        self.files.iter().enumerate().find_map(|(file, tokens)| {
            let mut all = calls(tokens, |t| SEQUENCES.contains(&t.text));
            let layer = all.find(|at| {
                let own = || !self.bodies(tokens[*at].text).is_empty();
                !first(&arguments(&tokens[at + 2..])) && !own()
            });
            layer.map(|at| (ORDER, file, at))
        })
    }
}
