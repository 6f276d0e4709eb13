//! Walks up the preset's ladder from many starting points and collects every configuration on the way.

#![allow(dead_code, reason = "each test file uses a part of it")]

use oomctl::core::ladder::{ClimbContext, Decision, Step, climb};
use oomctl::core::recipe::{ClusterFacts, Layer, Preset, Shape};
use oomctl::core::render::words;
use oomctl_diagnose::{Class, Incident};

use super::harness::{facts, preset, set, templates};
use oomctl_base::word_list;

/// A starting point: a name and assignments. `diamonds` is the dataset profile of the tree.
pub const STARTS: [(&str, &[&str]); 8] = [
    ("diamonds", &[]),
    (
        "small-odd",
        &word_list::<6>(
            "train_batch_size=96 ppo_mini_batch_size=32 ppo_micro_batch_size_per_gpu=4 rollout.n=8
             rollout.log_prob_micro_batch_size_per_gpu=12 ref.log_prob_micro_batch_size_per_gpu=6",
        ),
    ),
    (
        "one-gpu",
        &word_list::<7>(
            "train_batch_size=64 ppo_mini_batch_size=16 ppo_micro_batch_size_per_gpu=16
             rollout.n=3 n_gpus_per_node=1 use_kl_loss=false
             rollout.log_prob_micro_batch_size_per_gpu=24",
        ),
    ),
    (
        "dynamic-long",
        &word_list::<10>(
            "train_batch_size=128 ppo_mini_batch_size=64 use_dynamic_bsz=true
             ulysses_sequence_parallel_size=2 max_prompt_length=2048 max_response_length=8192
             ppo_max_token_len_per_gpu=24000 tensor_model_parallel_size=2 rollout.n=8
             n_gpus_per_node=4",
        ),
    ),
    (
        "two-nodes",
        &word_list::<8>(
            "train_batch_size=512 ppo_mini_batch_size=128 ppo_micro_batch_size_per_gpu=16
             rollout.n=16 nnodes=2 tensor_model_parallel_size=4
             rollout.log_prob_micro_batch_size_per_gpu=64 ref.log_prob_micro_batch_size_per_gpu=32",
        ),
    ),
    (
        "on-policy-fsdp2",
        &word_list::<7>(
            "train_batch_size=128 ppo_mini_batch_size=128 ppo_micro_batch_size_per_gpu=2
             rollout.n=5 strategy=fsdp2 rollout.log_prob_micro_batch_size_per_gpu=16
             ref.log_prob_micro_batch_size_per_gpu=16",
        ),
    ),
    (
        "seven-answers",
        &word_list::<7>(
            "train_batch_size=56 ppo_mini_batch_size=8 ppo_micro_batch_size_per_gpu=7 rollout.n=7
             n_gpus_per_node=4 rollout.log_prob_micro_batch_size_per_gpu=14
             ref.log_prob_micro_batch_size_per_gpu=49",
        ),
    ),
    (
        "three-mini-batches",
        &word_list::<10>(
            "train_batch_size=72 ppo_mini_batch_size=24 ppo_micro_batch_size_per_gpu=3 rollout.n=4
             n_gpus_per_node=8 offload_policy=true strategy=fsdp2
             rollout.log_prob_micro_batch_size_per_gpu=9 ref.log_prob_micro_batch_size_per_gpu=9
             gpu_memory_utilization=0.85",
        ),
    ),
];

/// What every starting point needs besides.
const COMMON: [&str; 10] = word_list(
    "train_files=train.parquet val_files=val.parquet model.path=Qwen/Qwen2.5-7B-Instruct
     model.heads=28 model.kv_heads=4 model.hidden=3584 model.vocab=152064
     model.max_position_embeddings=32768 gpu_memory=79.18GiB mem=400G",
);

/// More rungs than any ladder climbs.
const MOST_RUNGS: u32 = 60;

pub fn start(preset: &Preset, name: &str, assignments: &[&str]) -> Vec<Layer> {
    let mut layers = vec![set(preset, &COMMON)];
    if name == "diamonds" {
        layers.push(super::harness::profile(
            preset,
            "presets/datasets/diamonds-seed0.yaml",
            oomctl::core::recipe::LayerKind::Dataset,
        ));
    }
    layers.push(set(preset, assignments));
    layers
}

pub fn cluster() -> ClusterFacts {
    facts("presets/clusters/example-h100.yaml")
}

/// An incident of a kind, class and phase, and nothing else known.
pub fn incident(kind: &str, class: Class, phase: &str) -> Incident {
    Incident {
        phase: phase.to_owned(),
        ..Incident::bare(kind, class)
    }
}

/// One configuration on the way up.
pub struct Stand {
    /// The rung that led to it; none for the starting point.
    pub step: Option<Step>,
    pub overrides: Vec<String>,
    pub shape: Shape,
}

/// All configurations from the starting point to the end of the ladder.
pub fn walk(preset: &Preset, layers: &[Layer], incident: Option<&Incident>) -> Vec<Stand> {
    let (cluster, templates) = (cluster(), templates());
    let mut rungs: Vec<Layer> = Vec::new();
    let mut stands = vec![stand(preset, layers, &rungs, &cluster, None)];
    for attempt in 1..MOST_RUNGS {
        let footing = ClimbContext {
            cluster_name: Some("example-h100"),
            attempt,
            ..ClimbContext::new(preset, &cluster, &templates, layers, &rungs)
        };
        match climb(&footing, incident).unwrap_or_else(|e| panic!("{e}")) {
            Decision::Exhausted { .. } => return stands,
            Decision::Climb { mut steps, .. } => {
                let step = steps.remove(0);
                rungs.push(step.layer.clone());
                stands.push(stand(preset, layers, &rungs, &cluster, Some(step)));
            }
        }
    }
    panic!("the ladder did not end within {MOST_RUNGS} rungs");
}

fn stand(
    preset: &Preset,
    layers: &[Layer],
    rungs: &[Layer],
    cluster: &ClusterFacts,
    step: Option<Step>,
) -> Stand {
    let all: Vec<Layer> = layers.iter().chain(rungs).cloned().collect();
    let shape = Shape::new(preset, &all, cluster, None).unwrap_or_else(|e| panic!("{e}"));
    let overrides = words(preset, &shape).unwrap().overrides;
    Stand {
        step,
        overrides,
        shape,
    }
}

/// The preset for a version.
pub fn verl(version: &str) -> Preset {
    preset("verl-grpo", Some(version))
}
