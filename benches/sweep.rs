//! Judging every cell of a sweep, beside resolving each configuration by itself.
//!
//! `cargo bench --bench sweep`. Nothing is asserted about time; that both ways agree is.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a bench reads the clock, prints, and ends at the first surprise"
)]

use std::hint::black_box;
use std::time::Instant;

use oomctl::core::config::{parse_knob_set, parse_preset};
use oomctl::core::recipe::{ClusterFacts, Layer, LayerKind, Preset, Setting, Shape, resolve};
use oomctl::core::sweep::{Cells, Judge, Sweep, parse};
use oomctl_base::{Origin, Value};

/// Configurations that are resolved one by one, for the ratio.
const RESOLVED: usize = 1_000;

fn preset() -> Preset {
    let file = include_str!("../examples/path-star/presets/path-star.yaml");
    let set = include_str!("../presets/sets/slurm.yaml");
    let file = parse_preset("path-star.yaml", file).expect("the example's preset");
    let set = parse_knob_set("slurm.yaml", set).expect("the knob set");
    Preset::assemble(file, vec![set], None).expect("a preset without faults")
}

/// A hundred thousand cells, every parameter of which matters.
fn sweep() -> Sweep {
    let values = |start: u32, step: u32, count: u32| {
        let all: Vec<String> = (0..count).map(|i| (start + i * step).to_string()).collect();
        all.join(", ")
    };
    let text = format!(
        "method: grid\nparameters:\n  graph_d: {{values: [{}]}}\n  graph_vocab_size: {{values: [{}]}}\n  embedding_dim: {{values: [{}]}}\n",
        values(250, 100, 100),
        values(5_000, 10_000, 100),
        values(16, 16, 10)
    );
    parse("bench.yaml", &text).expect("a sweep")
}

fn setting(value: Value) -> Setting {
    Setting {
        value,
        origin: Origin::Flag {
            text: "bench".to_owned(),
        },
    }
}

fn main() {
    let (preset, sweep, cluster) = (preset(), sweep(), ClusterFacts::default());
    let mut project = Layer::new(LayerKind::Project);
    let gpu = Value::Text("15.48GiB".to_owned());
    project
        .settings
        .insert("gpu_memory".to_owned(), setting(gpu));
    let below = std::slice::from_ref(&project);
    let recipe = resolve(&preset, below, &cluster).expect("a recipe");

    let start = Instant::now();
    let mut judge = Judge::new(&preset, &recipe, &cluster, None, &sweep).expect("a judge");
    let cells = Cells::new(&sweep, &judge);
    let legal: Vec<bool> = cells
        .cells
        .iter()
        .map(|c| judge.brief(c).rule.is_none())
        .collect();
    let judged = start.elapsed();

    let every = cells.cells.len() / RESOLVED;
    let start = Instant::now();
    for at in (0..cells.cells.len()).step_by(every) {
        let mut layer = Layer::new(LayerKind::Sweep);
        for (axis, number) in cells.cells[at].iter().enumerate() {
            let value = judge.value(axis, *number).clone();
            layer
                .settings
                .insert(sweep.axes[axis].name.clone(), setting(value));
        }
        let layers = [project.clone(), layer];
        let shape = black_box(Shape::new(&preset, &layers, &cluster, None));
        assert_eq!(shape.is_ok(), legal[at], "{:?}", cells.cells[at]);
    }
    let resolved = start.elapsed();

    let count = cells.cells.len();
    let each = |time: std::time::Duration, count: usize| {
        time.as_secs_f64() * 1e6 / f64::from(u32::try_from(count).unwrap_or(u32::MAX))
    };
    let (one, other) = (each(judged, count), each(resolved, RESOLVED));
    println!(
        "{count} cells judged in {:.3} s: {one:.2} µs each",
        judged.as_secs_f64()
    );
    println!(
        "{RESOLVED} of them resolved one by one: {other:.1} µs each, {:.0} times as long",
        other / one
    );
}
