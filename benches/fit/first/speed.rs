//! Seconds of a step, from FLOPs, bytes and waiting.

use super::super::setup::Program;
use super::super::units::GIB;
use super::engine::Engine;
use super::trainer::Job;

/// Half-precision FLOPs per second and bytes per second of the memory of a card, by its size: V100, A10,
/// A100, L40S, H100, H20, H200, as their data sheets have them.
fn card(bytes: u64) -> (f64, f64) {
    match bytes as f64 / GIB {
        x if x < 20.0 => (112e12, 0.9e12),
        x if x < 30.0 => (125e12, 0.6e12),
        x if x < 42.0 => (312e12, 1.55e12),
        x if x < 60.0 => (362e12, 0.86e12),
        x if x < 85.0 => (800e12, 3.3e12),
        x if x < 120.0 => (148e12, 4.0e12),
        _ => (800e12, 4.8e12),
    }
}

/// Seconds of the parts of one step.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Pace {
    pub start: f64,
    pub wake: f64,
    pub rollout: f64,
    pub logprob: f64,
    pub reference: f64,
    pub update: f64,
    pub optimizer: f64,
    /// Tokens that a step trains on, over all GPUs.
    pub tokens: f64,
}

impl Pace {
    pub fn of(job: Job<'_>) -> Self {
        match job.setup.program {
            Program::Grpo => grpo(job),
            Program::Replicated | Program::Sharded => script(job),
        }
    }

    pub fn step(&self) -> f64 {
        self.wake + self.rollout + self.logprob + self.reference + self.update + self.optimizer
    }

    /// Tokens per second and GPU.
    pub fn speed(&self, gpus: u64) -> f64 {
        self.tokens / self.step() / gpus as f64
    }
}

/// Seconds of `passes` through the model (one forward, three with backward) over `tokens` tokens of a GPU
/// in micro batches of `micro` tokens.
fn compute(job: Job<'_>, tokens: f64, micro: f64, passes: f64, gathers: f64) -> f64 {
    let (m, s, h) = (job.model, job.setup, job.hidden);
    let (flops, bandwidth) = card(s.card);
    let params = m.params() as f64;
    let length = h.mean(s);
    let attention = 2.0 * (m.layers * m.heads * m.head_dim) as f64 * length;
    let busy = micro / (micro + 1500.0 * (flops / 312e12));
    let seconds = passes * tokens * (2.0 * params + attention) / (flops * h.mfu * busy);
    let batches = (tokens / micro).ceil().max(1.0);
    let moved = if s.shards() > 1 {
        gathers * 2.0 * params / h.fabric
    } else {
        0.0
    };
    let from_host = if s.offload_policy {
        gathers * 4.0 * params / s.shards() as f64 / h.pcie
    } else {
        0.0
    };
    let read = passes * 2.0 * params / bandwidth;
    let each = (moved + from_host).max(read) + 0.004 * passes * m.layers as f64 / 32.0;
    // Gathering hides behind computing, but never wholly.
    seconds.max(batches * each) + 0.15 * seconds.min(batches * each)
}

/// Tokens of a usual micro batch on one GPU.
fn micro_tokens(job: Job<'_>, micro: u64, budget: u64) -> f64 {
    let s = job.setup;
    let tokens = if s.dynamic {
        let sequences = s.mini_per_rank();
        job.hidden.packed(s, budget, sequences).1 as f64
    } else if s.remove_padding {
        micro as f64 * job.hidden.mean(s)
    } else {
        (micro * s.sequence()) as f64
    };
    tokens / s.sequence_parallel as f64
}

fn rollout(job: Job<'_>, sequences: f64) -> f64 {
    let (m, s, h) = (job.model, job.setup, job.hidden);
    let (flops, bandwidth) = card(s.card);
    let engines = (s.world() / s.tensor_parallel) as f64;
    let mine = sequences / engines;
    let held = Engine(job).cache_tokens() as f64 / h.mean(s).max(1.0);
    let together = held.min(s.engine_sequences as f64).min(mine).max(1.0);
    let tp = s.tensor_parallel as f64;
    let weights = 2.0 * m.params() as f64 / tp / bandwidth;
    let cache = together * h.mean(s) * m.kv_bytes() as f64 / tp / bandwidth;
    let math = together * 2.0 * m.params() as f64 / tp / (flops * 0.6);
    let launch = if s.eager { 0.00035 } else { 0.0001 } * m.layers as f64;
    let talk = if s.tensor_parallel > 1 {
        0.00008 * m.layers as f64
    } else {
        0.0
    };
    let token = (weights + cache).max(math).max(launch) + talk;
    // The longest response of the last wave is waited for.
    let waves = (mine / together).max(1.0);
    let prefill = mine * s.prompt as f64 * 2.0 * m.params() as f64 / tp / (flops * h.mfu);
    token * (waves * h.mean_response(s) + 0.3 * s.response as f64) + prefill
}

fn grpo(job: Job<'_>) -> Pace {
    let (m, s, h) = (job.model, job.setup, job.hidden);
    let sequences = (s.train_batch * s.samples) as f64;
    let length = if s.remove_padding {
        h.mean(s)
    } else {
        s.sequence() as f64
    };
    let mine = sequences * length / s.world() as f64;
    let params = m.params() as f64 / s.shards() as f64;
    let width = if s.fp32 { 4.0 } else { 2.0 };
    let minis = (s.train_batch as f64 / s.mini_batch as f64).ceil();
    let (weights, adam) = (width * params / h.pcie, 2.0 * width * params / h.pcie);
    let moves = |yes: bool, seconds: f64| if yes { seconds } else { 0.0 };
    let passes = if s.checkpointing { 4.0 } else { 3.0 };
    let kept = (m.layers * m.hidden * 2) as f64 * mine;
    let chunked = if s.fused || s.chunked_entropy {
        1.02
    } else {
        1.0
    };
    let update = compute(job, mine, micro_tokens(job, s.micro, s.budget), passes, 3.0) * chunked
        + moves(s.param_offload, 2.0 * weights)
        + moves(s.optimizer_offload, 2.0 * adam)
        + moves(s.activation_offload, 1.2 * kept / h.pcie);
    let optimizer = if s.offload_policy {
        12.0 * params / 8e9
    } else {
        0.02 + 20.0 * params / card(s.card).1
    };
    let logprob = |micro, budget| compute(job, mine, micro_tokens(job, micro, budget), 1.0, 1.0);
    let reference = logprob(s.ref_micro, s.ref_budget) + 2.0 * params / h.pcie;
    Pace {
        start: 150.0 + 2.0 * m.params() as f64 / 2e9,
        wake: 2.0 + 2.0 * m.params() as f64 / h.fabric + moves(s.param_offload, 2.0 * weights),
        rollout: rollout(job, sequences),
        logprob: logprob(s.logprob_micro, s.logprob_budget) + moves(s.param_offload, 2.0 * weights),
        reference: if s.reference { reference } else { 0.0 },
        update,
        optimizer: optimizer * minis,
        tokens: sequences * h.mean(s),
    }
}

fn script(job: Job<'_>) -> Pace {
    let (m, s, h) = (job.model, job.setup, job.hidden);
    let forwards = s.accumulation.unwrap_or(1) as f64;
    let micro = h.tokens(s, s.micro).1 as f64;
    let passes = if s.checkpointing { 4.0 } else { 3.0 };
    let reduce = if s.world() > 1 {
        4.0 * m.params() as f64 / h.fabric
    } else {
        0.0
    };
    Pace {
        start: 60.0 + 2.0 * m.params() as f64 / 2e9,
        update: compute(job, micro * forwards, micro, passes, 3.0),
        optimizer: 0.02 + 20.0 * m.params() as f64 / s.shards() as f64 / card(s.card).1 + reduce,
        tokens: (s.micro * s.world()) as f64 * forwards * h.mean(s),
        ..Pace::default()
    }
}
