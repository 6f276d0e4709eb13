//! How many copies of the logits a loss keeps. Which kernels and casts a program really uses depends on versions that no
//! configuration names, so a stack's profile states each way through its code with a probability.

use std::sync::Arc;

use super::profile::{LossPath, Profile};

/// What a loss keeps.
#[derive(Debug, Clone, PartialEq)]
pub struct Loss {
    /// Bytes per logit, all copies alive at the peak; the middle of all ways.
    pub bytes: f64,
    /// What each way through the code takes of it, as a factor, in the order of [`Profile::paths`].
    pub by_path: Arc<[f64]>,
}

/// A way through the code whose losses are told by factors alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Path {
    /// Its probability.
    pub chance: f64,
    /// Logits are copied to fp32.
    pub fp32: bool,
}

/// Ways through the code of a stack of which nothing is stated: most losses are in fp32, and a version keeps more or fewer
/// copies than another. Chance, fp32, factor in training, and without gradients.
const GENERAL: [(f64, bool, f64, f64); 3] = [
    (0.3, false, 0.75, 0.75),
    (0.4, true, 1.0, 1.0),
    (0.3, true, 1.3, 1.3),
];

impl Profile {
    /// The ways from logits to a loss.
    pub fn paths(&self) -> Vec<Path> {
        if self.loss_paths.is_empty() {
            let path = |(chance, fp32, ..): (f64, bool, f64, f64)| Path { chance, fp32 };
            return GENERAL.into_iter().map(path).collect();
        }
        let all: f64 = self.loss_paths.iter().map(|p| p.chance).sum();
        let path = |p: &LossPath| Path {
            chance: p.chance / all,
            fp32: p.fp32,
        };
        self.loss_paths.iter().map(path).collect()
    }

    /// A loss in training, under these circumstances (as `logit_bytes`).
    pub fn loss(&self, name: &str, marks: &[&str]) -> Loss {
        let bytes = self.logit_bytes(name, marks);
        let general = GENERAL.map(|(_, _, factor, _)| factor);
        self.by_path(bytes, general, |path| path.logits.get(name))
    }

    /// A loss of a forward pass alone (log-probabilities).
    pub fn forward_loss(&self, name: &str) -> Loss {
        let bytes = self.forward_logit_bytes(name);
        let general = GENERAL.map(|(.., factor)| factor);
        self.by_path(bytes, general, |path| path.logits_forward.get(name))
    }

    fn by_path<'a>(
        &'a self,
        bytes: f64,
        general: [f64; GENERAL.len()],
        stated: impl Fn(&'a LossPath) -> Option<&'a f64>,
    ) -> Loss {
        let factor = |path| stated(path).map_or(1.0, |b| b / bytes);
        let by_path = match self.loss_paths.is_empty() {
            true => general.into(),
            false => self.loss_paths.iter().map(factor).collect(),
        };
        Loss { bytes, by_path }
    }
}
