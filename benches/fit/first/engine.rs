//! The rollout engine beside the trainer: its start, its cache, its waking up.

use super::trainer::{Job, Resident};

/// Why the engine did not start or wake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// Less is free at the start than its share.
    Startup,
    /// The cache would hold no sequence of the longest length.
    Cache,
    /// CUDA graphs found no room.
    Graphs,
    /// The trainer's state, new weights and the engine's old ones do not fit together.
    Weights,
    /// The cache found no room at the wake-up.
    Wake,
}

/// The engine of a case.
#[derive(Clone, Copy)]
pub struct Engine<'a>(pub Job<'a>);

impl Engine<'_> {
    /// Bytes of the engine's share.
    pub fn budget(&self) -> u64 {
        (self.0.setup.card as f64 * self.0.setup.share) as u64
    }

    /// Its weights on one GPU, in half precision.
    pub fn weights(&self) -> u64 {
        2 * self.0.model.params() / self.0.setup.tensor_parallel
    }

    /// Activations of its profile run.
    fn profile(&self) -> u64 {
        let (m, s) = (self.0.model, self.0.setup);
        let tp = s.tensor_parallel;
        let layer = 2 * (4 * m.hidden + (2 * m.intermediate + m.heads * m.head_dim) / tp);
        // vllm-project/vllm#10511: 1.26 GiB for 256 sequences of Llama-3-8B, on one GPU and on two.
        let sampled = s.engine_sequences.min(s.engine_tokens) * m.vocab * 41;
        let plain = sampled.max(s.engine_tokens * layer) as f64;
        (plain * self.0.hidden.profile) as u64
    }

    /// Bytes of its cache; `None` where weights and profile leave nothing.
    pub fn cache(&self) -> Option<u64> {
        let taken = self.weights() + self.profile() + self.0.hidden.engine_outside;
        self.budget().checked_sub(taken).filter(|left| *left > 0)
    }

    /// Tokens in its cache.
    pub fn cache_tokens(&self) -> u64 {
        let of_token = self.0.model.kv_bytes() / self.0.setup.tensor_parallel;
        self.cache().map_or(0, |bytes| bytes / of_token.max(1))
    }

    fn graphs(&self) -> u64 {
        if self.0.setup.eager {
            0
        } else {
            self.0.hidden.graphs
        }
    }

    /// Bytes that it holds while the trainer computes.
    pub fn asleep(&self) -> u64 {
        let hidden = self.0.hidden;
        if self.0.setup.sleep {
            hidden.engine_context + hidden.residue + self.graphs()
        } else {
            hidden.engine_context + self.budget() + self.graphs()
        }
    }

    /// Bytes of the trainer that lie on the GPU beside it.
    fn beside(&self, resident: Resident) -> u64 {
        let (m, s) = (self.0.model, self.0.setup);
        if s.offload_policy {
            return 0;
        }
        let width = if s.fp32 { 4 } else { 2 };
        let copies = u64::from(resident.weights) + 2 * u64::from(resident.adam);
        copies * width * m.params() / s.shards()
    }

    /// Its start, after the trainer has loaded the weights.
    pub fn start(&self, standing: u64) -> Result<(), Refused> {
        let s = self.0.setup;
        let resident = Resident {
            weights: !s.param_offload,
            adam: false,
        };
        let used = standing + self.0.hidden.engine_context + self.beside(resident);
        if s.card.saturating_sub(used) < self.budget() {
            return Err(Refused::Startup);
        }
        if self.cache_tokens() < s.engine_context {
            return Err(Refused::Cache);
        }
        if used + self.budget() + self.graphs() > s.card {
            return Err(Refused::Graphs);
        }
        Ok(())
    }

    /// The most that is used while new weights are handed over and the cache wakes up, and which of the two
    /// does not fit.
    pub fn wake(&self, standing: u64, adam: bool) -> Result<u64, (Refused, u64)> {
        let (m, s) = (self.0.model, self.0.setup);
        let adam = adam && !s.optimizer_offload;
        let always = standing + self.0.hidden.engine_context + self.graphs();
        let width = if s.fp32 { 4 } else { 2 };
        let largest = m.vocab * m.hidden;
        let handed = self.beside(Resident {
            weights: true,
            adam,
        }) + self.weights()
            + 2 * s.bucket
            + largest * (width + 2);
        let awake = self.beside(Resident {
            weights: !s.param_offload,
            adam,
        }) + self.budget();
        if always + handed > s.card {
            return Err((Refused::Weights, largest * width));
        }
        if always + awake > s.card {
            return Err((Refused::Wake, 0));
        }
        Ok(always + handed.max(awake))
    }
}
