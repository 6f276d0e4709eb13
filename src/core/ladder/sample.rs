//! Guesses for questions that go through all of them, hundreds of times for one decision: those of a block lie beside
//! each other part by part, so that a processor takes several at a time.

use std::array::from_fn;

use super::guess::{Guess, filled};
use super::need::{Job, Need, Parts};
use crate::core::memory::KINDS;

/// Guesses of a block.
const MANY: usize = 32;

/// A number for each guess of a block.
type Each = [f64; MANY];

/// Weighted guesses in blocks.
pub(super) struct Sample {
    /// The last one is filled up with guesses that have no weight.
    pub blocks: Vec<Block>,
    /// Weight of all of them.
    pub weight: f64,
}

impl Sample {
    /// Of these guesses, in their order.
    pub fn new(guesses: &[Guess]) -> Self {
        let blocks: Vec<Block> = guesses.chunks(MANY).filter_map(Block::new).collect();
        Self {
            weight: blocks.iter().map(|block| block.total).sum(),
            blocks,
        }
    }
}

/// Guesses by their parts, which are those of [`Guess`].
pub(super) struct Block {
    number: [u32; MANY],
    kinds: [Each; KINDS],
    constant: Each,
    unknown: Each,
    fill: Each,
    longest: Each,
    path: [usize; MANY],
    temporaries: Each,
    weight: Each,
    /// Of all of them.
    pub total: f64,
}

impl Block {
    /// Of at most `MANY` guesses; `None` of none.
    fn new(guesses: &[Guess]) -> Option<Self> {
        let last = guesses.last()?;
        let nothing = Guess {
            weight: 0.0,
            ..*last
        };
        let all: [&Guess; MANY] = from_fn(|at| guesses.get(at).unwrap_or(&nothing));
        let each = |part: fn(&Guess) -> f64| all.map(part);
        let weight = each(|g| g.weight);
        Some(Self {
            total: sum(&weight),
            number: all.map(|g| g.number),
            kinds: from_fn(|kind| all.map(|g| g.kinds[kind])),
            constant: each(|g| g.constant),
            unknown: each(|g| g.unknown),
            fill: each(|g| g.fill),
            longest: each(|g| g.longest),
            path: all.map(|g| g.path),
            temporaries: each(|g| g.temporaries),
            weight,
        })
    }

    /// Weight of those of its guesses under which a job fits.
    pub fn fits(&self, job: &Job) -> f64 {
        let total = job.capacity();
        let mut weight = self.weight;
        for need in &job.needs {
            let bytes = self.bytes(need);
            for at in 0..MANY {
                weight[at] *= f64::from(u8::from(bytes[at] <= total));
            }
        }
        sum(&weight)
    }

    /// Each guess's weight, with the bytes that all phases of a job lack together.
    pub fn missing(&self, job: &Job) -> impl Iterator<Item = (f64, f64)> {
        let total = job.capacity();
        let mut missing = [0.0; MANY];
        for need in &job.needs {
            let bytes = self.bytes(need);
            for at in 0..MANY {
                missing[at] += (bytes[at] - total).max(0.0);
            }
        }
        self.weight.into_iter().zip(missing)
    }

    /// Bytes of a need under each guess.
    fn bytes(&self, need: &Need) -> Each {
        let ones = [1.0; MANY];
        let path = match need.has_logits() {
            true => self.path.map(|path| need.path(path)),
            false => ones,
        };
        let filled = need.mixed.map_or(ones, |mixed| {
            let mut each = ones;
            for (at, each) in each.iter_mut().enumerate() {
                *each = filled(self.longest[at], self.fill[at], mixed);
            }
            each
        });
        let pieces = match need.has_pieces() {
            true => self.number.map(|number| need.in_pieces(number)),
            false => [0.0; MANY],
        };
        let mut bytes = [0.0; MANY];
        for at in 0..MANY {
            let parts = Parts {
                path: path[at],
                filled: filled[at],
                temporaries: self.temporaries[at],
                constant: self.constant[at],
                unknown: self.unknown[at],
            };
            bytes[at] = need.sum(|kind| self.kinds[kind as usize][at], &parts) + pieces[at];
        }
        bytes
    }
}

/// The sum of weights. They are binary fractions, so that it does not depend on the order.
fn sum(weights: &Each) -> f64 {
    let mut lanes = [0.0; 8];
    for some in weights.chunks_exact(lanes.len()) {
        for (lane, weight) in lanes.iter_mut().zip(some) {
            *lane += weight;
        }
    }
    lanes.iter().sum()
}
