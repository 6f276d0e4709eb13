//! The rollout engine: its start, its cache, its sleep, and new weights for it.
//!
//! From knowledge of vLLM's worker; weights and activations are checked against vllm-project/vllm#10511.

use super::plan::Plan;

/// Why the engine did not start or wake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// Less was free than the share asks for.
    Startup { free: u64 },
    /// The cache holds no sequence of the longest length, of which it needs so many bytes.
    Cache { needed: u64, there: u64 },
    /// CUDA graphs beyond the share.
    Graphs { requested: u64, free: u64 },
    /// The sampler's tensors beyond the share.
    Sampler,
    /// New weights on their way, in the trainer.
    Sync { requested: u64, free: u64 },
    /// The cache found no room to wake up in.
    Wake,
}

/// Bytes of one row of logits while a token is sampled: in 16 and 32 bits, sorted with 64-bit indices, softmax,
/// running sum, mask, put back in order, probabilities, noise.
const SAMPLED: u64 = 2 + 4 + (4 + 8) + 4 + 4 + 1 + 4 + 4 + 4;
/// Number of graphs grows with the sequences up to this many.
const CAPTURED: u64 = 512;

#[derive(Clone, Copy)]
pub struct Engine<'a> {
    pub plan: Plan<'a>,
    /// Contexts, collectives and strangers.
    pub around: u64,
}

impl Engine<'_> {
    fn budget(&self) -> u64 {
        (self.plan.setup.card as f64 * self.plan.setup.share) as u64
    }

    fn split(&self) -> u64 {
        self.plan.setup.tensor_parallel
    }

    pub fn weights(&self) -> u64 {
        let p = self.plan;
        let cut = p.model.layers * p.weights().iter().sum::<u64>() + p.root() - p.model.hidden;
        let whole = (2 * p.model.layers + 1) * p.model.hidden;
        2 * (cut / self.split() + whole)
    }

    fn sampler(&self) -> u64 {
        self.plan.setup.engine_sequences * self.plan.model.vocab * SAMPLED
    }

    /// The widest moment of a layer: residual, normed, gate and up as one, their product.
    pub fn profile(&self) -> u64 {
        let (m, s) = (self.plan.model, self.plan.setup);
        let wide = 3 * m.intermediate / self.split();
        let heads = (m.heads + 2 * m.kv_heads.max(self.split())) * m.head_dim / self.split();
        let layer = s.engine_tokens * 2 * (2 * m.hidden + wide.max(heads + m.hidden));
        let sampler = if self.plan.nature.sampler_profiled {
            self.sampler()
        } else {
            0
        };
        (layer.max(sampler) as f64 * self.plan.nature.profile) as u64
    }

    /// Bytes of one token in the cache of one GPU; heads are repeated where there are too few.
    fn token(&self) -> u64 {
        let m = self.plan.model;
        let heads = m.kv_heads.div_ceil(self.split()).max(1);
        2 * m.layers * heads * m.head_dim * 2
    }

    fn cache(&self) -> u64 {
        let taken = self.weights() + self.profile() + self.plan.nature.engine_outside;
        self.budget().saturating_sub(taken)
    }

    pub fn cached_tokens(&self) -> u64 {
        self.cache() / self.token()
    }

    fn graphs(&self) -> u64 {
        let s = self.plan.setup;
        if s.eager {
            return 0;
        }
        let captured = s.engine_sequences.min(CAPTURED) as f64 / 256.0;
        (self.plan.nature.graphs as f64 * captured.sqrt()) as u64
    }

    /// What it holds while the trainer computes.
    pub fn asleep(&self) -> u64 {
        let n = self.plan.nature;
        let always = n.engine_context + n.engine_outside + self.graphs();
        if self.plan.setup.sleep {
            always + n.residue
        } else {
            always + self.budget().saturating_sub(n.engine_outside)
        }
    }

    fn resident(&self, weights: bool, states: bool) -> u64 {
        let p = self.plan;
        if p.setup.offload_policy {
            return 0;
        }
        let copies = u64::from(weights) + 2 * u64::from(states);
        copies * p.width() * p.all() / p.shards() + p.nature.workspace
    }

    /// Its start beside the trainer's weights; the most that is used then.
    pub fn start(&self) -> Result<u64, Refused> {
        let (s, n) = (self.plan.setup, self.plan.nature);
        let before = self.around + n.engine_context + self.resident(!s.param_offload, false);
        let free = s.card.saturating_sub(before);
        if free < self.budget() {
            return Err(Refused::Startup { free });
        }
        let needed = s.engine_context * self.token();
        if self.cache() < needed {
            let there = self.cache();
            return Err(Refused::Cache { needed, there });
        }
        let used = before + self.budget();
        if used + self.graphs() > s.card {
            let free = s.card - used;
            let requested = self.graphs().min(free + (24 << 20)).max(2 << 20);
            return Err(Refused::Graphs { requested, free });
        }
        let sampler = if n.sampler_profiled {
            0
        } else {
            self.sampler()
        };
        // Its profile run left room that is free again.
        let beyond = sampler.saturating_sub(self.profile());
        if used + self.graphs() + beyond > s.card {
            return Err(Refused::Sampler);
        }
        Ok(used + self.graphs() + beyond)
    }

    /// New weights bucket by bucket, then the cache; the most that is used.
    pub fn wake(&self, states: bool) -> Result<u64, Refused> {
        let (p, s, n) = (self.plan, self.plan.setup, self.plan.nature);
        let states = states && !s.optimizer_offload;
        let leaked = n.leaked(p.late);
        let always = self.around + n.engine_context + n.engine_outside + self.graphs() + leaked;
        let weights = if s.sleep {
            self.weights() + n.residue
        } else {
            self.budget().saturating_sub(n.engine_outside)
        };
        // The bucket, the largest tensor whole, at rest and in 16 bits, and the bucket on the other side.
        let passing = [s.bucket, p.table() * p.width(), p.table() * 2, s.bucket];
        let mut syncing = always + weights + self.resident(true, states);
        for requested in passing {
            let free = s.card.saturating_sub(syncing);
            if requested > free {
                return Err(Refused::Sync { requested, free });
            }
            syncing += requested;
        }
        let awake = always
            + self.budget().saturating_sub(n.engine_outside)
            + self.resident(!s.param_offload, states);
        if awake > s.card {
            return Err(Refused::Wake);
        }
        Ok(awake.max(syncing))
    }
}
