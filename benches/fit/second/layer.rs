//! One decoder layer forward, operator by operator, as the modules of Llama, Qwen and Mistral compute: what
//! autograd saves stays, what a function's locals hold goes when they are bound anew.
//!
//! Written from knowledge of those modules, not beside their text; what a layer keeps is checked against
//! published figures.

use super::memory::{Memory, Piece, Step, Stream};

/// Bytes of an element: computed in 16 bits, statistics in 32.
pub const HALF: u64 = 2;
pub const FULL: u64 = 4;

/// How the scores of attention are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attention {
    Flash,
    /// PyTorch's own, on keys and values that are repeated for each query head.
    Sdpa,
    /// Scores as tensors.
    Eager,
}

/// Sizes of the tensors of one layer for one micro batch, in elements.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    pub tokens: u64,
    /// The stream of hidden states; queries; keys; the MLP.
    pub hidden: u64,
    pub query: u64,
    pub key: u64,
    pub wide: u64,
    /// Heads times tokens.
    pub rows: u64,
    /// Heads times tokens times the tokens that each looks at.
    pub scores: u64,
    pub attention: Attention,
    /// Norms and MLP of fused kernels.
    pub fused: bool,
    /// Queries and keys are normed, head by head.
    pub head_norms: bool,
    /// Elements of the weights: query, key, value, out, gate, up, down.
    pub weights: [u64; 7],
    /// What dropout or adapters of a fork keep beside it, in elements.
    pub extra: u64,
}

/// What a layer saved for its backward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Slot {
    Norm1Wide,
    Norm1Stat,
    Norm1Half,
    Norm1Out,
    QueryWide,
    QueryHalf,
    KeyWide,
    KeyHalf,
    Query,
    Key,
    Value,
    Probabilities,
    ProbabilitiesHalf,
    Context,
    Middle,
    Norm2Wide,
    Norm2Stat,
    Norm2Half,
    Norm2Out,
    Gate,
    Activated,
    Up,
    Product,
    Extra,
}

const SLOTS: usize = Slot::Extra as usize + 1;

#[derive(Debug, Default)]
pub struct Saved([Option<Piece>; SLOTS]);

impl Saved {
    pub fn take(&mut self, slot: Slot) -> Option<Piece> {
        self.0[slot as usize].take()
    }
}

/// The two norms of a layer, by where they save.
pub const FIRST: [Slot; 4] = [
    Slot::Norm1Wide,
    Slot::Norm1Stat,
    Slot::Norm1Half,
    Slot::Norm1Out,
];
pub const SECOND: [Slot; 4] = [
    Slot::Norm2Wide,
    Slot::Norm2Stat,
    Slot::Norm2Half,
    Slot::Norm2Out,
];

/// A layer on its way.
pub struct Layer<'m, M> {
    pub memory: &'m mut M,
    pub extent: Extent,
    /// Autograd saves.
    pub grad: bool,
    pub saved: Saved,
}

impl<M: Memory> Layer<'_, M> {
    pub fn half(&mut self, elements: u64) -> Step<Piece> {
        self.memory.take(Stream::Compute, elements * HALF)
    }

    pub fn full(&mut self, elements: u64) -> Step<Piece> {
        self.memory.take(Stream::Compute, elements * FULL)
    }

    pub fn give<const N: usize>(&mut self, pieces: [Piece; N]) {
        for piece in pieces {
            self.memory.give(piece);
        }
    }

    /// The last use forward of a tensor that an operator saves.
    fn done(&mut self, slot: Slot, piece: Piece) {
        if self.grad {
            self.saved.0[slot as usize] = Some(piece);
        } else {
            self.memory.give(piece);
        }
    }

    /// The layer's output. Its input is the caller's.
    pub fn forward(&mut self) -> Step<Piece> {
        let e = self.extent;
        let normed = self.norm(FIRST)?;
        let (query, key, value) = (self.half(e.query)?, self.half(e.key)?, self.half(e.key)?);
        self.done(Slot::Norm1Out, normed);
        let query = self.head_norm(query, e.query, [Slot::QueryWide, Slot::QueryHalf])?;
        let key = self.head_norm(key, e.key, [Slot::KeyWide, Slot::KeyHalf])?;
        let turned = [self.rotate(e.query)?, self.rotate(e.key)?];
        self.give([query, key]);
        let context = self.attend(turned, value)?;
        let out = self.half(e.hidden)?;
        self.done(Slot::Context, context);
        let middle = self.half(e.hidden)?;
        self.give([out]);
        let normed = self.norm(SECOND)?;
        let down = self.mlp(normed)?;
        let output = self.half(e.hidden)?;
        self.give([down]);
        if e.fused {
            self.done(Slot::Middle, middle);
        } else {
            self.give([middle]);
        }
        if e.extra > 0 {
            let extra = self.half(e.extra)?;
            self.done(Slot::Extra, extra);
        }
        Ok(output)
    }

    /// LlamaRMSNorm: to 32 bits, the mean of squares, scaled, back to 16 bits, times the weight.
    fn norm(&mut self, slots: [Slot; 4]) -> Step<Piece> {
        let e = self.extent;
        let [wide, stat, half, _] = slots;
        if e.fused {
            let scale = self.full(e.tokens)?;
            self.done(stat, scale);
            return self.half(e.hidden);
        }
        let upcast = self.full(e.hidden)?;
        let squares = self.full(e.hidden)?;
        let mean = self.full(e.tokens)?;
        self.give([squares]);
        let scaled = self.full(e.hidden)?;
        self.done(wide, upcast);
        self.done(stat, mean);
        let narrow = self.half(e.hidden)?;
        self.give([scaled]);
        let out = self.half(e.hidden)?;
        self.done(half, narrow);
        Ok(out)
    }

    /// The norm of queries or keys, where a model has it.
    fn head_norm(&mut self, raw: Piece, elements: u64, slots: [Slot; 2]) -> Step<Piece> {
        if !self.extent.head_norms {
            return Ok(raw);
        }
        let upcast = self.full(elements)?;
        let scaled = self.full(elements)?;
        self.give([raw]);
        self.done(slots[0], upcast);
        let narrow = self.half(elements)?;
        self.give([scaled]);
        let out = self.half(elements)?;
        self.done(slots[1], narrow);
        Ok(out)
    }

    /// apply_rotary_pos_emb on one tensor.
    fn rotate(&mut self, elements: u64) -> Step<Piece> {
        let cosine = self.half(elements)?;
        let turned = self.half(elements)?;
        let sine = self.half(elements)?;
        self.give([turned]);
        let out = self.half(elements)?;
        self.give([cosine, sine]);
        Ok(out)
    }

    fn attend(&mut self, [query, key]: [Piece; 2], value: Piece) -> Step<Piece> {
        let e = self.extent;
        if e.attention == Attention::Flash {
            let out = self.half(e.query)?;
            let sums = self.full(e.rows)?;
            self.done(Slot::Probabilities, sums);
            self.done(Slot::Query, query);
            self.done(Slot::Key, key);
            self.done(Slot::Value, value);
            return Ok(out);
        }
        let keys = self.half(e.query)?;
        let values = self.half(e.query)?;
        self.give([key, value]);
        let out = if e.attention == Attention::Sdpa {
            let out = self.half(e.query)?;
            let sums = self.full(e.rows)?;
            self.done(Slot::Probabilities, sums);
            out
        } else {
            let scores = self.half(e.scores)?;
            let masked = self.half(e.scores)?;
            self.give([scores]);
            let soft = self.full(e.scores)?;
            self.give([masked]);
            let narrow = self.half(e.scores)?;
            self.done(Slot::Probabilities, soft);
            let out = self.half(e.query)?;
            self.done(Slot::ProbabilitiesHalf, narrow);
            let contiguous = self.half(e.query)?;
            self.give([out]);
            contiguous
        };
        self.done(Slot::Query, query);
        self.done(Slot::Key, keys);
        self.done(Slot::Value, values);
        Ok(out)
    }

    /// silu(gate) * up, then down.
    fn mlp(&mut self, normed: Piece) -> Step<Piece> {
        let e = self.extent;
        let gate = self.half(e.wide)?;
        if e.fused {
            let up = self.half(e.wide)?;
            let product = self.half(e.wide)?;
            self.done(Slot::Gate, gate);
            self.done(Slot::Up, up);
            self.done(Slot::Norm2Out, normed);
            let down = self.half(e.hidden)?;
            self.done(Slot::Product, product);
            return Ok(down);
        }
        let activated = self.half(e.wide)?;
        self.done(Slot::Gate, gate);
        let up = self.half(e.wide)?;
        self.done(Slot::Norm2Out, normed);
        let product = self.half(e.wide)?;
        self.done(Slot::Activated, activated);
        self.done(Slot::Up, up);
        let down = self.half(e.hidden)?;
        self.done(Slot::Product, product);
        Ok(down)
    }
}
