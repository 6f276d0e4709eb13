//! Tuning on a small framework of its own, with memory that is a formula.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::core::config::parse_preset;
use crate::core::ladder::{ClimbContext, Judgement, Policy, Tuned, tune};
use crate::core::recipe::{ClusterFacts, Layer, LayerKind, Preset, Setting, resolve};
use oomctl_base::{Origin, Value};

const PRESET: &str = "
preset: toy
summary: a made-up framework
files: [{ name: job.sh, template: job.sh.j2, entry: true }]
knobs:
  - { name: mini, role: mini_batch, type: int, default: 48, effect: changes-training, spelling: { flag: --mini }, doc: d }
  - { name: micro, role: micro_batch, type: int, default: 4, spelling: { flag: --micro }, doc: d }
  - { name: offload, role: param_offload, type: bool, default: true, spelling: { switch: --offload }, doc: d }
  - { name: recompute, role: gradient_checkpointing, type: bool, default: true, spelling: { switch: --recompute }, doc: d }
rules:
  - { name: micro-divides, must: mini % micro == 0, message: 'x', stage: step, source: toy }
tune:
  - { gain: 0.1, because: b, step: { rung: stay, title: t, when: offload, when_text: nothing is offloaded, moves: [{ knob: offload, to: false }] } }
  - { gain: 0.25, because: b, step: { rung: keep, title: t, moves: [{ knob: recompute, to: false }] } }
  - { gain: 0.08, because: b, step: { rung: thicker, title: t, moves: [{ knob: micro, times: 2 }], laps: 5 } }
  - { gain: 0.5, because: b, step: { rung: wider, title: t, moves: [{ knob: mini, times: 2 }], laps: 5 } }
";

fn preset() -> Preset {
    let file = parse_preset("toy.yaml", PRESET).unwrap();
    Preset::assemble(file, Vec::new(), None).unwrap()
}

/// Memory of a configuration.
fn need(preset: &Preset, layers: &[Layer]) -> f64 {
    let recipe = resolve(preset, layers, &ClusterFacts::default()).unwrap();
    let on = |knob: &str| recipe.value(knob) == &Value::Bool(true);
    let Value::Int(micro) = recipe.value("micro") else {
        panic!()
    };
    let states = if on("offload") { 4.0 } else { 20.0 };
    let each = if on("recompute") { 1.0 } else { 4.0 };
    states + each * f64::from(i32::try_from(*micro).unwrap())
}

/// Tunes for a GPU, with these layers below.
fn tuned(gpu: f64, policy: Policy, layers: &[Layer]) -> Tuned {
    let preset = preset();
    let templates = BTreeMap::from([(
        "job.sh.j2".to_owned(),
        "run{% for w in flags %} {{ w }}{% endfor %}\n".to_owned(),
    )]);
    let cluster = ClusterFacts::default();
    let context = ClimbContext {
        policy,
        attempt: 0,
        ..ClimbContext::new(&preset, &cluster, &templates, layers, &[])
    };
    let judge = |rungs: &[Layer]| {
        let all: Vec<Layer> = layers.iter().chain(rungs).cloned().collect();
        let need = need(&preset, &all);
        Some(Judgement {
            fits_probability: if need <= gpu { 1.0 } else { 0.0 },
            peak_gib: Some(need),
            phase: None,
            ground: "a formula".into(),
        })
    };
    tune(&context, &preset.tune, 0.9, &judge).unwrap()
}

fn names(tuned: &Tuned) -> Vec<&str> {
    tuned.steps.iter().map(|s| s.step.rung.as_str()).collect()
}

fn reason<'a>(tuned: &'a Tuned, rung: &str) -> &'a str {
    let skipped = tuned.skipped.iter().find(|s| s.rung == rung);
    skipped.map_or("", |s| s.reason.as_str())
}

fn pin(knob: &str) -> Layer {
    let mut layer = Layer::new(LayerKind::Project);
    let origin = Origin::Env {
        name: "P".to_owned(),
    };
    layer.pins.insert(knob.to_owned(), origin);
    layer
}

#[test]
fn the_combination_that_saves_most_is_taken_not_the_first_that_fits() {
    // 20 GiB hold either the states and no more of the batch, or all activations of four samples.
    let tuned = tuned(20.0, Policy::SameMath, &[]);
    assert_eq!(names(&tuned), ["keep"]);
    assert!((tuned.time - 0.75).abs() < 1e-9);
    assert_eq!(
        reason(&tuned, "stay"),
        "would fit with a probability of <0.01 (a formula)"
    );
}

#[test]
fn further_laps_save_less_and_stop_where_nothing_legal_is_left() {
    let tuned = tuned(1_000.0, Policy::SameMath, &[pin("recompute")]);
    // 48 divides by 8 and 16, not by 32.
    assert_eq!(names(&tuned), ["stay", "thicker", "thicker"]);
    let gains: Vec<f64> = tuned.steps.iter().map(|s| s.gain).collect();
    assert_eq!(gains, [0.1, 0.08, 0.04]);
    assert!(reason(&tuned, "thicker").contains("rule micro-divides"));
    assert!(reason(&tuned, "keep").contains("pinned"));
}

#[test]
fn what_changes_training_is_left_out_unless_allowed() {
    let same = tuned(1_000.0, Policy::SameMath, &[]);
    assert!(!names(&same).contains(&"wider"));
    assert!(reason(&same, "wider").contains("changes training"));
    let allowed = tuned(1_000.0, Policy::Ladder, &[]);
    assert!(names(&allowed).contains(&"wider"));
}

#[test]
fn where_nothing_is_known_nothing_is_proposed() {
    let preset = preset();
    let templates =
        BTreeMap::from([("job.sh.j2".to_owned(), "{{ micro }}{{ mini }}\n".to_owned())]);
    let cluster = ClusterFacts::default();
    let context = ClimbContext {
        ladder: &[],
        attempt: 0,
        ..ClimbContext::new(&preset, &cluster, &templates, &[], &[])
    };
    let tuned = tune(&context, &preset.tune, 0.9, &|_| None).unwrap();
    assert_eq!((tuned.steps.len(), tuned.time), (0, 1.0));
    assert!(reason(&tuned, "thicker").contains("its memory use is unknown"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the GPU: the result fits, saves time, and no further step would fit or be allowed.
    #[test]
    fn the_result_fits_and_no_step_is_left(gpu in 4.0..300.0_f64, micro in prop::sample::select(vec![1_i64, 2, 3, 6])) {
        let mut layer = Layer::new(LayerKind::Project);
        let origin = Origin::Env { name: "P".to_owned() };
        layer.settings.insert("micro".to_owned(), Setting { value: Value::Int(micro), origin });
        let preset = preset();
        let below = [layer];
        prop_assume!(need(&preset, &below) <= gpu);
        let tuned = tuned(gpu, Policy::SameMath, &below);
        let taken: Vec<Layer> = below.iter().cloned().chain(tuned.steps.iter().map(|s| s.step.layer.clone())).collect();
        prop_assert!(need(&preset, &taken) <= gpu);
        let time: f64 = tuned.steps.iter().map(|s| 1.0 - s.gain).product();
        prop_assert!((time - tuned.time).abs() < 1e-9);
        // Every step that is left has its reason.
        for tuning in &preset.tune {
            let laps = names(&tuned).iter().filter(|n| **n == tuning.step.rung).count();
            prop_assert!(laps == tuning.step.laps as usize || !reason(&tuned, &tuning.step.rung).is_empty());
        }
    }
}
