//! The trainer's GPU memory, tensor by tensor: flat parameters gathered layer by layer, what each operator
//! keeps for the backward pass, copies of the logits, gradients and their reduction, Adam's temporaries.

use super::super::models::Model;
use super::super::setup::{Program, Setup};
use super::allocator::{Allocator, Handle, OutOfMemory};
use super::hidden::Hidden;
use super::operators::{HALF, Operator, SINGLE, operators};

/// What is known of a case, and what is true of it.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    pub model: &'a Model,
    pub setup: &'a Setup,
    pub hidden: &'a Hidden,
}

/// What lies on the GPU before a phase begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Resident {
    pub weights: bool,
    pub adam: bool,
}

/// Peaks of a phase that passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peak {
    pub allocated: u64,
    pub reserved: u64,
}

/// Tensors of a pass without gradients that are alive at a time.
const WINDOW: usize = 4;
/// Rows of logits in one piece of chunked or fused kernels.
const CHUNK: u64 = 2048;

/// The trainer's process in one phase.
pub struct Trainer<'a> {
    job: Job<'a>,
    memory: Allocator,
    shards: u64,
    block: u64,
    root: u64,
    /// Sharded gradients, once there are any.
    gradients: Vec<Handle>,
}

type Step<T> = Result<T, OutOfMemory>;

impl<'a> Trainer<'a> {
    /// A process that may take `capacity` bytes, with what lies there at the start of the phase.
    pub fn new(job: Job<'a>, capacity: u64, resident: Resident) -> Step<Self> {
        let mut trainer = Self {
            job,
            memory: Allocator::new(capacity, job.setup.expandable),
            shards: job.setup.shards(),
            block: job.model.block().iter().sum(),
            root: job.model.root().iter().sum(),
            gradients: Vec::new(),
        };
        let setup = job.setup;
        if !setup.offload_policy {
            let width = if setup.fp32 { SINGLE } else { HALF };
            let copies = u64::from(resident.weights) + 2 * u64::from(resident.adam);
            for _ in 0..copies {
                trainer.sharded(width)?;
            }
        }
        Ok(trainer)
    }

    pub fn peak(&self) -> Peak {
        Peak {
            allocated: self.memory.peak_allocated,
            reserved: self.memory.peak_reserved,
        }
    }

    /// Elements of one rank's share of a flat parameter, padded.
    fn shard(&self, elements: u64) -> u64 {
        elements.div_ceil(self.shards).next_multiple_of(8)
    }

    /// One tensor a flat parameter, of `width` bytes an element. A replicated program has its tensors one
    /// by one.
    fn sharded(&mut self, width: u64) -> Step<Vec<Handle>> {
        let mut handles = Vec::new();
        for _ in 0..self.job.model.layers {
            if self.job.setup.program == Program::Replicated {
                for elements in self.job.model.block() {
                    handles.push(self.memory.take(elements * width)?);
                }
            } else {
                handles.push(self.memory.take(self.shard(self.block) * width)?);
            }
        }
        for elements in self.job.model.root() {
            handles.push(self.memory.take(self.shard(elements) * width)?);
        }
        Ok(handles)
    }

    fn drop_all(&mut self, handles: Vec<Handle>) {
        handles.into_iter().for_each(|h| self.memory.give(h));
    }

    /// The half-precision copy of a flat parameter: cast, then gathered.
    fn gather(&mut self, elements: u64) -> Step<Handle> {
        let cast = self.memory.take(self.shard(elements) * HALF)?;
        if self.shards == 1 {
            return Ok(cast);
        }
        let whole = self
            .memory
            .take(self.shard(elements) * self.shards * HALF)?;
        self.memory.give(cast);
        Ok(whole)
    }

    /// Runs the operators of a layer; returns what is kept.
    fn layer(&mut self, operators: &[Operator], keep: bool) -> Step<Vec<Handle>> {
        let mut kept = Vec::new();
        let mut passing: Vec<Handle> = Vec::with_capacity(WINDOW + 1);
        for (bytes, saved) in operators {
            let handle = self.memory.take(*bytes)?;
            if keep && *saved {
                kept.push(handle);
            } else {
                passing.push(handle);
                if passing.len() > WINDOW {
                    self.memory.give(passing.remove(0));
                }
            }
        }
        self.drop_all(passing);
        Ok(kept)
    }

    /// A forward pass for log-probabilities: nothing is kept.
    pub fn logprobs(&mut self, tokens: u64, sequences: u64, entropy: bool) -> Step<()> {
        let tokens = tokens.div_ceil(self.job.setup.sequence_parallel);
        let operators = operators(self.job, tokens, sequences);
        let root = self.gather(self.root)?;
        let stream = self.memory.take(tokens * self.job.model.hidden * HALF)?;
        let mut next = self.gather(self.block)?;
        for layer in 0..self.job.model.layers {
            let this = next;
            next = if layer + 1 < self.job.model.layers {
                self.gather(self.block)?
            } else {
                this
            };
            self.layer(&operators, false)?;
            self.memory.give(this);
        }
        let logits = self.logits(tokens, entropy)?;
        self.drop_all(logits);
        self.drop_all(vec![stream, root]);
        Ok(())
    }

    /// The logits and the copies of them that the loss keeps. A compiled entropy keeps none; with padding it is not compiled, and
    /// autocast takes it to fp32.
    fn logits(&mut self, tokens: u64, entropy: bool) -> Step<Vec<Handle>> {
        let (setup, hidden) = (self.job.setup, self.job.hidden);
        let row = self.job.model.vocab;
        if setup.fused {
            let piece = self
                .memory
                .take(tokens.min(CHUNK) * row * (HALF + SINGLE))?;
            return Ok(vec![piece]);
        }
        let all = tokens * row;
        let mut copies = vec![self.memory.take(all * HALF)?];
        if setup.program != Program::Grpo {
            // Hugging Face's loss: upcast, shifted and copied, log-softmax.
            for _ in 0..3 {
                copies.push(self.memory.take(all * SINGLE)?);
            }
            let upcast = copies.remove(1);
            self.memory.give(upcast);
            return Ok(copies);
        }
        if hidden.upcast {
            copies.push(self.memory.take(all * SINGLE)?);
        }
        let width = if hidden.upcast { SINGLE } else { HALF };
        if !hidden.in_place_loss {
            copies.push(self.memory.take(all * width)?);
        }
        if entropy && !setup.remove_padding {
            for _ in 0..3 {
                copies.push(self.memory.take(all * SINGLE)?);
            }
        }
        Ok(copies)
    }

    /// Forward and backward of one micro batch. The error says whether the backward pass had begun.
    pub fn micro_batch(&mut self, tokens: u64, sequences: u64) -> Result<(), (OutOfMemory, bool)> {
        let tokens = tokens.div_ceil(self.job.setup.sequence_parallel).max(1);
        let operators = operators(self.job, tokens, sequences);
        let ahead = |e| (e, false);
        let (root, mut kept) = self.forward(tokens, &operators).map_err(ahead)?;
        let entropy = self.job.hidden.entropy && self.job.setup.program == Program::Grpo;
        let logits = self.logits(tokens, entropy).map_err(ahead)?;
        self.backward(tokens, &operators, root, &mut kept, logits)
            .map_err(|e| (e, true))
    }

    /// The gathered root and, per layer, what the backward pass needs.
    fn forward(&mut self, tokens: u64, operators: &[Operator]) -> Step<(Handle, Vec<Vec<Handle>>)> {
        let setup = self.job.setup;
        let layers = self.job.model.layers;
        let stream = tokens * self.job.model.hidden * HALF;
        let root = self.gather(self.root)?;
        let mut kept: Vec<Vec<Handle>> = Vec::new();
        let mut next = self.gather(self.block)?;
        for layer in 0..layers {
            let this = next;
            next = if layer + 1 < layers {
                self.gather(self.block)?
            } else {
                this
            };
            let mut saved = vec![self.memory.take(stream)?];
            saved.extend(self.layer(operators, !setup.checkpointing)?);
            kept.push(saved);
            if setup.activation_offload && kept.len() > 2 {
                let away = kept.len() - 3;
                let gone = std::mem::take(&mut kept[away]);
                self.drop_all(gone);
            }
            self.memory.give(this);
        }
        Ok((root, kept))
    }

    fn backward(
        &mut self,
        tokens: u64,
        operators: &[Operator],
        root: Handle,
        kept: &mut [Vec<Handle>],
        logits: Vec<Handle>,
    ) -> Step<()> {
        let setup = self.job.setup;
        let stream = tokens * self.job.model.hidden * HALF;
        self.loss_backward(tokens, logits)?;
        let mut gradient = self.memory.take(stream)?;
        let first = self.gradients.is_empty();
        let mut next = self.gather(self.block)?;
        for layer in (0..kept.len()).rev() {
            let this = next;
            next = if layer > 0 {
                self.gather(self.block)?
            } else {
                this
            };
            let mut saved = std::mem::take(&mut kept[layer]);
            if setup.activation_offload && saved.is_empty() {
                saved = vec![self.memory.take(stream)?];
            }
            if setup.checkpointing {
                saved.extend(self.layer(operators, true)?);
            }
            gradient = self.layer_backward(operators, saved, gradient, first)?;
            self.memory.give(this);
        }
        self.memory.give(gradient);
        self.reduce(self.root, first)?;
        self.memory.give(root);
        Ok(())
    }

    /// Gradients of the logits; the copies go as they are used up.
    fn loss_backward(&mut self, tokens: u64, logits: Vec<Handle>) -> Step<()> {
        let (setup, hidden) = (self.job.setup, self.job.hidden);
        let all = tokens * self.job.model.vocab;
        let mut gradients = Vec::new();
        if !setup.fused {
            let script = setup.program != Program::Grpo;
            if script || hidden.upcast {
                gradients.push(self.memory.take(all * SINGLE)?);
            }
            if script || !hidden.in_place_loss || hidden.entropy {
                gradients.push(self.memory.take(all * HALF)?);
            }
            if !script && hidden.entropy && !setup.remove_padding {
                for _ in 0..3 {
                    gradients.push(self.memory.take(all * SINGLE)?);
                }
            } else if !script && hidden.entropy {
                let width = if hidden.upcast { SINGLE } else { HALF };
                let pieces = if setup.chunked_entropy { SINGLE } else { 0 };
                gradients.push(self.memory.take(all * (width + pieces))?);
            }
        }
        self.drop_all(logits);
        self.drop_all(gradients);
        Ok(())
    }

    /// Back through one layer; returns the gradient of its input.
    fn layer_backward(
        &mut self,
        operators: &[Operator],
        mut saved: Vec<Handle>,
        gradient: Handle,
        first: bool,
    ) -> Step<Handle> {
        let mut gradient = gradient;
        let widths = operators.iter().filter(|o| o.1).map(|o| o.0).rev();
        for bytes in widths {
            let next = self.memory.take(bytes)?;
            self.memory.give(gradient);
            gradient = next;
            if saved.len() > 1 {
                let used = saved.pop().expect("longer than one");
                self.memory.give(used);
            }
        }
        self.drop_all(saved);
        self.reduce(self.block, first)?;
        Ok(gradient)
    }

    /// Gradients of a flat parameter: whole, reduced in fp32, and the rank's share added up.
    fn reduce(&mut self, elements: u64, first: bool) -> Step<()> {
        let setup = self.job.setup;
        let width = if setup.fp32 { SINGLE } else { HALF };
        let whole = self.memory.take(elements * HALF)?;
        let share = self.shard(elements) * width;
        if self.shards > 1 {
            let reduced = self
                .memory
                .take(elements.next_multiple_of(self.shards) * SINGLE)?;
            self.memory.give(whole);
            let own = self.memory.take(share)?;
            self.memory.give(reduced);
            self.keep(own, first && !setup.offload_policy);
        } else {
            let own = self.memory.take(share)?;
            self.memory.give(whole);
            self.keep(own, first);
            // DistributedDataParallel has them once more, in buckets.
            if first && setup.program == Program::Replicated && setup.world() > 1 {
                let bucket = self.memory.take(share)?;
                self.gradients.push(bucket);
            }
        }
        Ok(())
    }

    fn keep(&mut self, own: Handle, keep: bool) {
        if keep {
            self.gradients.push(own);
        } else {
            self.memory.give(own);
        }
    }

    /// Adam's step: states where they are not there yet, and the temporaries of its lists.
    pub fn optimizer_step(&mut self, new_states: bool) -> Step<()> {
        let setup = self.job.setup;
        let width = if setup.fp32 { SINGLE } else { HALF };
        if setup.offload_policy {
            return Ok(());
        }
        if self.gradients.is_empty() {
            self.gradients = self.sharded(width)?;
        }
        if new_states {
            for _ in 0..2 {
                self.sharded(width)?;
            }
        }
        if !self.job.hidden.fused_optimizer {
            let temporaries = self.sharded(width)?;
            self.drop_all(temporaries);
        }
        Ok(())
    }

    /// A block of bytes for a while (a checkpoint's buffer, a weight on its way).
    pub fn buffer(&mut self, bytes: u64) -> Step<()> {
        let handle = self.memory.take(bytes)?;
        self.memory.give(handle);
        Ok(())
    }
}
