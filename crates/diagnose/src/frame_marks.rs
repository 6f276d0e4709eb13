//! What the frames of a traceback show beside the phase.

use serde::{Deserialize, Serialize};

#[cfg(doc)]
use super::phase::Markers;
use super::phase::{MARKERS, any_fits};
use oomctl_base::word_list;

/// What any frame of a traceback, or a line of source below one, shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct FrameMarks {
    /// One process drives several GPUs ([`super::replicas`]).
    pub replicas: bool,
    /// It holds the logits of the vocabulary ([`Markers::logits`]).
    logits: bool,
    /// It holds one number for each class ([`Markers::class_scores`]).
    class_scores: bool,
    /// Its classes are words of a vocabulary ([`Markers::vocabulary`]).
    words: bool,
    /// It holds the attention scores of all pairs of positions ([`Markers::attention_scores`]).
    pub attention_scores: bool,
    /// It calls attention that may hold them ([`Markers::attention_calls`]).
    pub attention_call: bool,
    /// It computes a layer of the model ([`Markers::layers`]).
    layer: bool,
    /// It evaluates with batches of its own ([`Markers::evaluation_loaders`]).
    pub own_loader: bool,
    /// It is of a package that trains on sequences, whose batches vary in size.
    pub sequences: bool,
}

/// Folders of packages that train on sequences.
const SEQUENCES: [&str; 13] = word_list(
    "/transformers/ /trl/ /verl/ /openrlhf/ /megatron/ /fairseq/ /llamafactory/ /swift/ /axolotl/ /torchtune/ /unsloth/ /nemo_rl/
     /espnet",
);

impl FrameMarks {
    /// Takes a canonical frame or a line of source.
    pub(crate) fn see(&mut self, line: &str) {
        self.logits |= any_fits(&MARKERS.logits, line);
        self.class_scores |= any_fits(&MARKERS.class_scores, line);
        self.words |= any_fits(&MARKERS.vocabulary, line);
        self.attention_scores |= any_fits(&MARKERS.attention_scores, line);
        self.attention_call |= any_fits(&MARKERS.attention_calls, line);
        self.layer |= any_fits(&MARKERS.layers, line);
        self.own_loader |= any_fits(&MARKERS.evaluation_loaders, line);
        self.sequences |= SEQUENCES.iter().any(|package| line.contains(package));
    }

    /// It holds the logits of the vocabulary.
    pub(crate) fn holds_logits(self) -> bool {
        self.logits || self.class_scores && (self.words || self.sequences)
    }

    /// A layer of the model is computed where no logits lie.
    pub(crate) fn in_layer(self) -> bool {
        (self.layer || self.attention_scores) && !self.logits && !self.class_scores
    }
}
