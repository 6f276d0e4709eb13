//! The tensors that the operators of one transformer layer make, in the order of the forward pass.

use super::hidden::Unknown;
use super::trainer::Job;

/// Bytes of an element.
pub const HALF: u64 = 2;
pub const SINGLE: u64 = 4;

/// An operator's output: bytes, and whether the backward pass needs it.
pub type Operator = (u64, bool);

/// The operators of one layer on `tokens` tokens of this GPU, in order.
pub fn operators(job: Job<'_>, tokens: u64, sequences: u64) -> Vec<Operator> {
    let (m, hidden) = (job.model, job.hidden);
    let (h, f) = (m.hidden * tokens, m.intermediate * tokens);
    let (q, kv) = (
        m.heads * m.head_dim * tokens,
        m.kv_heads * m.head_dim * tokens,
    );
    let norm = |all: &mut Vec<Operator>| {
        if hidden.eager_norm {
            all.extend([
                (h * SINGLE, true),
                (tokens * SINGLE, true),
                (h * SINGLE, false),
            ]);
        }
        all.extend([(h * HALF, true), (h * HALF, hidden.eager_norm)]);
    };
    let mut all = Vec::with_capacity(28);
    norm(&mut all);
    all.extend([(q * HALF, false), (kv * HALF, false), (kv * HALF, true)]);
    // Rotary embedding: halves turned, then the sum.
    all.extend([
        (q * HALF, false),
        (q * HALF, true),
        (kv * HALF, false),
        (kv * HALF, true),
    ]);
    if hidden.eager_attention {
        let length = tokens / sequences.max(1);
        let scores = m.heads * tokens * length;
        all.extend([
            (scores * HALF, false),
            (scores * SINGLE, true),
            (scores * HALF, true),
        ]);
    } else {
        all.push((m.heads * tokens * SINGLE, true));
    }
    all.extend([(q * HALF, true), (h * HALF, false), (h * HALF, true)]);
    norm(&mut all);
    all.extend([
        (f * HALF, true),
        (f * HALF, true),
        (f * HALF, true),
        (f * HALF, true),
    ]);
    all.push((h * HALF, false));
    if let Some(Unknown::Buffers(share)) = hidden.unknown {
        let kept: u64 = all.iter().filter(|o| o.1).map(|o| o.0).sum();
        all.push(((kept as f64 * share) as u64, true));
    }
    all
}
