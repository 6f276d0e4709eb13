//! One estimate of GPU memory: of a specification as text, and of a preset's configuration.
//!
//! `cargo bench --bench estimate`. Nothing is asserted about time; that every job has a peak is.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::expect_used,
    clippy::cast_precision_loss,
    reason = "a bench reads the clock, prints, and ends at the first surprise"
)]

#[path = "fit/clock.rs"]
mod clock;
#[path = "fit/stack.rs"]
#[expect(dead_code, reason = "the ladder and templates are for those who climb")]
mod stack;

use clock::processor_s;
use oomctl::core::config::parse_data;
use oomctl::core::memory::spec_of;
use oomctl::core::recipe::{ClusterFacts, Layer, LayerKind, Setting};
use oomctl::io::library::{Library, LibraryFolder};
use oomctl_base::{Origin, Value};
use oomctl_memory::{Estimate, MeasurementRow, Profile, Profiles, estimate};
use stack::Stack;

/// Estimates whose time is taken together, and how often.
const TOGETHER: usize = 100;
const ROUNDS: usize = 20;

/// The shipped profiles of training stacks.
fn profiles() -> Vec<Profile> {
    let library = Library::new(None);
    let read = |name: &String| {
        let source = library
            .get(LibraryFolder::Memory, name)
            .expect("shipped profiles are there");
        parse_data(&source.path, &source.text).expect("shipped profiles parse")
    };
    library
        .names(LibraryFolder::Memory)
        .iter()
        .map(read)
        .collect()
}

/// A job of 8B on eight GPUs, for a framework: all of its weights, or an adapter beside a rollout engine.
fn job(framework: &str, rollout: bool) -> String {
    let more = match rollout {
        false => r#""task": "sft", "grad_checkpointing": "none""#,
        true => {
            r#""task": "grpo", "lora_r": 16, "engine_share": 0.5, "max_prompt": 1024, "max_response": 1024,
            "grad_checkpointing": "full", "offload": "param+optimizer""#
        }
    };
    format!(
        r#"{{ "id": "job", "framework": "{framework}", "layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8,
            "ffn": 14336, "vocab": 128256, "precision": "fsdp_mp", "sharding": "fsdp", "dp": 8, "gpus": 8,
            "gpu_total_gib": 79.18, "micro_batch": 4, "seq_len": 2048, {more} }}"#
    )
}

/// Prints the median and the slowest round, in microseconds for one.
fn report(what: &str, mut one: impl FnMut() -> Estimate) {
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let start = processor_s();
        for _ in 0..TOGETHER {
            let peak = one().peak_bytes;
            assert!(peak.is_finite() && peak > 0.0, "{what}: {peak}");
        }
        times.push((processor_s() - start) * 1e6 / TOGETHER as f64);
    }
    times.sort_by(f64::total_cmp);
    let (median, slowest) = (times[ROUNDS / 2], times[ROUNDS - 1]);
    println!("{what:32} {median:8.1} {slowest:8.1}");
}

fn main() {
    println!("{:32} {:>8} {:>8}", "one estimate, µs", "median", "slowest");
    let known = Profiles::new(profiles());
    for profile in profiles() {
        let framework = profile.frameworks.first().map_or("", String::as_str);
        for (kind, rollout) in [("weights", false), ("adapter, rollout", true)] {
            let text = job(framework, rollout);
            report(&format!("{}, {kind}", profile.profile), || {
                let (row, profile) = MeasurementRow::read(&text, &known).expect("a specification");
                estimate(&row.spec(profile).expect("a job"), profile)
            });
        }
    }
    let grpo = Stack::shipped("verl-grpo");
    let profile = grpo.profile.as_ref().expect("the preset names a profile");
    let shape = grpo
        .shape(&[project()], &ClusterFacts::default())
        .expect("a legal configuration");
    report("verl-grpo, from its knobs", || {
        let spec = spec_of(&grpo.preset, &shape, profile).expect("the preset has a memory section");
        estimate(&spec.expect("a job"), profile)
    });
}

/// The least that the preset needs, with a model's dimensions.
fn project() -> Layer {
    let mut layer = Layer::new(LayerKind::Project);
    let mut set = |knob: &str, value: Value| {
        let origin = Origin::Flag {
            text: "bench".to_owned(),
        };
        layer
            .settings
            .insert(knob.to_owned(), Setting { value, origin });
    };
    for knob in ["model.path", "train_files", "val_files"] {
        set(knob, Value::Text("bench".to_owned()));
    }
    set("gpu_memory", Value::Text("79.18GiB".to_owned()));
    for (knob, size) in [
        ("n_gpus_per_node", 4),
        ("model.layers", 28),
        ("model.hidden", 3584),
        ("model.intermediate", 18_944),
        ("model.heads", 28),
        ("model.kv_heads", 4),
        ("model.vocab", 152_064),
        ("model.params", 7_615_616_512),
    ] {
        set(knob, Value::Int(size));
    }
    layer
}
