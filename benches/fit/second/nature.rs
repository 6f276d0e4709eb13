//! What is true of a job and stands in no configuration: code paths, lengths, what others hold.
//!
//! Ranges are those of published figures: CUDA contexts of 0.47 to 1.78 GiB and about 1.5 GB for
//! torch.distributed (stas00/ml-engineering: training/performance), what vLLM holds outside PyTorch, 1.79 GiB
//! on one GPU (vllm-project/vllm#10511). Chances are this bench's own.

use super::super::rng::Rng;
use super::super::setup::{Program, Setup};
use super::super::units::gib;
use super::head::Causal;
use super::layer::Attention;

/// What no configuration tells, in a third of the cases.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Surprise {
    /// Bytes of somebody else on the same GPU.
    Neighbour(u64),
    /// Bytes that each step leaves behind.
    Leak(u64),
    /// Responses grow to this multiple while the job runs.
    Growth(f64),
    /// Scores of attention are tensors.
    Eager,
    /// A fork that keeps a share of the MLP's width beside each layer.
    Kept(f64),
    /// The reference policy stays on the GPU.
    Reference,
    /// A context with many kernels, and a second one of a helper.
    Contexts(u64),
}

#[derive(Debug, Clone)]
pub struct Nature {
    pub surprise: Option<Surprise>,
    pub context: u64,
    /// The first communicator, and each further one.
    pub nccl: (u64, u64),
    /// cuBLAS, as a tensor.
    pub workspace: u64,
    pub attention: Attention,
    pub fused: bool,
    pub upcast: bool,
    pub flash_loss: bool,
    pub compiled_entropy: bool,
    pub causal: Causal,
    /// A script whose loss is one kernel with the output layer.
    pub fused_loss: bool,
    /// Adam one list at a time, with a temporary for all.
    pub foreach: bool,
    /// Gradients stay whole until the last micro batch of a step.
    pub no_sync: bool,
    /// Gradients are views into the buckets of DistributedDataParallel.
    pub bucket_views: bool,
    pub gathers_to_save: bool,
    pub engine_context: u64,
    /// The engine outside PyTorch, beside its context.
    pub engine_outside: u64,
    pub graphs: u64,
    /// What sleeping does not free.
    pub residue: u64,
    /// The profile run against the sum of its tensors.
    pub profile: f64,
    /// The sampler is part of the profile run.
    pub sampler_profiled: bool,
    /// The engine's weights sleep in pinned host memory.
    pub sleeps_on_host: bool,
    /// Bytes of host memory of a process, and of a worker of the data loader.
    pub process: u64,
    pub worker: u64,
    /// Share of a token budget that is filled.
    pub fill: f64,
    /// Prompts as a share of their limit, responses in tokens.
    pub lengths: Vec<(f64, f64)>,
    pub steps: u64,
    pub log: LogStyle,
    pub speed: Speed,
}

/// How much of a failure the log tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogStyle {
    Whole,
    /// The message without its frames.
    Bare,
    /// The frames, and a message without figures.
    Mute,
    /// As PyTorch wrote it before 2.1.
    Old,
}

/// What the pace depends on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speed {
    /// Share of the peak that matrix products reach.
    pub busy: f64,
    /// Bytes per second to other GPUs, and to the host.
    pub network: f64,
    pub host: f64,
}

const SEQUENCES: usize = 1536;

impl Nature {
    pub fn draw(rng: &mut Rng, setup: &Setup, card_gib: f64, surprised: bool) -> Self {
        let old = card_gib < 20.0;
        let mut nature = Self {
            surprise: None,
            context: gib(if rng.chance(0.9) {
                rng.between(0.47, 0.95)
            } else {
                rng.between(0.95, 1.78)
            }),
            nccl: (gib(rng.between(0.6, 1.9)), gib(rng.between(0.1, 0.5))),
            workspace: if card_gib > 70.0 { 32 << 20 } else { 8_519_680 },
            attention: if old || rng.chance(0.2) {
                Attention::Sdpa
            } else {
                Attention::Flash
            },
            fused: rng.chance(0.2),
            upcast: rng.chance(0.15),
            flash_loss: rng.chance(0.75),
            compiled_entropy: rng.chance(0.9),
            causal: Causal {
                kept: rng.chance(0.4),
                shifted: rng.chance(0.4),
                chunked: rng.chance(0.1),
            },
            fused_loss: rng.chance(0.12),
            foreach: rng.chance(0.85),
            no_sync: rng.chance(0.2),
            bucket_views: rng.chance(0.4),
            gathers_to_save: rng.chance(0.2),
            engine_context: gib(rng.between(0.47, 0.8)),
            engine_outside: gib(if setup.tensor_parallel > 1 {
                rng.between(0.8, 3.0)
            } else {
                rng.between(0.04, 1.79)
            }),
            graphs: gib(rng.between(0.3, 2.4)),
            residue: gib(rng.between(0.1, 1.6)),
            profile: rng.between(0.95, 1.25),
            sampler_profiled: rng.chance(0.85),
            sleeps_on_host: rng.chance(0.4),
            process: gib(rng.between(3.0, 9.0)),
            worker: gib(rng.between(0.3, 1.5)),
            fill: rng.between(0.82, 1.0),
            lengths: lengths(rng, setup),
            steps: 60,
            log: rng.pick(&STYLES),
            speed: Speed {
                busy: rng.between(0.28, 0.52),
                network: 1e9 * rng.pick(&[10.0, 22.0, 50.0, 180.0, 300.0]),
                host: 1e9 * rng.between(8.0, 45.0),
            },
        };
        if surprised {
            nature.surprise = Some(surprise(rng, &nature, setup));
        }
        nature
    }

    /// Bytes that leaked when the job ends, or has only begun.
    pub fn leaked(&self, late: bool) -> u64 {
        match self.surprise {
            Some(Surprise::Leak(bytes)) if late => bytes * self.steps,
            _ => 0,
        }
    }

    pub fn growth(&self, late: bool) -> f64 {
        match self.surprise {
            Some(Surprise::Growth(most)) if late => most,
            _ => 1.0,
        }
    }

    /// What others and contexts hold, whatever the job does.
    pub fn foreign(&self) -> u64 {
        match self.surprise {
            Some(Surprise::Neighbour(bytes) | Surprise::Contexts(bytes)) => bytes,
            _ => 0,
        }
    }
}

#[rustfmt::skip]
const STYLES: [LogStyle; 10] = [
    LogStyle::Whole, LogStyle::Whole, LogStyle::Whole, LogStyle::Whole, LogStyle::Whole, LogStyle::Whole,
    LogStyle::Old, LogStyle::Bare, LogStyle::Bare, LogStyle::Mute,
];

fn surprise(rng: &mut Rng, nature: &Nature, setup: &Setup) -> Surprise {
    let padded = setup.program == Program::Grpo && !setup.remove_padding;
    match rng.pick(&[0, 1, 2, 3, 4, 5, 6]) {
        0 => Surprise::Neighbour(gib(rng.between(0.4, 5.0))),
        1 => Surprise::Leak(gib(rng.between(0.6, 5.0) / nature.steps as f64)),
        2 if setup.program == Program::Grpo => Surprise::Growth(rng.between(1.3, 2.5)),
        3 if setup.program != Program::Grpo || padded => Surprise::Eager,
        4 => Surprise::Kept(rng.between(0.3, 2.0)),
        5 if setup.reference => Surprise::Reference,
        _ => Surprise::Contexts(gib(rng.between(0.5, 2.5))),
    }
}

/// Prompts that crowd below their limit; responses of two kinds, short ones and those that go on.
fn lengths(rng: &mut Rng, setup: &Setup) -> Vec<(f64, f64)> {
    let limit = setup.response as f64;
    let (short, long) = (rng.between(0.05, 0.5), rng.between(0.4, 1.3));
    let often = rng.between(0.1, 0.9);
    let longest_prompt = rng.between(0.35, 1.0);
    (0..SEQUENCES)
        .map(|_| {
            let prompt = longest_prompt * rng.unit().sqrt();
            let middle = if rng.chance(often) { short } else { long };
            let response = limit * middle * (0.35 * rng.normal()).exp();
            (prompt, response.max(4.0))
        })
        .collect()
}
