//! The ladder on a small framework of its own: names, rules and rungs are all made up here.

mod bugs;
mod engine;
mod phantom;
mod predict;
mod search;
mod shipped;

use std::collections::BTreeMap;

use super::{ClimbContext, Decision, Policy, Step, climb};
use crate::core::config::parse_preset;
use crate::core::recipe::{ClusterFacts, Layer, LayerKind, Preset, Setting};
use oomctl_base::{Effect, Origin, Value};
use oomctl_diagnose::{Class, Incident};

const PRESET: &str = "
preset: toy
summary: a made-up framework
framework: { name: toy, version_key: toy_version, default_version: 2.0.0, supported: '>=1.0.0' }
files: [{ name: job.sh, template: job.sh.j2, entry: true }]
knobs:
  - { name: prompts, role: train_batch, type: int, default: 64, effect: changes-training, spelling: { flag: --prompts }, doc: d }
  - { name: minis, role: mini_batch, type: int, default: 48, effect: changes-training, spelling: { flag: --minis }, doc: d }
  - { name: micro, role: micro_batch, type: int, default: 12, spelling: { flag: --micro }, doc: d }
  - { name: budget, role: token_budget, type: int, default: 100, render_when: dynamic, spelling: { flag: --budget }, doc: d }
  - { name: dynamic, role: dynamic_batch, type: bool, default: false, doc: d }
  - { name: share, role: rollout_memory_fraction, type: float, min: 0.1, max: 0.95, default: 0.6, spelling: { flag: --share }, doc: d }
  - { name: offload, role: param_offload, type: bool, default: false, spelling: { switch: --offload }, doc: d }
  - { name: gpus, role: gpus_per_node, type: int, default: 4, effect: resources, spelling: { flag: --gpus }, doc: d }
  - { name: mem, role: host_memory, type: size, default: 64G, effect: resources, spelling: { flag: --mem }, doc: d }
  - { name: unused, type: int, default: 1, doc: d }
derived:
  - { name: per_gpu, expr: minis // gpus }
rules:
  - { name: minis-over-gpus, must: minis % gpus == 0, message: 'x', stage: step, source: toy }
  - { name: micro-divides, must: per_gpu % micro == 0, message: 'x', stage: step, source: toy }
  - { name: enough-prompts, must: prompts >= minis, message: 'x', stage: driver, source: toy }
ladder:
  - rung: halve
    title: halve
    moves: [{ role: train_batch, times: 0.5 }, { role: mini_batch, times: 0.5 }, { role: micro_batch, times: 0.5 }, { role: token_budget, times: 0.5 }]
    laps: 9
    useless:
      - { when: 'incident is not none and incident.phase == \"load\"', because: no batch is there yet (toy 2.0 load.py) }
  - { rung: no-op, title: t, moves: [{ knob: unused, to: 7 }] }
  - { rung: offload, title: t, moves: [{ role: param_offload, to: true }, { role: host_memory, times: 2, ceiling: cluster.node_memory, along: true }] }
  - { rung: cut, title: t, moves: [{ knob: share, plus: -0.2, floor: 0.3 }], laps: 3 }
  - { rung: more-gpus, title: t, reshards: true, moves: [{ role: gpus_per_node, times: 2, ceiling: cluster.gpus_per_node }], adjust: [mini_batch, micro_batch] }
  - { rung: more-mem, title: t, answers: [host_oom], moves: [{ role: host_memory, times: 1.5, ceiling: cluster.node_memory }] }
checkpoint: { written_when: 'true', lost: checkpoints of 4 GPUs do not load on 8 }
";

struct Toy {
    preset: Preset,
    templates: BTreeMap<String, String>,
    cluster: ClusterFacts,
    policy: Policy,
    base: Vec<Layer>,
    rungs: Vec<Layer>,
}

fn toy() -> Toy {
    let file = parse_preset("toy.yaml", PRESET).unwrap();
    let text = "run{% for w in flags %} {{ w }}{% endfor %}\n";
    Toy {
        preset: Preset::assemble(file, Vec::new(), None).unwrap(),
        templates: BTreeMap::from([("job.sh.j2".to_owned(), text.to_owned())]),
        cluster: ClusterFacts {
            gpus_per_node: Some(8),
            node_memory: Some("100G".to_owned()),
            ..ClusterFacts::default()
        },
        policy: Policy::Ladder,
        base: Vec::new(),
        rungs: Vec::new(),
    }
}

impl Toy {
    fn set(mut self, knob: &str, value: Value) -> Self {
        let mut layer = Layer::new(LayerKind::Flags);
        let origin = Origin::Flag {
            text: "--set".to_owned(),
        };
        layer
            .settings
            .insert(knob.to_owned(), Setting { value, origin });
        self.base.push(layer);
        self
    }

    fn pin(mut self, knob: &str) -> Self {
        let mut layer = Layer::new(LayerKind::Project);
        let origin = Origin::Env {
            name: "P".to_owned(),
        };
        layer.pins.insert(knob.to_owned(), origin);
        self.base.push(layer);
        self
    }

    fn context(&self) -> ClimbContext<'_> {
        let (preset, cluster, templates) = (&self.preset, &self.cluster, &self.templates);
        ClimbContext {
            policy: self.policy,
            ..ClimbContext::new(preset, cluster, templates, &self.base, &self.rungs)
        }
    }

    fn ask(&self, incident: Option<&Incident>) -> Decision {
        climb(&self.context(), incident).unwrap()
    }

    fn take(&mut self, incident: Option<&Incident>) -> Step {
        match self.ask(incident) {
            Decision::Climb { mut steps, .. } => {
                let step = steps.remove(0);
                self.rungs.push(step.layer.clone());
                step
            }
            Decision::Exhausted { skipped, .. } => panic!("exhausted: {skipped:?}"),
        }
    }
}

fn incident(class: Class, phase: &str) -> Incident {
    Incident {
        phase: phase.to_owned(),
        ..Incident::bare("cuda_oom", class)
    }
}

fn values(step: &Step) -> Vec<String> {
    let show = |c: &super::Change| format!("{} {}->{}", c.knob, c.from, c.to);
    step.changes.iter().map(show).collect()
}

#[test]
fn halving_takes_the_nearest_legal_values_and_says_so() {
    let mut toy = toy();
    // minis 24 -> 6 a GPU: micro 6 divides it.
    let step = toy.take(None);
    assert_eq!(
        values(&step),
        ["prompts 64->32", "minis 48->24", "micro 12->6"]
    );
    assert_eq!(step.effect, Effect::ChangesTraining);
    assert_eq!(step.notes, Vec::<String>::new());
    // 12 minis, 3 a GPU: micro 3.
    assert_eq!(
        values(&toy.take(None)),
        ["prompts 32->16", "minis 24->12", "micro 6->3"]
    );
    // 6 is not divisible by 4 GPUs: 4 is.
    let step = toy.take(None);
    assert_eq!(
        values(&step),
        ["prompts 16->8", "minis 12->4", "micro 3->1"]
    );
    assert_eq!(
        step.notes,
        ["minis: 6 is not legal (rule minis-over-gpus), 4 is the nearest value that is"]
    );
}

#[test]
fn a_batch_never_reaches_zero_and_the_next_rung_follows() {
    let mut toy = toy();
    let mut steps = Vec::new();
    while let Decision::Climb { steps: taken, .. } = toy.ask(None) {
        let step = &taken[0];
        for change in &step.changes {
            if let Value::Int(n) = change.to {
                assert!(n >= 1, "{change:?}");
            }
        }
        steps.push(step.rung.clone());
        toy.rungs.push(step.layer.clone());
        assert!(steps.len() < 30);
    }
    let tail: Vec<&str> = steps
        .iter()
        .map(String::as_str)
        .skip_while(|s| *s == "halve")
        .collect();
    assert_eq!(tail, ["offload", "cut", "cut"]);
    let Decision::Exhausted { skipped, .. } = toy.ask(None) else {
        panic!()
    };
    let reason = |rung: &str| &skipped.iter().find(|s| s.rung == rung).unwrap().reason;
    assert!(
        reason("halve").contains("at its floor"),
        "{}",
        reason("halve")
    );
    assert_eq!(reason("no-op"), "would not change the rendered files");
    assert_eq!(reason("cut"), "share = 0.3 is at its floor");
    assert_eq!(
        reason("more-gpus"),
        "gpus stays 4: 8 is not legal (rule minis-over-gpus)"
    );
    assert_eq!(reason("more-mem"), "for another kind of failure");
}

#[test]
fn a_host_oom_is_never_answered_with_the_gpu_remedy() {
    let mut toy = toy();
    let host = incident(Class::HostOom, "unknown");
    assert_eq!(values(&toy.take(Some(&host))), ["mem 64G->96G"]);
    let Decision::Exhausted { skipped, .. } = toy.ask(Some(&host)) else {
        panic!()
    };
    assert!(skipped.iter().any(|s| s.rung == "offload"));
}

#[test]
fn a_rung_proven_useless_for_the_phase_is_skipped_with_its_proof() {
    let toy = toy();
    let Decision::Climb { steps, skipped, .. } = toy.ask(Some(&incident(Class::GpuOom, "load")))
    else {
        panic!()
    };
    assert_eq!(steps[0].rung, "offload");
    assert_eq!(skipped[0].reason, "no batch is there yet (toy 2.0 load.py)");
}

#[test]
fn along_moves_follow_and_stop_at_the_ceiling() {
    let mut toy = toy().pin("prompts").pin("minis").pin("micro");
    let step = toy.take(None);
    assert_eq!(step.rung, "offload");
    assert_eq!(values(&step), ["offload false->true", "mem 64G->100G"]);
}

#[test]
fn pinned_knobs_are_moved_by_nobody() {
    let mut toy = toy().pin("minis");
    // 48 minis stay: prompts may not go below them, and 6 divides the 12 that each GPU gets.
    let step = toy.take(None);
    assert_eq!(values(&step), ["prompts 64->48", "micro 12->6"]);
    assert!(step.changes.iter().all(|c| c.knob != "minis"));
    assert!(step.notes.iter().any(|n| n.contains("minis is pinned")));
}

#[test]
fn the_policy_same_math_takes_of_a_rung_what_keeps_training() {
    let mut toy = toy();
    toy.policy = Policy::SameMath;
    let step = toy.take(None);
    assert_eq!(values(&step), ["micro 12->6"]);
    assert_eq!(
        step.notes,
        ["prompts, minis stay: that would change training"]
    );
    assert_eq!(toy.pin("micro").take(None).rung, "offload");
}

#[test]
fn with_dynamic_batches_the_budget_moves() {
    let mut toy = toy().set("dynamic", Value::Bool(true));
    let step = toy.take(None);
    assert!(values(&step).contains(&"budget 100->50".to_owned()));
}

#[test]
fn more_gpus_keeps_the_configuration_legal_and_asks_about_checkpoints() {
    let mut toy = toy()
        .set("prompts", Value::Int(12))
        .set("minis", Value::Int(12))
        .set("micro", Value::Int(3))
        .pin("offload")
        .pin("share");
    let step = toy.take(Some(&incident(Class::GpuOom, "load")));
    // 12 minis cannot be split over 8 GPUs; 8 can, one each.
    assert_eq!(values(&step), ["minis 12->8", "micro 3->1", "gpus 4->8"]);
    assert_eq!(
        step.notes.last().unwrap(),
        "checkpoints of 4 GPUs do not load on 8"
    );
}

#[test]
fn a_batch_that_more_gpus_cannot_share_grows_where_no_smaller_one_is_legal() {
    let mut toy = toy()
        .set("minis", Value::Int(4))
        .set("micro", Value::Int(1))
        .pin("offload")
        .pin("share");
    let step = toy.take(Some(&incident(Class::GpuOom, "load")));
    assert_eq!(values(&step), ["minis 4->8", "gpus 4->8"]);
    assert_eq!(step.effect, Effect::ChangesTraining);
}

mod outlook {
    use super::*;
    use crate::core::ladder::{Past, Posterior, Priors, ascend};
    use oomctl_base::units::Bytes;
    use oomctl_memory::{MeasurementRow, Profile, Spec};

    /// GRPO on 4 GPUs of 80 GB with `micro` sequences a forward pass.
    fn spec(micro: u32) -> Spec {
        let row = serde_json::json!({
            "task": "grpo", "params_b": 7.6, "layers": 28, "hidden": 3584, "heads": 28, "kv_heads": 4, "ffn": 18944,
            "vocab": 152064, "gpus": 4, "sharding": "fsdp", "precision": "fsdp_mp", "gpu_total_gib": 79.18,
            "micro_batch": micro, "seq_len": 2048, "grad_checkpointing": "full", "loss_impl": "other", "fill": 0.8,
            "engine_share": 0.6, "rollout_tp": 2,
        });
        let row: MeasurementRow = serde_json::from_value(row).unwrap();
        row.spec(&Profile::default()).unwrap()
    }

    fn died(phase: &str, requested: f64, free: f64) -> Incident {
        Incident {
            requested_bytes: Some(Bytes::from_gib(requested)),
            free_bytes: Some(Bytes::from_gib(free)),
            total_bytes: Some(Bytes::from_gib(79.18)),
            ..incident(Class::GpuOom, phase)
        }
    }

    fn after(incident: &Incident) -> Posterior {
        let profile = Profile::default();
        let present = spec(32);
        let mut posterior = Posterior::new(&present, &profile);
        posterior.learn(&present, Some(incident), &[], &profile);
        posterior
    }

    #[test]
    fn a_smaller_micro_batch_is_never_less_likely_to_fit() {
        let profile = Profile::default();
        for posterior in [
            Posterior::new(&spec(32), &profile),
            after(&died("actor_update", 18.0, 10.0)),
            after(&died("actor_update", 70.0, 1.0)),
            after(&incident(Class::GpuOom, "unknown")),
        ] {
            let fits = [32, 16, 8, 4, 2].map(|n| posterior.fits(&spec(n), &profile).unwrap());
            assert!(fits.is_sorted(), "{fits:?}");
        }
    }

    #[test]
    fn what_died_is_not_expected_to_fit_and_a_larger_request_asks_for_more() {
        let profile = Profile::default();
        let little = after(&died("actor_update", 2.0, 1.0));
        let much = after(&died("actor_update", 70.0, 1.0));
        assert!(little.fits(&spec(32), &profile).unwrap() < 0.35);
        assert!(much.fits(&spec(32), &profile).unwrap() < 0.05);
        let need = |f: &Posterior| f.expected(&spec(32), &profile).unwrap().1;
        assert!(need(&much) > need(&little));
    }

    #[test]
    fn a_backward_pass_dies_of_what_the_forward_pass_leaves_to_it() {
        let profile = Profile::default();
        // So many GPUs that states and their gradients alone are small.
        let wide = |micro| Spec {
            data_parallel: 64.0,
            ..spec(micro)
        };
        let fits = |phase: &str| {
            let mut posterior = Posterior::new(&wide(32), &profile);
            posterior.learn(&wide(32), Some(&died(phase, 2.0, 1.0)), &[], &profile);
            posterior.fits(&wide(4), &profile).unwrap()
        };
        let (backward, forward) = (fits("backward"), fits("forward"));
        assert!(backward > 0.9, "{backward}, in the forward pass {forward}");
    }

    #[test]
    fn an_engine_that_wants_a_larger_share_says_nothing_of_the_gpu() {
        let profile = Profile::default();
        let refused = incident(Class::EngineMemory, "kv_cache");
        let needs = |f: &Posterior| f.expected(&spec(4), &profile).unwrap().1;
        let before = needs(&Posterior::new(&spec(32), &profile));
        assert!((needs(&after(&refused)) / before - 1.0).abs() < 1e-9);
    }

    #[test]
    fn figures_that_contradict_each_other_are_no_measure() {
        let profile = Profile::default();
        let odd = Incident {
            allocated_bytes: Some(Bytes::from_gib(100.77)),
            ..died("actor_update", 90.0, 0.0)
        };
        let plain = incident(Class::GpuOom, "actor_update");
        let fits = |i: &Incident| after(i).fits(&spec(16), &profile).unwrap();
        assert!((fits(&odd) - fits(&plain)).abs() < 1e-9);
    }

    #[test]
    fn without_a_bridge_to_the_model_one_rung_is_taken() {
        let mut toy = toy();
        let profile = Profile::default();
        let outlook = Priors {
            profile: &profile,
            min_fit_probability: 0.9,
            past: Past::default(),
        };
        let failure = incident(Class::GpuOom, "load");
        let first = toy.take(Some(&failure));
        let fresh = super::toy();
        let context = fresh.context();
        let Decision::Climb { steps, expects, .. } =
            ascend(&context, &outlook, Some(&failure)).unwrap()
        else {
            panic!()
        };
        assert_eq!(steps.len(), 1);
        assert_eq!(steps[0].rung, first.rung);
        assert_eq!(expects, None);
    }
}
