//! The second truth: its allocator, its walk, its numbers beside published ones, what it may not know.

use oomctl::core::recipe::ClusterFacts;

use super::cases::{Case, Stacks};
use super::family::Family;
use super::models::{MODELS, Model};
use super::outcome::Truth;
use super::rng::Rng;
use super::score;
use super::second::Second;
use super::second::allocator::Blocks;
use super::second::engine::Engine;
use super::second::head::{Causal, Head, Loss, Policy};
use super::second::layer::{Attention, Layer, Saved};
use super::second::memory::{Memory, Piece, Stream, Sum};
use super::second::nature::{LogStyle, Nature};
use super::second::plan::{Batch, Pass, Plan};
use super::second::train::{Standing, Trainer};
use super::setup::{Program, Setup};
use super::units::GIB;

const MIB: u64 = 1 << 20;

#[test]
fn the_second_truth_imports_nothing_of_the_first_nor_of_the_memory_model() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/fit/second");
    let allowed = ["models", "outcome", "rng", "setup", "units"];
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let own = if path.ends_with("mod.rs") {
            "super::"
        } else {
            "super::super::"
        };
        for line in text.lines().map(str::trim) {
            let shown = path.display();
            assert!(!line.contains("first::"), "{shown}: {line}");
            if let Some(rest) = line.strip_prefix("use oomctl::") {
                assert!(rest.starts_with("core::diagnose::"), "{shown}: {line}");
            }
            if let Some(rest) = line.strip_prefix("use ").and_then(|l| l.strip_prefix(own)) {
                let part = rest.split("::").next().unwrap();
                assert!(allowed.contains(&part), "{shown}: {line}");
            }
        }
        seen += 1;
    }
    assert!(seen > 10, "{seen} files");
}

/// Requests and returns drawn at random; what must hold after each.
fn storm(seed: u64, expandable: bool) {
    let mut rng = Rng::of(seed, 1);
    let capacity = 600 * MIB;
    let mut memory = Blocks::new(capacity, expandable);
    let mut live: Vec<(Piece, u64)> = Vec::new();
    for _ in 0..600 {
        let stream = rng.pick(&[
            Stream::Compute,
            Stream::Compute,
            Stream::Gather,
            Stream::Reduce,
        ]);
        if rng.chance(0.55) || live.is_empty() {
            let top = rng.pick(&[1e3, 1e6, 8e6, 40e6, 120e6]);
            let bytes = (top * rng.unit()) as u64;
            match memory.take(stream, bytes) {
                Ok(piece) => live.push((piece, bytes)),
                Err(short) => {
                    assert!(short.reserved + bytes > capacity || short.reserved > short.allocated);
                }
            }
        } else {
            let (piece, _) = live.swap_remove((rng.unit() * live.len() as f64) as usize);
            memory.give(piece);
        }
        let (used, reserved) = memory.held();
        assert_eq!(memory.counted(), (used, reserved));
        assert!(reserved <= capacity && used <= reserved);
        let asked: u64 = live.iter().map(|(_, bytes)| bytes).sum();
        assert!(used >= asked);
        let mut places: Vec<u32> = live.iter().map(|(piece, _)| piece.index).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), live.len(), "no block is given out twice");
    }
    live.into_iter().for_each(|(piece, _)| memory.give(piece));
    memory.empty_cache();
    assert_eq!(memory.held(), (0, 0), "all is given back");
}

#[test]
fn whatever_is_asked_for_the_blocks_add_up() {
    for seed in 0..40 {
        storm(seed, seed % 3 == 0);
    }
}

#[test]
fn pieces_are_not_one_block_and_another_stream_is_another_pool() {
    let mut memory = Blocks::new(100 * MIB, false);
    let parts: Vec<Piece> = (0..5)
        .map(|_| memory.take(Stream::Compute, 20 * MIB).unwrap())
        .collect();
    memory.give(parts[1]);
    memory.give(parts[3]);
    // Whole segments go back to the driver, so that 40 MiB are free, but only for one request.
    assert!(memory.take(Stream::Gather, 30 * MIB).is_ok());
    let mut memory = Blocks::new(100 * MIB, false);
    let whole = memory.take(Stream::Compute, 100 * MIB).unwrap();
    memory.give(whole);
    let parts: Vec<Piece> = (0..5)
        .map(|_| memory.take(Stream::Compute, 20 * MIB).unwrap())
        .collect();
    memory.give(parts[1]);
    memory.give(parts[3]);
    let short = memory.take(Stream::Compute, 30 * MIB).unwrap_err();
    assert_eq!((short.allocated, short.reserved), (60 * MIB, 100 * MIB));
    assert!(memory.take(Stream::Reduce, 20 * MIB).is_err());
    assert!(memory.take(Stream::Compute, 20 * MIB).is_ok());
}

fn named(name: &str) -> &'static Model {
    MODELS.iter().find(|m| m.name.ends_with(name)).unwrap()
}

/// A job as its knobs say, and a plain truth to it.
fn job(program: Program, knobs: &dyn Fn(&mut Setup)) -> (Setup, Nature) {
    let stacks = Stacks::shipped();
    let case = Case::make(
        &stacks,
        Family::Second,
        4,
        if program == Program::Grpo { 1 } else { 0 },
    );
    let mut setup = Setup::read(program, case.shape.recipe(), &ClusterFacts::default());
    knobs(&mut setup);
    let mut nature = Nature::draw(&mut Rng::of(7, 7), &setup, 79.15, false);
    nature.log = LogStyle::Whole;
    (setup, nature)
}

/// Fine-tuning with FSDP on four GPUs, each batch padded to 512 tokens.
fn tuned(model: &'static Model, micro: u64, fused: bool) -> f64 {
    let (setup, mut nature) = job(Program::Grpo, &|s| {
        s.program = Program::Sharded;
        (s.gpus_per_node, s.nodes, s.micro) = (4, 1, micro);
        (s.prompt, s.response, s.accumulation) = (0, 512, None);
        (s.fp32, s.checkpointing, s.sequence_parallel, s.fsdp_size) = (true, true, 1, -1);
        (s.offload_policy, s.activation_offload) = (false, false);
    });
    nature.lengths = vec![(0.0, 512.0); 64];
    nature.attention = Attention::Flash;
    (nature.fused, nature.fused_loss) = (fused, fused);
    nature.causal = Causal {
        kept: true,
        shifted: true,
        chunked: false,
    };
    (nature.foreach, nature.surprise) = (true, None);
    let plan = Plan {
        model,
        setup: &setup,
        nature: &nature,
        late: false,
    };
    let mut trainer = Trainer::new(plan, Sum::new(u64::MAX / 4));
    let standing = Standing {
        weights: true,
        states: true,
    };
    trainer.stand(standing).unwrap();
    trainer.micro_batch(plan.batches(Pass::Update)[1]).unwrap();
    trainer.memory.most().allocated as f64 / GIB
}

/// Peaks of linkedin/Liger-Kernel's example for the Trainer (examples/huggingface: FSDP on four A100, Alpaca
/// up to 512 tokens), read off its charts: GiB that PyTorch had allocated.
#[test]
fn published_peaks_of_fine_tuning_come_out_within_an_eighth() {
    let llama = named("Llama-3.1-8B");
    let qwen = named("Qwen2.5-7B-Instruct");
    let rows = [
        (llama, 32, false, 52.7),
        (llama, 48, false, 66.9),
        (llama, 32, true, 37.1),
        (llama, 48, true, 40.0),
        (llama, 64, true, 43.5),
        (qwen, 32, false, 50.0),
        (qwen, 32, true, 38.4),
        (qwen, 48, true, 41.1),
        (qwen, 64, true, 41.7),
    ];
    let told: Vec<(f64, f64)> = rows
        .iter()
        .map(|(model, micro, fused, published)| (tuned(model, *micro, *fused), *published))
        .collect();
    let mut off: Vec<f64> = told
        .iter()
        .map(|(ours, published)| (ours / published - 1.0).abs())
        .collect();
    off.sort_by(f64::total_cmp);
    assert!(off[4] < 0.08 && off[8] < 0.125, "{told:.1?}");
}

/// What one layer keeps, in copies of its hidden states: stas00/ml-engineering, training/performance (28 and 38,
/// by its activation-memory-per-layer.py).
#[test]
fn published_copies_of_a_layer_come_out_within_a_tenth() {
    for (name, published) in [("Llama-3.1-8B", 28.0), ("Qwen3-4B", 38.0)] {
        let model = named(name);
        let (setup, mut nature) = job(Program::Grpo, &|s| s.remove_padding = false);
        (nature.fused, nature.attention) = (false, Attention::Sdpa);
        let plan = Plan {
            model,
            setup: &setup,
            nature: &nature,
            late: false,
        };
        let batch = Batch {
            tokens: 32_384,
            sequences: 1,
        };
        let mut memory = Keeping::default();
        let mut layer = Layer {
            memory: &mut memory,
            extent: plan.extent(batch),
            grad: true,
            saved: Saved::default(),
        };
        layer.forward().unwrap();
        let copies = memory.live as f64 / (2 * batch.tokens * model.hidden) as f64;
        let off = (copies / published - 1.0).abs();
        assert!(off < 0.1, "{name}: {copies:.1} for {published}");
    }
}

/// Counts what is alive.
#[derive(Default)]
struct Keeping {
    live: u64,
}

impl Memory for Keeping {
    fn take(&mut self, _: Stream, bytes: u64) -> super::second::memory::Step<Piece> {
        self.live += bytes;
        Ok(Piece { index: 0, bytes })
    }

    fn give(&mut self, piece: Piece) {
        self.live -= piece.bytes;
    }

    fn most(&self) -> super::second::memory::Usage {
        super::second::memory::Usage::default()
    }
}

/// vllm-project/vllm#10511: Meta-Llama-3-8B on one GPU and on two, 14.96 and 7.48 GiB of weights, 1.26 GiB of
/// activations; #12529: Qwen2.5-1.5B, 1.39 GiB of activations.
#[test]
fn published_weights_and_activations_of_an_engine_come_out_within_a_tenth() {
    let rows = [
        ("Llama-3.1-8B", 1, Some(14.96), 1.26),
        ("Llama-3.1-8B", 2, Some(7.48), 1.26),
        ("Qwen2.5-1.5B-Instruct", 1, None, 1.39),
    ];
    for (name, split, weights, activations) in rows {
        let (setup, mut nature) = job(Program::Grpo, &|s| {
            s.tensor_parallel = split;
            (s.engine_sequences, s.engine_tokens) = (256, 2048);
        });
        (nature.sampler_profiled, nature.profile) = (true, 1.0);
        let plan = Plan {
            model: named(name),
            setup: &setup,
            nature: &nature,
            late: false,
        };
        let engine = Engine { plan, around: 0 };
        let near = |ours: u64, published: f64| {
            let ours = ours as f64 / GIB;
            assert!(
                (ours / published - 1.0).abs() < 0.1,
                "{name}: {ours:.2} for {published}"
            );
        };
        near(engine.profile(), activations);
        if let Some(published) = weights {
            near(engine.weights(), published);
        }
    }
}

#[test]
fn a_larger_micro_batch_never_needs_less() {
    for index in 0..6 {
        let (setup, _) = job(Program::Grpo, &|s| s.dynamic = false);
        let nature = Nature::draw(&mut Rng::of(4, index), &setup, 79.15, index % 2 == 0);
        let truth = Second {
            model: &MODELS[1],
            nature,
            late: false,
        };
        let peaks: Vec<u64> = [1, 2, 3, 5, 8, 13, 16, 40, 64]
            .iter()
            .map(|micro| {
                let mut setup = setup.clone();
                setup.micro = *micro;
                let needs = truth.needs(&setup);
                needs
                    .iter()
                    .find(|n| n.0.word() == "actor_update")
                    .unwrap()
                    .1
            })
            .collect();
        // Segments come in units of 2 MiB, and cached ones stay.
        let slack = peaks[0] / 50;
        let rises = peaks.windows(2).all(|pair| pair[1] + slack >= pair[0]);
        assert!(rises && peaks[8] > peaks[0], "{peaks:?}");
    }
}

/// The most that a head takes, in copies of its logits in 16 bits.
fn copies(loss: Loss) -> f64 {
    let mut memory = Sum::new(u64::MAX / 4);
    let (tokens, hidden, vocab) = (8192, 64, 151_936);
    let mut head = Head {
        memory: &mut memory,
        tokens,
        hidden,
        vocab,
        loss,
        grad: true,
    };
    let kept = head.forward().unwrap();
    head.backward(kept, &mut Vec::new()).unwrap();
    memory.most().allocated as f64 / (2 * tokens * vocab) as f64
}

#[test]
fn a_loss_takes_the_copies_of_the_logits_that_its_code_makes() {
    let policy = |flash, entropy, compiled, chunked| {
        Loss::Policy(Policy {
            upcast: false,
            flash,
            entropy,
            compiled,
            chunked,
        })
    };
    let near = |loss, expected: f64| {
        let got = copies(loss);
        assert!((got - expected).abs() < 0.1, "{loss:?}: {got:.2}");
    };
    near(policy(true, false, true, false), 1.0);
    near(policy(false, false, true, false), 3.0);
    near(policy(true, true, true, false), 3.0);
    near(policy(true, true, false, false), 12.0);
    // Pieces of the entropy, in fp32, all stay for the backward pass.
    assert!(copies(policy(true, true, false, true)) > 8.0);
    assert!(copies(Loss::Fused) < 2.0);
}

#[test]
fn a_seed_gives_the_same_second_case_and_its_log_is_read() {
    let stacks = Stacks::shipped();
    let make = || Case::make(&stacks, Family::Second, 4, 3);
    let (once, again) = (make(), make());
    assert_eq!(once.truth.told(), again.truth.told());
    let (first, second) = (once.truth.run(&once.start), again.truth.run(&again.start));
    let incident = first.incident.unwrap();
    assert_eq!(Some(&incident), second.incident.as_ref());
    assert!(first.died.is_some());
    let row = score::oracle(&once, &stacks);
    assert_eq!(
        row.failed.first().copied(),
        first.died.map(|phase| phase.word())
    );
}
