//! What is true of a case and stands in no configuration: lengths, code paths of the stack, what the
//! driver holds, and in a third of the cases something that no model of the product knows.

use super::super::rng::Rng;
use super::super::setup::{Program, Setup};
use super::super::units::gib;

/// A term that the product does not know.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Unknown {
    /// Bytes that another process holds on the GPU, too few to be told from our own.
    Neighbour(u64),
    /// The reference policy stays on the GPU, sharded.
    ReferenceCopy,
    /// A custom operator keeps this share of what a layer keeps anyway.
    Buffers(f64),
    /// Bytes that each step leaves behind.
    Leak(u64),
    /// A larger CUDA context (many kernels, lazy loading off).
    Context(u64),
}

/// The hidden truth of a case.
#[derive(Debug, Clone, PartialEq)]
pub struct Hidden {
    pub unknown: Option<Unknown>,
    /// CUDA context of the trainer.
    pub context: u64,
    /// Collectives, on more than one GPU.
    pub nccl: u64,
    /// The engine's process: context and what is outside its budget's arithmetic.
    pub engine_context: u64,
    /// What the engine has outside PyTorch and counts into its share.
    pub engine_outside: u64,
    /// What a sleeping engine keeps.
    pub residue: u64,
    /// CUDA graphs.
    pub graphs: u64,
    /// Activations of the engine's profile run, against the plain sum of its tensors.
    pub profile: f64,
    /// The loss is a fused kernel that works in place.
    pub in_place_loss: bool,
    /// Logits are copied to fp32.
    pub upcast: bool,
    /// The actor update computes the entropy too.
    pub entropy: bool,
    /// Norms in fp32, step by step.
    pub eager_norm: bool,
    /// Attention that materialises its scores.
    pub eager_attention: bool,
    /// Adam in one kernel, without temporaries.
    pub fused_optimizer: bool,
    /// The whole model is gathered on the GPU to be saved.
    pub gathers_to_save: bool,
    /// Share of a token budget that the fullest micro batch reaches.
    pub fill: f64,
    /// Prompt as a share of the longest, and response in tokens if nothing cut it.
    pub lengths: Vec<(f64, f64)>,
    /// Host memory of one process, in bytes.
    pub process: u64,
    /// Share of the peak FLOPs that large batches reach.
    pub mfu: f64,
    /// Bytes per second between GPU and host.
    pub pcie: f64,
    /// Bytes per second between GPUs.
    pub fabric: f64,
    /// Steps that the job runs.
    pub steps: u64,
}

/// Sequences whose lengths are drawn.
const DRAWN: usize = 1024;

impl Hidden {
    pub fn draw(rng: &mut Rng, setup: &Setup, card_gib: f64) -> Self {
        let world = setup.world();
        Self {
            unknown: None,
            context: gib(rng.between(0.45, 0.92)),
            nccl: if world > 1 {
                gib(rng.between(0.35, 1.6))
            } else {
                0
            },
            engine_context: gib(rng.between(0.4, 0.7)),
            engine_outside: gib(
                rng.between(0.05, 0.9) + if setup.tensor_parallel > 1 { 1.2 } else { 0.0 }
            ),
            residue: gib(rng.between(0.2, 2.0)),
            graphs: gib(rng.between(0.5, 2.2)),
            profile: rng.between(0.8, 1.3),
            in_place_loss: rng.chance(0.7),
            upcast: rng.chance(0.2),
            entropy: rng.chance(0.35),
            eager_norm: rng.chance(0.6),
            eager_attention: card_gib < 20.0 && rng.chance(0.4),
            fused_optimizer: rng.chance(0.2),
            gathers_to_save: rng.chance(0.3),
            fill: rng.between(0.86, 1.0),
            lengths: lengths(rng, setup),
            process: gib(rng.between(6.0, 14.0)),
            mfu: rng.between(0.3, 0.5),
            pcie: 1e9 * rng.between(10.0, 40.0),
            fabric: 1e9 * rng.pick(&[12.0, 25.0, 60.0, 150.0, 250.0]),
            steps: 40,
        }
    }

    /// Gives the case one of the terms that the product does not know.
    pub fn surprise(&mut self, rng: &mut Rng) {
        self.unknown = Some(match rng.pick(&[0, 1, 2, 3, 4]) {
            0 => Unknown::Neighbour(gib(rng.between(0.3, 2.6))),
            1 => Unknown::ReferenceCopy,
            2 => Unknown::Buffers(rng.between(0.1, 0.5)),
            3 => Unknown::Leak(gib(rng.between(0.5, 4.0) / self.steps as f64)),
            _ => Unknown::Context(gib(rng.between(0.6, 2.0))),
        });
    }

    /// Bytes that are always there besides the trainer's own.
    pub fn standing(&self) -> u64 {
        let extra = match self.unknown {
            Some(Unknown::Neighbour(bytes) | Unknown::Context(bytes)) => bytes,
            _ => 0,
        };
        self.context + self.nccl + extra
    }

    /// Tokens of the fullest micro batch of `micro` sequences, and of a usual one.
    pub fn tokens(&self, setup: &Setup, micro: u64) -> (u64, u64) {
        let script = setup.program != Program::Grpo;
        if !setup.remove_padding && !script {
            let all = micro * setup.sequence();
            return (all, all);
        }
        let real = |(prompt, response): &(f64, f64)| {
            prompt * setup.prompt as f64 + response.min(setup.response as f64)
        };
        let micro = usize::try_from(micro).unwrap_or(DRAWN);
        let group = micro.min(DRAWN);
        // The script pads a batch to its longest sequence.
        let padded = |g: &[(f64, f64)]| g.iter().map(real).fold(0.0, f64::max) * g.len() as f64;
        let packed = |g: &[(f64, f64)]| g.iter().map(real).sum::<f64>();
        let sums = self.lengths.chunks_exact(group);
        let sums = sums.map(|g| if script { padded(g) } else { packed(g) });
        let most = sums.clone().fold(0.0, f64::max);
        let scale = micro as f64 / group as f64;
        let usual = sums.clone().sum::<f64>() / sums.count() as f64;
        ((most * scale) as u64, (usual * scale) as u64)
    }

    /// Tokens of the fullest micro batch under a token budget, and of a usual one.
    pub fn packed(&self, setup: &Setup, budget: u64, sequences: u64) -> (u64, u64) {
        let longest = self.tokens(setup, 1).0;
        let all = (self.mean(setup) * sequences as f64) as u64;
        let full = (budget as f64 * setup.sequence_parallel as f64 * self.fill) as u64;
        let most = full.max(longest).min(all.max(longest));
        (most, (most as f64 * 0.93) as u64)
    }

    /// Mean tokens of a sequence without padding.
    pub fn mean(&self, setup: &Setup) -> f64 {
        let sum: f64 = self
            .lengths
            .iter()
            .map(|(p, r)| p * setup.prompt as f64 + r.min(setup.response as f64))
            .sum();
        sum / self.lengths.len() as f64
    }

    /// Mean tokens of a response.
    pub fn mean_response(&self, setup: &Setup) -> f64 {
        let sum: f64 = self
            .lengths
            .iter()
            .map(|(_, r)| r.min(setup.response as f64))
            .sum();
        sum / self.lengths.len() as f64
    }
}

/// Prompts spread over their limit; responses log-normal, some of them cut.
fn lengths(rng: &mut Rng, setup: &Setup) -> Vec<(f64, f64)> {
    let longest_prompt = rng.between(0.4, 1.0);
    let middle = setup.response as f64 * rng.between(0.12, 0.9);
    let spread = rng.between(0.25, 0.8);
    (0..DRAWN)
        .map(|_| {
            let prompt = longest_prompt * rng.between(0.2, 1.0);
            (prompt, (middle * (spread * rng.normal()).exp()).max(8.0))
        })
        .collect()
}
