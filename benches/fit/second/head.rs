//! The output layer and what a loss makes of its logits.
//!
//! verl (volcengine/verl: verl/utils/torch_functional.py): logprobs_from_logits, entropy_from_logits and its
//! chunked variant, whose pieces of 2,048 rows are in fp32, and under autograd all of them stay. The losses of
//! scripts (upcast, shifted, chunked, fused with the output layer) are from knowledge of transformers, torchtune
//! and Liger, checked against published peaks.

use super::layer::{FULL, HALF};
use super::memory::{Memory, Piece, Step, Stream};

/// How logits become a loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Loss {
    /// Linear layer and loss in one kernel, piece by piece.
    Fused,
    /// Log-probabilities of the tokens that were drawn.
    Policy(Policy),
    /// Cross-entropy of a causal language model.
    Causal(Causal),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Policy {
    /// The model's own code gives logits in fp32.
    pub upcast: bool,
    /// flash-attn's cross-entropy is installed; without it one row after the other is kept.
    pub flash: bool,
    pub entropy: bool,
    /// The entropy is compiled, so that it keeps nothings own.
    pub compiled: bool,
    pub chunked: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Causal {
    /// Logits in fp32 stay with the model's output.
    pub kept: bool,
    /// Logits are shifted and copied.
    pub shifted: bool,
    /// In pieces, which under autograd all stay.
    pub chunked: bool,
}

/// Rows of a piece of verl's chunked entropy.
const PIECE: u64 = 2048;
/// Pieces of torchtune's chunked loss.
const PIECES: u64 = 8;

/// The head on its way: `tokens` rows of `vocab` logits.
pub struct Head<'m, M> {
    pub memory: &'m mut M,
    pub tokens: u64,
    pub hidden: u64,
    pub vocab: u64,
    pub loss: Loss,
    pub grad: bool,
}

/// What the head keeps for its backward pass.
#[derive(Debug, Default)]
pub struct Kept {
    normed: Option<Piece>,
    /// Copies of the logits that live until the gradient is there.
    copies: Vec<Piece>,
    /// Gradients that the fused kernel made forward.
    made: Vec<Piece>,
}

impl<M: Memory> Head<'_, M> {
    fn take(&mut self, bytes: u64) -> Step<Piece> {
        self.memory.take(Stream::Compute, bytes)
    }

    fn copy(&mut self, width: u64) -> Step<Piece> {
        self.take(self.tokens * self.vocab * width)
    }

    fn give_all(&mut self, pieces: Vec<Piece>) {
        for piece in pieces {
            self.memory.give(piece);
        }
    }

    pub fn forward(&mut self) -> Step<Kept> {
        let normed = self.take(self.tokens * self.hidden * HALF)?;
        let mut kept = match self.loss {
            Loss::Fused => self.fused()?,
            Loss::Policy(policy) => self.policy(policy)?,
            Loss::Causal(causal) => self.causal(causal)?,
        };
        if self.grad {
            kept.normed = Some(normed);
        } else {
            self.memory.give(normed);
            let copies = std::mem::take(&mut kept.copies);
            self.give_all(copies);
        }
        Ok(kept)
    }

    fn fused(&mut self) -> Step<Kept> {
        let pieces = self.vocab.div_ceil(self.hidden);
        let rows = self.tokens.div_ceil(pieces).next_power_of_two();
        let mut made = Vec::new();
        if self.grad {
            made.push(self.take(self.tokens * self.hidden * HALF)?);
            made.push(self.take(self.vocab * self.hidden * HALF)?);
        }
        let logits = self.take(rows * self.vocab * HALF)?;
        let wide = self.take(rows * self.vocab * FULL)?;
        self.give_all(vec![logits, wide]);
        Ok(Kept {
            made,
            ..Kept::default()
        })
    }

    fn policy(&mut self, policy: Policy) -> Step<Kept> {
        let mut copies = vec![self.copy(HALF)?];
        let mut width = HALF;
        if policy.upcast {
            let wide = self.copy(FULL)?;
            self.give_all(std::mem::replace(&mut copies, vec![wide]));
            width = FULL;
        }
        if !policy.flash {
            // In fp32 a log-sum a row, which keeps none; in 16 bits a log-softmax a row.
            if self.grad && width == HALF {
                copies.push(self.copy(width)?);
            } else {
                let row = self.take(self.vocab * FULL)?;
                self.memory.give(row);
            }
        }
        if policy.entropy && !policy.compiled {
            self.entropy(policy, &mut copies)?;
        }
        Ok(Kept {
            copies,
            ..Kept::default()
        })
    }

    fn entropy(&mut self, policy: Policy, copies: &mut Vec<Piece>) -> Step<()> {
        if !policy.chunked {
            // Autocast takes the softmax to fp32.
            let wide = self.copy(FULL)?;
            let soft = self.copy(FULL)?;
            let product = self.copy(FULL)?;
            self.memory.give(product);
            copies.extend([wide, soft]);
            return Ok(());
        }
        for start in (0..self.tokens).step_by(PIECE as usize) {
            let bytes = (self.tokens - start).min(PIECE) * self.vocab * FULL;
            let logits = self.take(bytes)?;
            let soft = self.take(bytes)?;
            let product = self.take(bytes)?;
            self.memory.give(product);
            if self.grad {
                copies.extend([logits, soft]);
            } else {
                self.give_all(vec![logits, soft]);
            }
        }
        Ok(())
    }

    fn causal(&mut self, causal: Causal) -> Step<Kept> {
        let logits = self.copy(HALF)?;
        if causal.chunked {
            let mut copies = vec![logits];
            for _ in 0..PIECES {
                let bytes = self.tokens.div_ceil(PIECES) * self.vocab * FULL;
                let wide = self.take(bytes)?;
                copies.push(self.take(bytes)?);
                self.memory.give(wide);
            }
            return Ok(Kept {
                copies,
                ..Kept::default()
            });
        }
        let mut output = vec![logits];
        let wide = self.copy(FULL)?;
        if causal.kept {
            self.give_all(std::mem::take(&mut output));
        }
        output.push(wide);
        let shifted = if causal.shifted {
            Some(self.copy(FULL)?)
        } else {
            None
        };
        let soft = self.copy(FULL)?;
        if let Some(shifted) = shifted {
            self.memory.give(shifted);
        }
        // compute_loss returns, and the model's output with it.
        self.give_all(output);
        Ok(Kept {
            copies: vec![soft],
            ..Kept::default()
        })
    }

    /// The gradient of the hidden states; that of the output layer's weight goes to `weights`.
    pub fn backward(&mut self, mut kept: Kept, weights: &mut Vec<Piece>) -> Step<Piece> {
        if let Loss::Fused = self.loss {
            let weight = kept.made.pop().expect("it was made forward");
            weights.push(weight);
            let gradient = kept.made.pop().expect("it was made forward");
            self.give_all(kept.normed.into_iter().collect());
            return Ok(gradient);
        }
        let logits = match self.loss {
            Loss::Policy(policy) => self.policy_back(policy, &mut kept)?,
            _ => self.causal_back(&mut kept)?,
        };
        let gradient = self.take(self.tokens * self.hidden * HALF)?;
        weights.push(self.take(self.vocab * self.hidden * HALF)?);
        self.memory.give(logits);
        self.give_all(kept.normed.into_iter().collect());
        Ok(gradient)
    }

    /// The gradient of the logits in 16 bits. flash-attn writes it over them where nobody else needs them.
    fn policy_back(&mut self, policy: Policy, kept: &mut Kept) -> Step<Piece> {
        let width = if policy.upcast { FULL } else { HALF };
        let mut parts = Vec::new();
        if !policy.flash || policy.entropy {
            parts.push(self.copy(width)?);
        }
        if policy.entropy && policy.compiled {
            parts.push(self.copy(width)?);
            if policy.chunked {
                parts.push(self.copy(FULL)?);
            }
        } else if policy.entropy {
            // Of the product both factors, of the softmax, and of the log-sum.
            let width = if policy.chunked { width } else { FULL };
            let soft = self.copy(width)?;
            let logits = self.copy(width)?;
            let through = self.copy(width)?;
            self.give_all(vec![soft, logits]);
            parts.push(through);
        }
        let last = if parts.is_empty() {
            kept.copies.remove(0)
        } else {
            parts.remove(0)
        };
        self.give_all(parts);
        self.give_all(std::mem::take(&mut kept.copies));
        if !policy.upcast {
            return Ok(last);
        }
        let narrow = self.copy(HALF)?;
        self.memory.give(last);
        Ok(narrow)
    }

    fn causal_back(&mut self, kept: &mut Kept) -> Step<Piece> {
        if let Loss::Causal(Causal { chunked: true, .. }) = self.loss {
            let piece = self.take(self.tokens.div_ceil(PIECES) * self.vocab * FULL)?;
            let narrow = self.copy(HALF)?;
            self.memory.give(piece);
            self.give_all(std::mem::take(&mut kept.copies));
            return Ok(narrow);
        }
        let picked = self.copy(FULL)?;
        let soft = self.copy(FULL)?;
        self.give_all(std::mem::take(&mut kept.copies));
        self.memory.give(picked);
        let narrow = self.copy(HALF)?;
        self.memory.give(soft);
        Ok(narrow)
    }
}
