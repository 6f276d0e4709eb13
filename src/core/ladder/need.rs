//! What the phases of a job need under a particle at its hidden factors.

use std::sync::Arc;

use super::fragmentation::Fragmentation;
use super::particle::Particle;
use oomctl_memory::{FRAGMENTS, KINDS, PIECES, Phase, PhaseTerms, Spec, TermKind};

/// Sequences of a micro batch that is as full as is expected.
const FILLED: f64 = 8.0;

/// How near the sum of so many sequences comes to their mean, against that of `FILLED`. One sequence may be the longest;
/// of many the sum comes close to the mean, as the root of their number.
fn mixed(sequences: f64) -> f64 {
    let near = |n: f64| 1.0 - 1.0 / n.max(1.0).sqrt();
    near(sequences) / near(FILLED)
}

/// A phase as sums by kind.
#[derive(Debug, Clone)]
pub(super) struct PhaseSums {
    pub sums: [f64; KINDS],
    /// How near the sequences whose lengths add up to what moves come to their mean; `None` where they are padded, or make
    /// up a budget.
    pub mixed: Option<f64>,
    /// What each way from logits to a loss takes of them, as a factor.
    paths: Arc<[f64]>,
    /// What the optimizer copies for its step, in bytes.
    temporaries: f64,
    /// What is free but in pieces.
    pieces: Fragmentation,
    /// Of the sums what is free between blocks in use.
    fragments: f64,
    /// It is the forward or the backward pass of the update.
    pub updates: bool,
}

impl PhaseSums {
    /// A phase as it is from the second step on.
    pub fn of(spec: &Spec, phase: &PhaseTerms) -> Self {
        let mut sums = [0.0; KINDS];
        let (mut temporaries, mut pieces, mut fragments) = (0.0, 0.0, 0.0);
        for term in &phase.terms {
            // What is gathered is as large as the weights, whatever the sequences.
            let kind = match term.name {
                "optimizer temporaries" => {
                    temporaries += term.bytes;
                    continue;
                }
                PIECES => {
                    pieces += term.bytes;
                    continue;
                }
                FRAGMENTS => {
                    fragments += term.bytes;
                    term.kind
                }
                name if name.starts_with("gathered") => TermKind::States,
                _ => term.kind,
            };
            sums[kind as usize] += term.bytes;
        }
        Self {
            sums,
            mixed: sequences(spec, phase.phase).map(mixed),
            paths: Arc::clone(&spec.loss_of(phase.phase).by_path),
            temporaries,
            pieces: Fragmentation::new(spec, pieces),
            fragments,
            updates: matches!(phase.phase, Phase::Forward | Phase::Backward),
        }
    }

    /// A phase as it is in the first step: the optimizer makes its moments at the end of it.
    pub fn without_moments(spec: &Spec, phase: &PhaseTerms) -> Self {
        let mut need = Self::of(spec, phase);
        let moments = phase.terms.iter().filter(|t| t.name == "optimizer");
        for term in moments.filter(|_| phase.phase != Phase::OptimizerStep) {
            need.sums[term.kind as usize] -= term.bytes;
        }
        need
    }

    /// Bytes under a particle.
    pub fn bytes(&self, particle: &Particle) -> f64 {
        self.whole(particle) + self.in_pieces(particle.number)
    }

    /// Bytes in pieces under a particle; `None` where there are none.
    pub fn pieces(&self, particle: &Particle) -> Option<f64> {
        self.has_pieces().then(|| self.in_pieces(particle.number))
    }

    /// Whether anything is in pieces.
    pub fn has_pieces(&self) -> bool {
        self.pieces.bytes > 0.0
    }

    /// Bytes in pieces under the particle with this number.
    pub fn in_pieces(&self, number: u32) -> f64 {
        self.pieces.under(number)
    }

    /// Bytes in pieces where the luck is worst.
    pub fn most_in_pieces(&self) -> f64 {
        self.pieces.most()
    }

    /// Bytes under a particle without what is in pieces.
    pub fn whole(&self, particle: &Particle) -> f64 {
        self.sum(|kind| particle.kinds[kind as usize], &self.parts(particle))
    }

    /// Bytes of PyTorch's tensors under a particle.
    pub fn tensors(&self, particle: &Particle) -> f64 {
        let parts = Parts {
            constant: 0.0,
            unknown: 0.0,
            ..self.parts(particle)
        };
        let inside = |kind: TermKind| match kind {
            TermKind::Engine | TermKind::Outside => 0.0,
            _ => particle.kinds[kind as usize],
        };
        let between = self.fragments * particle.kinds[TermKind::Activations as usize];
        self.sum(inside, &parts) - between * parts.filled * parts.update
    }

    fn parts(&self, particle: &Particle) -> Parts {
        Parts {
            path: self.path(particle.path),
            filled: self.filled(particle),
            temporaries: particle.temporaries,
            constant: particle.constant,
            unknown: particle.unknown,
            update: if self.updates { particle.update } else { 1.0 },
        }
    }

    /// The same from the factors of a particle on each kind of term, and what it makes of its other parts.
    #[inline]
    pub fn sum(&self, factor: impl Fn(TermKind) -> f64, parts: &Parts) -> f64 {
        let part = |kind: TermKind| self.sums[kind as usize] * factor(kind);
        let moves = part(TermKind::Activations) + part(TermKind::Logits) * parts.path;
        let stays = part(TermKind::States) + part(TermKind::Engine) + part(TermKind::Outside);
        let copied = self.temporaries * parts.temporaries * factor(TermKind::States);
        (stays + copied + moves * parts.filled) * parts.update + parts.constant + parts.unknown
    }

    /// Whether there are logits.
    pub fn has_logits(&self) -> bool {
        self.sums[TermKind::Logits as usize] > 0.0
    }

    /// What a way from logits to a loss takes of them.
    pub fn path(&self, number: usize) -> f64 {
        self.paths.get(number).copied().unwrap_or(1.0)
    }

    /// What the way that takes most takes of them.
    pub fn most_on_a_path(&self) -> f64 {
        self.paths.iter().copied().reduce(f64::max).unwrap_or(1.0)
    }

    /// Share of its limit that is filled under a particle.
    pub fn filled(&self, particle: &Particle) -> f64 {
        self.mixed.map_or(1.0, |mixed| particle.filled(mixed))
    }
}

/// What a particle makes of the parts of a need, beside its factors.
pub(super) struct Parts {
    /// What its way to a loss takes of the logits.
    pub path: f64,
    /// Share of its limit that a micro batch fills.
    pub filled: f64,
    /// Share of the optimizer's temporaries that there are.
    pub temporaries: f64,
    /// Bytes on top.
    pub constant: f64,
    /// Bytes of something that no formula has.
    pub unknown: f64,
    /// Factor on the sum of the terms.
    pub update: f64,
}

/// Sequences that are packed into a micro batch of a phase; `None` where every one is full, padded or up to a budget.
fn sequences(spec: &Spec, phase: Phase) -> Option<f64> {
    let tokens = spec.rollout.as_ref().map(|rollout| match phase {
        Phase::OldLogprob => rollout.logprob_tokens,
        Phase::RefLogprob => rollout.ref_tokens,
        _ => spec.tokens(),
    });
    match tokens {
        _ if spec.fill.is_some_and(|fill| fill >= 1.0) => None,
        Some(tokens) => Some(tokens * spec.context_parallel / spec.sequence.max(1.0)),
        None => Some(spec.micro_batch),
    }
}

/// What decides whether a job fits: its capacity, and what its phases need.
#[derive(Debug, Clone)]
pub(super) struct JobNeeds {
    /// Bytes of the GPU, where they are known.
    pub total: Option<f64>,
    /// What phases need of which none is smaller than another in every part.
    pub needs: Vec<PhaseSums>,
}

impl JobNeeds {
    /// Of the phases those that are not smaller than another in every part.
    pub fn new(spec: &Spec, phases: &[PhaseTerms]) -> Self {
        let needs = phases.iter().map(|p| PhaseSums::of(spec, p)).collect();
        Self {
            total: spec.gpu_bytes,
            needs: decisive(needs),
        }
    }

    /// Bytes of the GPU; less than anything where they are not known, so that nothing fits.
    pub fn capacity(&self) -> f64 {
        self.total.unwrap_or(f64::NEG_INFINITY)
    }
}

/// Whether micro batches that are so mixed are as full as others, or fuller.
fn fuller(mixed: Option<f64>, other: Option<f64>) -> bool {
    match (mixed, other) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(mixed), Some(other)) => mixed <= other,
    }
}

/// Those of the phases that are not smaller than another in every part, the largest first.
fn decisive(mut needs: Vec<PhaseSums>) -> Vec<PhaseSums> {
    needs.sort_by(|a, b| b.sums.iter().sum::<f64>().total_cmp(&a.sums.iter().sum()));
    let mut kept: Vec<PhaseSums> = Vec::with_capacity(needs.len());
    for need in needs {
        let covers = |k: &PhaseSums| {
            let parts = k.sums.iter().zip(&need.sums).all(|(a, b)| a >= b);
            let logits = |n: &PhaseSums, path| n.sums[TermKind::Logits as usize] * n.path(path);
            let mut paths = 0..k.paths.len();
            let logits = paths.all(|path| logits(k, path) >= logits(&need, path));
            parts
                && logits
                && fuller(k.mixed, need.mixed)
                && k.updates == need.updates
                && k.temporaries >= need.temporaries
                && k.pieces.bytes >= need.pieces.bytes
        };
        if !kept.iter().any(covers) {
            kept.push(need);
        }
    }
    kept
}
