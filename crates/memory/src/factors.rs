//! What an estimate cannot know, as factors that one job has and keeps.

use super::terms::{KINDS, TermKind};

/// How far one job lies from the formulas. [`Factors::default`] is the middle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Factors {
    /// Factor on each kind of term, in the order of [`TermKind`].
    pub kinds: [f64; KINDS],
    /// Bytes on top, in every phase.
    pub constant: f64,
    /// Tokens really in a micro batch over those expected; moves activations and logits.
    pub fill: f64,
}

impl Default for Factors {
    fn default() -> Self {
        Self {
            kinds: [1.0; KINDS],
            constant: 0.0,
            fill: 1.0,
        }
    }
}

impl Factors {
    /// The factor on terms of a kind.
    #[must_use]
    pub fn of(&self, kind: TermKind) -> f64 {
        let own = self.kinds[kind as usize];
        match kind {
            TermKind::Activations | TermKind::Logits => own * self.fill,
            TermKind::States | TermKind::Engine | TermKind::Outside => own,
        }
    }
}
