//! Seconds of a step: matrix products, weights on their way, tokens one after the other.

use super::super::setup::Program;
use super::engine::Engine;
use super::plan::{Batch, Pass, Plan};

/// Dense 16-bit FLOP/s and bytes/s of memory, as the makers' data sheets have them: V100, A10, A100, L40S, H100,
/// H20, H200.
const CARDS: [(f64, f64, f64); 7] = [
    (18e9, 125e12, 0.9e12),
    (26e9, 125e12, 0.6e12),
    (44e9, 312e12, 1.56e12),
    (50e9, 362e12, 0.86e12),
    (90e9, 989e12, 3.35e12),
    (110e9, 148e12, 4.0e12),
    (f64::INFINITY, 989e12, 4.8e12),
];

fn card(bytes: u64) -> (f64, f64) {
    let found = CARDS.iter().find(|(most, ..)| (bytes as f64) < *most);
    found.map_or((989e12, 4.8e12), |(_, flops, memory)| (*flops, *memory))
}

/// Seconds of all micro batches of a pass; `factor` forwards' worth of products in each.
fn passes(plan: Plan<'_>, pass: Pass, tokens: f64, factor: f64) -> f64 {
    let (s, n) = (plan.setup, plan.nature.speed);
    let (flops, memory) = card(s.card);
    let Batch { tokens: micro, .. } = plan.batches(pass)[0];
    let micro = (micro as f64).max(1.0);
    let params = plan.all() as f64;
    let product = 2.0 * params * micro * factor / (flops * n.busy);
    let look = (plan.model.layers * plan.model.heads * plan.model.head_dim) as f64;
    let attention = 2.0 * look * micro * plan.mean() * factor / (flops * n.busy);
    let read = 2.0 * params * factor / memory;
    let moved = if plan.shards() > 1 {
        let times = if factor > 1.0 { 3.0 } else { 1.0 };
        times * 2.0 * params / n.network
    } else {
        0.0
    };
    let fetched = if s.offload_policy || pass == Pass::Reference {
        2.0 * params / plan.shards() as f64 / n.host
    } else {
        0.0
    };
    let launch = 0.00012 * plan.model.layers as f64 * factor;
    let each = (product + attention).max(moved + fetched).max(read) + launch;
    (tokens / micro).max(1.0) * each
}

fn rollout(plan: Plan<'_>, sequences: f64) -> f64 {
    let (m, s) = (plan.model, plan.setup);
    let (flops, memory) = card(s.card);
    let split = s.tensor_parallel as f64;
    let mine = sequences * split / plan.ranks() as f64;
    let engine = Engine { plan, around: 0 };
    let room = engine.cached_tokens() as f64 / plan.mean().max(1.0);
    let together = room.min(s.engine_sequences as f64).min(mine).max(1.0);
    let read = engine.weights() as f64 / memory;
    let math = together * 2.0 * plan.all() as f64 / split / (0.5 * flops);
    let launch = m.layers as f64 * if s.eager { 0.0003 } else { 0.00008 };
    let talk = if split > 1.0 {
        0.00006 * m.layers as f64
    } else {
        0.0
    };
    let one = read.max(math).max(launch) + talk;
    let answer = (plan.mean() - 0.3 * s.prompt as f64).max(16.0);
    one * (mine / together * answer + 0.25 * s.response as f64)
}

/// Seconds of a step, and the tokens that it trains on.
pub fn step(plan: Plan<'_>) -> (f64, f64) {
    let (s, n) = (plan.setup, plan.nature.speed);
    let back = if s.checkpointing { 4.0 } else { 3.0 };
    let ranks = plan.ranks() as f64;
    if s.program != Program::Grpo {
        let times = s.accumulation.unwrap_or(1) as f64;
        let batch = plan.batches(Pass::Update)[0].tokens as f64;
        let reduce = if ranks > 1.0 {
            4.0 * plan.all() as f64 / n.network
        } else {
            0.0
        };
        let seconds = passes(plan, Pass::Update, batch * times, back) + reduce + 0.05;
        return (seconds, (s.micro as f64) * times * plan.mean() * ranks);
    }
    let sequences = (s.train_batch * s.samples) as f64;
    let length = if s.remove_padding {
        plan.mean()
    } else {
        (s.prompt + s.response) as f64
    };
    let mine = sequences * length / ranks;
    let copy = plan.width() as f64 * plan.all() as f64 / plan.shards() as f64 / n.host;
    let moves = |yes: bool, copies: f64| if yes { copies * copy } else { 0.0 };
    let kept = (plan.model.layers * plan.model.hidden * 2) as f64 * mine / n.host;
    let slower = if s.fused || s.chunked_entropy {
        1.03
    } else {
        1.0
    };
    let reference = if s.reference {
        passes(plan, Pass::Reference, mine, 1.0)
    } else {
        0.0
    };
    let seconds = rollout(plan, sequences)
        + 2.0 * plan.all() as f64 / n.network
        + passes(plan, Pass::Old, mine, 1.0)
        + reference
        + passes(plan, Pass::Update, mine, back) * slower
        + moves(s.param_offload, 6.0)
        + moves(s.optimizer_offload, 4.0)
        + if s.activation_offload { kept } else { 0.0 }
        + 3.0;
    (seconds, sequences * plan.mean())
}
