//! One decoder layer backward: each operator's gradient, in autograd's order; what was saved goes with it.

use super::layer::{Attention, FIRST, Layer, SECOND, Slot};
use super::memory::{Memory, Piece, Step};

impl<M: Memory> Layer<'_, M> {
    fn drop_saved(&mut self, slots: &[Slot]) {
        for slot in slots {
            if let Some(piece) = self.saved.take(*slot) {
                self.memory.give(piece);
            }
        }
    }

    /// From the gradient of the output to that of the input; gradients of weights are left in `weights`.
    pub fn backward(&mut self, gradient: Piece, weights: &mut Vec<Piece>) -> Step<Piece> {
        let inner = self.mlp_back(weights)?;
        let middle = self.norm_back(inner, SECOND)?;
        let sum = self.half(self.extent.hidden)?;
        self.give([middle, gradient]);
        self.drop_saved(&[Slot::Middle]);
        let inner = self.attention_back(weights)?;
        let start = self.norm_back(inner, FIRST)?;
        let input = self.half(self.extent.hidden)?;
        self.give([start, sum]);
        self.drop_saved(&[Slot::Extra]);
        Ok(input)
    }

    fn weight(&mut self, index: usize, weights: &mut Vec<Piece>) -> Step<()> {
        let elements = self.extent.weights[index];
        weights.push(self.half(elements)?);
        Ok(())
    }

    fn mlp_back(&mut self, weights: &mut Vec<Piece>) -> Step<Piece> {
        let e = self.extent;
        let product = self.half(e.wide)?;
        self.weight(6, weights)?;
        self.drop_saved(&[Slot::Product]);
        let (gate, up) = if e.fused {
            // Written over what was saved.
            let gate = self.saved.take(Slot::Gate).expect("it was saved");
            let up = self.saved.take(Slot::Up).expect("it was saved");
            self.give([product]);
            (gate, up)
        } else {
            let activated = self.half(e.wide)?;
            let up = self.half(e.wide)?;
            self.give([product]);
            self.drop_saved(&[Slot::Activated, Slot::Up]);
            let gate = self.half(e.wide)?;
            self.give([activated]);
            self.drop_saved(&[Slot::Gate]);
            (gate, up)
        };
        let first = self.half(e.hidden)?;
        self.weight(5, weights)?;
        self.give([up]);
        let second = self.half(e.hidden)?;
        self.weight(4, weights)?;
        self.give([gate, second]);
        self.drop_saved(&[Slot::Norm2Out]);
        Ok(first)
    }

    fn norm_back(&mut self, gradient: Piece, slots: [Slot; 4]) -> Step<Piece> {
        let e = self.extent;
        if e.fused {
            let input = self.half(e.hidden)?;
            self.give([gradient]);
            self.drop_saved(&slots);
            return Ok(input);
        }
        let narrow = self.half(e.hidden)?;
        self.give([gradient]);
        self.drop_saved(&[slots[2]]);
        let wide = self.full(e.hidden)?;
        self.give([narrow]);
        let scaled = self.full(e.hidden)?;
        let squares = self.full(e.hidden)?;
        self.give([wide]);
        self.drop_saved(&slots);
        let input = self.half(e.hidden)?;
        self.give([scaled, squares]);
        Ok(input)
    }

    fn attention_back(&mut self, weights: &mut Vec<Piece>) -> Step<Piece> {
        let e = self.extent;
        let out = self.half(e.query)?;
        self.weight(3, weights)?;
        let [query, key, value] = self.scores_back(out)?;
        let query = self.rotate_back(query, e.query)?;
        let query = self.head_norm_back(query, e.query, [Slot::QueryWide, Slot::QueryHalf])?;
        let key = self.rotate_back(key, e.key)?;
        let key = self.head_norm_back(key, e.key, [Slot::KeyWide, Slot::KeyHalf])?;
        let sum = self.half(e.hidden)?;
        self.weight(2, weights)?;
        self.give([value]);
        for (index, piece) in [(1, key), (0, query)] {
            let part = self.half(e.hidden)?;
            self.weight(index, weights)?;
            self.give([piece, part]);
        }
        self.drop_saved(&[Slot::Norm1Out]);
        Ok(sum)
    }

    fn head_norm_back(&mut self, out: Piece, elements: u64, slots: [Slot; 2]) -> Step<Piece> {
        if !self.extent.head_norms {
            return Ok(out);
        }
        let wide = self.full(elements)?;
        self.give([out]);
        let scaled = self.full(elements)?;
        self.give([wide]);
        self.drop_saved(&slots);
        let input = self.half(elements)?;
        self.give([scaled]);
        Ok(input)
    }

    /// Gradients of queries, keys and values.
    fn scores_back(&mut self, out: Piece) -> Step<[Piece; 3]> {
        let e = self.extent;
        let kept = [
            Slot::Query,
            Slot::Key,
            Slot::Value,
            Slot::Context,
            Slot::Probabilities,
        ];
        let expanded = if e.attention == Attention::Eager {
            self.eager_back(out)?
        } else {
            let sums = self.full(e.rows)?;
            // FlashAttention adds up the gradient of the queries in 32 bits.
            let wide = match e.attention {
                Attention::Flash => Some(self.full(e.query)?),
                _ => None,
            };
            let all = [
                self.half(e.query)?,
                self.half(e.query)?,
                self.half(e.query)?,
            ];
            self.give([out, sums]);
            if let Some(wide) = wide {
                self.give([wide]);
            }
            all
        };
        self.drop_saved(&kept);
        let [query, keys, values] = expanded;
        let (key, value) = (self.half(e.key)?, self.half(e.key)?);
        self.give([keys, values]);
        Ok([query, key, value])
    }

    fn eager_back(&mut self, out: Piece) -> Step<[Piece; 3]> {
        let e = self.extent;
        let narrow = self.half(e.scores)?;
        let values = self.half(e.query)?;
        self.give([out]);
        self.drop_saved(&[Slot::ProbabilitiesHalf, Slot::Value]);
        let wide = self.full(e.scores)?;
        self.give([narrow]);
        let soft = self.full(e.scores)?;
        self.give([wide]);
        self.drop_saved(&[Slot::Probabilities]);
        let scores = self.half(e.scores)?;
        self.give([soft]);
        let scaled = self.half(e.scores)?;
        self.give([scores]);
        let (query, keys) = (self.half(e.query)?, self.half(e.query)?);
        self.give([scaled]);
        Ok([query, keys, values])
    }

    fn rotate_back(&mut self, gradient: Piece, elements: u64) -> Step<Piece> {
        let sine = self.half(elements)?;
        let turned = self.half(elements)?;
        self.give([sine]);
        let cosine = self.half(elements)?;
        self.give([gradient]);
        let input = self.half(elements)?;
        self.give([turned, cosine]);
        Ok(input)
    }
}
