//! Gradients of weights, from 16 bits to what is kept of them on this GPU.

use super::layer::HALF;
use super::memory::{Memory, Piece, Step, Stream};
use super::train::Trainer;

impl<M: Memory> Trainer<'_, M> {
    /// Gradients of one flat parameter, from 16 bits to the rank's share at rest.
    pub(super) fn reduce(&mut self, elements: u64, weights: Vec<Piece>) -> Step<()> {
        let plan = self.plan;
        let width = plan.width();
        if self.replicated() {
            if self.accumulating {
                let wide = self.take(elements * width)?;
                self.give_all([wide]);
            } else {
                self.keep(elements * width)?;
                // Buckets are made once; they stay, as these do until the gradients go.
                if !plan.nature.bucket_views && plan.ranks() > 1 {
                    self.keep(elements * width)?;
                }
            }
            self.give_all(weights);
            return Ok(());
        }
        let flat = self.take(elements * HALF)?;
        self.give_all(weights);
        let whole =
            !plan.is_rl() && plan.nature.no_sync && plan.setup.accumulation.unwrap_or(1) > 1;
        if whole {
            if self.accumulating {
                self.give_all([flat]);
            } else {
                self.gradients.push(flat);
            }
            return Ok(());
        }
        self.give_all(self.reducing);
        self.reducing = None;
        let padded = self.share(elements) * plan.shards();
        let wide = self.memory.take(Stream::Reduce, padded * 4)?;
        self.give_all([flat]);
        self.reducing = Some(wide);
        if plan.shards() > 1 {
            let share = self.memory.take(Stream::Reduce, self.share(elements) * 4)?;
            self.land(elements, share, width)?;
        } else {
            let own = self.take(elements * width)?;
            if self.accumulating || plan.setup.offload_policy {
                self.give_all([own]);
            } else {
                self.gradients.push(own);
            }
        }
        Ok(())
    }

    /// The reduced share becomes the gradient, or is added to it, or goes to the host.
    fn land(&mut self, elements: u64, share: Piece, width: u64) -> Step<()> {
        if self.accumulating || self.plan.setup.offload_policy {
            self.give_all([share]);
        } else if width != 4 {
            self.keep(self.share(elements) * width)?;
            self.give_all([share]);
        } else {
            self.gradients.push(share);
        }
        Ok(())
    }

    fn keep(&mut self, bytes: u64) -> Step<()> {
        let piece = self.take(bytes)?;
        self.gradients.push(piece);
        Ok(())
    }

    /// zero_grad(set_to_none=True).
    pub fn zero(&mut self) {
        let gradients = std::mem::take(&mut self.gradients);
        self.give_all(gradients);
        self.accumulating = false;
    }
}
