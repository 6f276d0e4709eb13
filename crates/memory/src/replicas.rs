//! What one process that drives several GPUs (`nn.DataParallel`) takes of the first, and of each of the others.

use serde::Serialize;

use super::estimate::estimate;
use super::phase::Phase;
use super::profile::Profile;
use super::spec::{Sharding, Spec};
use super::terms::Term;

/// Terms that only the first GPU has. The others hold a copy of the weights that is made anew for each forward pass
/// (`replicate.py`); gradients are summed into the first, where the optimizer works, and outputs are gathered there.
const ON_THE_FIRST: [&str; 4] = [
    "optimizer",
    "optimizer temporaries",
    "gradients",
    "replica outputs",
];

/// Memory of the first GPU and of the others, by the memory model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Replicas {
    /// The phase in which the first GPU is fullest.
    pub phase: Phase,
    /// Bytes on the first GPU in it.
    pub first_bytes: f64,
    /// Most bytes on each of the others, in any phase.
    pub other_bytes: f64,
    /// What only the first GPU holds in that phase, the largest first.
    pub only_first: Vec<Term>,
}

/// The numbers for a job of that kind; `None` for others.
pub fn replicas(spec: &Spec, profile: &Profile) -> Option<Replicas> {
    if spec.sharding != Sharding::DataParallel || spec.gpus <= 1.0 {
        return None;
    }
    let estimate = estimate(spec, profile);
    let fullest = estimate.fullest()?;
    let only = |term: &&Term| ON_THE_FIRST.contains(&term.name);
    let shared = |terms: &[Term]| {
        terms
            .iter()
            .filter(|t| !only(t))
            .map(|t| t.bytes)
            .sum::<f64>()
    };
    let others = estimate.phases.iter().map(|phase| shared(&phase.terms));
    Some(Replicas {
        phase: fullest.phase,
        first_bytes: fullest.bytes,
        other_bytes: others.fold(0.0, f64::max),
        only_first: fullest.terms.iter().filter(only).copied().collect(),
    })
}
