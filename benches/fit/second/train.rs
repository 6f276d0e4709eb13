//! The trainer's process: what lies there, layers that are gathered and let go, the step.
//!
//! FSDP as PyTorch documents it (torch.distributed.fsdp, 2.x): a layer's weights are gathered while the one
//! before computes; the root's stay; gradients of a layer are put into one tensor, made fp32, reduced, and
//! the buffer lives until the next layer's.

use super::super::setup::Program;
use super::head::Head;
use super::layer::{Extent, HALF, Layer, Saved};
use super::memory::{Memory, Piece, Step, Stream};
use super::plan::{Batch, Pass, Plan};

/// What lies on the GPU when a phase begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    pub weights: bool,
    pub states: bool,
}

/// How far the walk has come, for whom a shortage meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Start,
    Forward,
    Backward,
    Optimizer,
}

pub struct Trainer<'p, M> {
    pub(super) plan: Plan<'p>,
    pub memory: M,
    pub place: Place,
    /// The last layer's buffer of the reduction.
    pub(super) reducing: Option<Piece>,
    /// Gradients that stay for the step.
    pub(super) gradients: Vec<Piece>,
    /// They are there from an earlier micro batch.
    pub(super) accumulating: bool,
    /// Weights in 16 bits, as autocast keeps them for a replicated program.
    casts: Vec<Piece>,
}

impl<'p, M: Memory> Trainer<'p, M> {
    pub fn new(plan: Plan<'p>, memory: M) -> Self {
        Self {
            plan,
            memory,
            place: Place::Start,
            reducing: None,
            gradients: Vec::new(),
            accumulating: false,
            casts: Vec::new(),
        }
    }

    pub(super) fn replicated(&self) -> bool {
        self.plan.setup.program == Program::Replicated
    }

    pub(super) fn take(&mut self, bytes: u64) -> Step<Piece> {
        self.memory.take(Stream::Compute, bytes)
    }

    pub(super) fn give_all(&mut self, pieces: impl IntoIterator<Item = Piece>) {
        for piece in pieces {
            self.memory.give(piece);
        }
    }

    /// Elements of a rank's share, as flat parameters are padded.
    pub(super) fn share(&self, elements: u64) -> u64 {
        elements.div_ceil(self.plan.shards()).next_multiple_of(8)
    }

    /// One copy of all parameters at rest.
    fn copy(&mut self, width: u64) -> Step<Vec<Piece>> {
        let mut pieces = Vec::new();
        for _ in 0..self.plan.model.layers {
            if self.replicated() {
                for elements in self.plan.weights() {
                    pieces.push(self.take(elements * width)?);
                }
            } else {
                pieces.push(self.take(self.share(self.plan.block()) * width)?);
            }
        }
        pieces.push(self.take(self.share(self.plan.root()) * width)?);
        Ok(pieces)
    }

    /// Weights and states, cuBLAS, and what leaked.
    pub fn stand(&mut self, standing: Standing) -> Step<()> {
        let plan = self.plan;
        self.take(plan.nature.workspace)?;
        let leaked = plan.nature.leaked(plan.late);
        if leaked > 0 {
            for _ in 0..plan.nature.steps {
                self.take(leaked / plan.nature.steps)?;
            }
        }
        if plan.setup.offload_policy {
            return Ok(());
        }
        let copies = u64::from(standing.weights) + 2 * u64::from(standing.states);
        for _ in 0..copies {
            self.copy(plan.width())?;
        }
        Ok(())
    }

    /// The whole of a flat parameter in 16 bits.
    fn gather(&mut self, elements: u64, from_host: bool) -> Step<Option<Piece>> {
        if self.replicated() {
            self.casts
                .push(self.memory.take(Stream::Compute, elements * HALF)?);
            return Ok(None);
        }
        let share = self.share(elements);
        let arrived = if from_host {
            Some(
                self.memory
                    .take(Stream::Gather, share * self.plan.width())?,
            )
        } else {
            None
        };
        let cast = self.memory.take(Stream::Gather, share * HALF)?;
        let whole = self
            .memory
            .take(Stream::Gather, share * self.plan.shards() * HALF)?;
        self.give_all(arrived.into_iter().chain([cast]));
        Ok(Some(whole))
    }

    fn layer(&mut self, extent: Extent, grad: bool) -> Step<(Piece, Saved)> {
        let mut layer = Layer {
            memory: &mut self.memory,
            extent,
            grad,
            saved: Saved::default(),
        };
        let out = layer.forward()?;
        Ok((out, layer.saved))
    }

    fn head(&mut self, batch: Batch, pass: Pass) -> Head<'_, M> {
        Head {
            tokens: batch.tokens,
            hidden: self.plan.model.hidden,
            vocab: self.plan.model.vocab,
            loss: self.plan.loss(pass),
            grad: pass == Pass::Update,
            memory: &mut self.memory,
        }
    }

    /// A pass without gradients.
    pub fn evaluate(&mut self, batch: Batch, pass: Pass) -> Step<()> {
        self.place = Place::Forward;
        let plan = self.plan;
        let extent = plan.extent(batch);
        let from_host = plan.setup.offload_policy || pass == Pass::Reference;
        let root = self.gather(plan.root(), from_host)?;
        let mut stream = self.take(extent.hidden * HALF)?;
        let mut next = self.gather(plan.block(), from_host)?;
        for index in 0..plan.model.layers {
            let this = next.take();
            if index + 1 < plan.model.layers {
                next = self.gather(plan.block(), from_host)?;
            }
            let (out, _) = self.layer(extent, false)?;
            self.give_all([stream]);
            stream = out;
            self.give_all(this);
        }
        self.head(batch, pass).forward()?;
        self.give_all([stream]);
        self.give_all(root);
        let casts = std::mem::take(&mut self.casts);
        self.give_all(casts);
        Ok(())
    }

    /// Forward and backward of one micro batch.
    pub fn micro_batch(&mut self, batch: Batch) -> Step<()> {
        self.place = Place::Forward;
        let plan = self.plan;
        let extent = plan.extent(batch);
        let (root, mut saved, stream) = self.forward(extent)?;
        let kept = self.head(batch, Pass::Update).forward()?;
        if self.replicated() && plan.setup.checkpointing {
            let casts = std::mem::take(&mut self.casts);
            self.give_all(casts);
        }
        self.place = Place::Backward;
        let mut tables = Vec::new();
        let gradient = self.head(batch, Pass::Update).backward(kept, &mut tables)?;
        self.give_all([stream]);
        let gradient = self.layers_back(extent, gradient, &mut saved)?;
        // The gradient of the embedding is as large as the embedding.
        let table = self.take(plan.table() * HALF)?;
        self.give_all([gradient]);
        if plan.model.tied {
            self.give_all([table]);
        } else {
            tables.push(table);
        }
        self.reduce(plan.root(), tables)?;
        self.give_all(self.reducing);
        self.reducing = None;
        self.give_all(root);
        let casts = std::mem::take(&mut self.casts);
        self.give_all(casts);
        self.accumulating = true;
        Ok(())
    }

    /// The root's weights, per layer its input and what it saved, and the last layer's output.
    fn forward(&mut self, extent: Extent) -> Step<(Option<Piece>, Vec<Kept>, Piece)> {
        let plan = self.plan;
        let s = plan.setup;
        let root = self.gather(plan.root(), s.offload_policy)?;
        let mut stream = self.take(extent.hidden * HALF)?;
        let mut next = self.gather(plan.block(), s.offload_policy)?;
        let mut all: Vec<Kept> = Vec::new();
        for index in 0..plan.model.layers {
            let this = next.take();
            if index + 1 < plan.model.layers {
                next = self.gather(plan.block(), s.offload_policy)?;
            }
            let (out, saved) = self.layer(extent, !s.checkpointing)?;
            let needed = s.checkpointing || extent.fused;
            if !needed {
                self.give_all([stream]);
            }
            all.push(Kept {
                input: needed.then_some(stream),
                saved,
            });
            if s.activation_offload && s.checkpointing && all.len() > 2 {
                let gone = all.len() - 3;
                let input = all[gone].input.take();
                self.give_all(input);
            }
            stream = out;
            self.give_all(this);
        }
        Ok((root, all, stream))
    }

    fn layers_back(
        &mut self,
        extent: Extent,
        mut gradient: Piece,
        all: &mut Vec<Kept>,
    ) -> Step<Piece> {
        let plan = self.plan;
        let s = plan.setup;
        let mut next = self.gather_back()?;
        while let Some(mut kept) = all.pop() {
            let this = next.take();
            if !all.is_empty() {
                next = self.gather_back()?;
            }
            if s.checkpointing {
                if kept.input.is_none() {
                    kept.input = Some(self.take(extent.hidden * HALF)?);
                }
                let (out, saved) = self.layer(extent, true)?;
                self.give_all([out]);
                kept.saved = saved;
            }
            let mut weights = Vec::new();
            let mut layer = Layer {
                memory: &mut self.memory,
                extent,
                grad: true,
                saved: kept.saved,
            };
            gradient = layer.backward(gradient, &mut weights)?;
            self.give_all(kept.input);
            self.reduce(plan.block(), weights)?;
            self.give_all(this);
            let casts = self.casts.pop();
            self.give_all(casts);
        }
        Ok(gradient)
    }

    /// A layer's weights for its backward pass; a replicated program without checkpoints has them yet.
    fn gather_back(&mut self) -> Step<Option<Piece>> {
        let s = self.plan.setup;
        if self.replicated() && !s.checkpointing {
            return Ok(None);
        }
        self.gather(self.plan.block(), s.offload_policy)
    }

    /// Adam's step; without states before it, it makes them.
    pub fn optimizer(&mut self, makes_states: bool) -> Step<()> {
        self.place = Place::Optimizer;
        let plan = self.plan;
        if plan.setup.offload_policy {
            return Ok(());
        }
        if makes_states {
            self.copy(plan.width())?;
            self.copy(plan.width())?;
        }
        if plan.nature.foreach {
            let roots = self.copy(plan.width())?;
            self.give_all(roots);
        }
        Ok(())
    }

    /// Something large for a while.
    pub fn passing(&mut self, bytes: u64) -> Step<()> {
        let piece = self.take(bytes)?;
        self.give_all([piece]);
        Ok(())
    }
}

/// What the backward pass of a layer finds.
struct Kept {
    input: Option<Piece>,
    saved: Saved,
}
