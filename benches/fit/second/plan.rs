//! What a configuration means for one GPU, as the framework computes it: ranks, shares, tokens.

use super::super::models::Model;
use super::super::setup::{Program, Setup};
use super::head::{Loss, Policy};
use super::layer::{Attention, Extent};
use super::nature::{Nature, Surprise};

/// A job under one configuration; `late` once all that grows has grown.
#[derive(Clone, Copy)]
pub struct Plan<'a> {
    pub model: &'a Model,
    pub setup: &'a Setup,
    pub nature: &'a Nature,
    pub late: bool,
}

/// Passes through the model, by whose they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    Update,
    Old,
    Reference,
}

/// Tokens of a micro batch on one GPU, and the sequences that they are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    pub tokens: u64,
    pub sequences: u64,
}

impl Plan<'_> {
    pub fn is_rl(&self) -> bool {
        self.setup.program == Program::Grpo
    }

    pub fn ranks(&self) -> u64 {
        self.setup.gpus_per_node * self.setup.nodes
    }

    /// GPUs that weights and states are spread over.
    pub fn shards(&self) -> u64 {
        let ranks = self.ranks();
        match self.setup.program {
            Program::Replicated => 1,
            _ if self.setup.fsdp_size > 0 => self.setup.fsdp_size.unsigned_abs().min(ranks),
            _ => ranks,
        }
    }

    /// Elements of query, key, value, out, gate, up and down.
    pub fn weights(&self) -> [u64; 7] {
        let m = self.model;
        let (query, key) = (m.heads * m.head_dim, m.kv_heads * m.head_dim);
        let (wide, narrow) = (m.intermediate * m.hidden, m.hidden);
        [
            narrow * query,
            narrow * key,
            narrow * key,
            query * narrow,
            wide,
            wide,
            wide,
        ]
    }

    pub fn block(&self) -> u64 {
        self.weights().iter().sum::<u64>() + 2 * self.model.hidden
    }

    /// The embedding, or the output layer.
    pub fn table(&self) -> u64 {
        self.model.vocab * self.model.hidden
    }

    pub fn root(&self) -> u64 {
        let tables = if self.model.tied { 1 } else { 2 };
        tables * self.table() + self.model.hidden
    }

    pub fn all(&self) -> u64 {
        self.model.layers * self.block() + self.root()
    }

    /// Bytes of an element of weights, gradients and states at rest.
    pub fn width(&self) -> u64 {
        if self.setup.fp32 { 4 } else { 2 }
    }

    fn longest(&self) -> u64 {
        self.setup.prompt + self.setup.response
    }

    /// Tokens of each drawn sequence.
    fn drawn(&self) -> Vec<f64> {
        let s = self.setup;
        let growth = self.nature.growth(self.late);
        let tokens = |(prompt, response): &(f64, f64)| {
            prompt * s.prompt as f64 + (response * growth).min(s.response as f64)
        };
        self.nature.lengths.iter().map(tokens).collect()
    }

    pub fn mean(&self) -> f64 {
        let drawn = self.drawn();
        drawn.iter().sum::<f64>() / drawn.len() as f64
    }

    /// Sequences of a mini batch and of a step on one data parallel rank.
    pub fn sequences(&self, pass: Pass) -> u64 {
        let s = self.setup;
        let ranks = (self.ranks() / s.sequence_parallel).max(1);
        match pass {
            Pass::Update => (s.mini_batch * s.samples / ranks).max(1),
            _ => (s.train_batch * s.samples).div_ceil(ranks).max(1),
        }
    }

    /// Micro batches between two steps of the optimizer.
    pub fn micro_batches(&self) -> u64 {
        let s = self.setup;
        if !self.is_rl() {
            return s.accumulation.unwrap_or(1);
        }
        let all = self.sequences(Pass::Update);
        if s.dynamic {
            let room = (s.budget * s.sequence_parallel) as f64;
            return (self.mean() * all as f64 / room).ceil().max(1.0) as u64;
        }
        all.div_ceil(s.micro.max(1))
    }

    /// A usual micro batch and the fullest, in that order.
    pub fn batches(&self, pass: Pass) -> [Batch; 2] {
        let s = self.setup;
        let (micro, budget) = match pass {
            Pass::Update => (s.micro, s.budget),
            Pass::Old => (s.logprob_micro, s.logprob_budget),
            Pass::Reference => (s.ref_micro, s.ref_budget),
        };
        let pair = if !self.is_rl() {
            self.padded(micro)
        } else if s.dynamic {
            self.budgeted(budget, self.sequences(pass))
        } else if s.remove_padding {
            self.packed(micro)
        } else {
            [micro * self.longest(); 2]
        };
        let sequences = if self.is_rl() && s.dynamic {
            |tokens: u64, mean: f64| (tokens as f64 / mean).ceil() as u64
        } else {
            |_: u64, _: f64| 0
        };
        let mean = self.mean().max(1.0);
        pair.map(|tokens| Batch {
            tokens: tokens.div_ceil(s.sequence_parallel).max(1),
            sequences: sequences(tokens, mean).max(micro).max(1),
        })
    }

    fn packed(&self, micro: u64) -> [u64; 2] {
        let drawn = self.drawn();
        let group = usize::try_from(micro)
            .unwrap_or(usize::MAX)
            .min(drawn.len());
        let mut sum: f64 = drawn[..group].iter().sum();
        let mut most = sum;
        for (out, into) in drawn.iter().zip(&drawn[group..]) {
            sum += into - out;
            most = most.max(sum);
        }
        let scale = micro as f64 / group as f64;
        [
            (self.mean() * micro as f64) as u64,
            (most * scale).ceil() as u64,
        ]
    }

    /// Padded to the longest of a batch.
    fn padded(&self, micro: u64) -> [u64; 2] {
        let drawn = self.drawn();
        let group = usize::try_from(micro)
            .unwrap_or(usize::MAX)
            .min(drawn.len());
        let longest = drawn.iter().copied().fold(0.0, f64::max);
        let groups = drawn.chunks(group);
        let count = groups.len() as f64;
        let usual: f64 = groups
            .map(|g| g.iter().copied().fold(0.0, f64::max))
            .sum::<f64>()
            / count;
        [usual, longest].map(|length| micro * (length as u64))
    }

    fn budgeted(&self, budget: u64, sequences: u64) -> [u64; 2] {
        let drawn = self.drawn();
        let longest = drawn.iter().copied().fold(0.0, f64::max);
        let there = (self.mean() * sequences as f64).max(longest);
        let room = (budget * self.setup.sequence_parallel) as f64;
        let most = (room * self.nature.fill).max(longest).min(there);
        [(0.9 * most) as u64, most as u64]
    }

    fn attention(&self) -> Attention {
        match self.nature.surprise {
            Some(Surprise::Eager) => Attention::Eager,
            _ if self.is_rl() && self.setup.remove_padding => Attention::Flash,
            _ => self.nature.attention,
        }
    }

    pub fn extent(&self, batch: Batch) -> Extent {
        let (m, n) = (self.model, self.nature);
        let tokens = batch.tokens;
        let whole = tokens * self.setup.sequence_parallel;
        let extra = match n.surprise {
            Some(Surprise::Kept(share)) => (share * (m.intermediate * tokens) as f64) as u64,
            _ => 0,
        };
        Extent {
            tokens,
            hidden: tokens * m.hidden,
            query: tokens * m.heads * m.head_dim,
            key: tokens * m.kv_heads * m.head_dim,
            wide: tokens * m.intermediate,
            rows: tokens * m.heads,
            scores: m.heads * tokens * whole.div_ceil(batch.sequences),
            attention: self.attention(),
            fused: n.fused,
            head_norms: m.name.contains("Qwen3"),
            weights: self.weights(),
            extra,
        }
    }

    pub fn loss(&self, pass: Pass) -> Loss {
        let (s, n) = (self.setup, self.nature);
        if !self.is_rl() {
            return if n.fused_loss {
                Loss::Fused
            } else {
                Loss::Causal(n.causal)
            };
        }
        if s.fused {
            return Loss::Fused;
        }
        Loss::Policy(Policy {
            upcast: n.upcast,
            flash: n.flash_loss,
            entropy: match pass {
                Pass::Update => s.entropy,
                Pass::Old => true,
                Pass::Reference => false,
            },
            // With padding verl neither compiles it nor takes it in pieces.
            compiled: n.compiled_entropy && s.remove_padding,
            chunked: s.chunked_entropy && s.remove_padding,
        })
    }
}
