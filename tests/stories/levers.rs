//! Levers of frameworks: how many there are, in which phases of a failure they act, and the words that a script gets.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use oomctl::core::adopt::assemble;
use oomctl::core::config::{parse_knob_set, parse_preset};
use oomctl::core::ladder::check_phases;
use oomctl::core::recipe::{Knob, Move, Preset, PresetFile, RungSpec, strongest_effect};
use oomctl_base::{Effect, Role};

use super::adopt::files_in;
use super::place::Place;

/// Presets of which not every knob says yet in which phases it acts.
const SILENT: [&str; 3] = ["verl-grpo", "verl-megatron", "verl-ppo"];

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

/// The presets, with their sets in them.
fn presets() -> Vec<PresetFile> {
    let parsed = |path: &PathBuf| {
        let file = parse_preset(&path.display().to_string(), &text(path)).unwrap();
        let sets = file.uses.iter().map(|set| {
            let path = format!("presets/sets/{set}.yaml");
            parse_knob_set(&path, &text(Path::new(&path))).unwrap()
        });
        let sets = sets.collect();
        file.with(sets)
    };
    files_in("presets").iter().map(parsed).collect()
}

fn answers_gpu_memory(rung: &RungSpec) -> bool {
    rung.answers
        .iter()
        .any(|class| class == "gpu_oom" || class == "engine_memory")
}

fn moved<'k>(step: &Move, knobs: &'k [Knob]) -> Vec<&'k Knob> {
    let named = |knob: &Knob| step.knob.as_ref() == Some(&knob.name);
    let of_role = |knob: &Knob| step.role.is_some() && knob.role == step.role;
    let found = knobs.iter().filter(|k| named(k) || of_role(k));
    found.collect()
}

fn effect(rung: &RungSpec, knobs: &[Knob]) -> Effect {
    let moved = rung.moves.iter().flat_map(|step| moved(step, knobs));
    rung.effect.unwrap_or_else(|| strongest_effect(moved))
}

#[test]
fn each_framework_has_at_least_eight_rungs_of_the_same_mathematics() {
    let mut counted = BTreeMap::new();
    for preset in presets() {
        let of_the_allocator = |rung: &RungSpec| {
            let when = rung.when.as_deref().unwrap_or_default();
            when.contains("incident.fragmentation")
        };
        let levers = preset.ladder.iter().filter(|rung| {
            let wanted = rung.answers.iter().any(|class| class == "gpu_oom");
            wanted && !of_the_allocator(rung) && effect(rung, &preset.knobs) == Effect::SameMath
        });
        counted.insert(preset.preset.clone(), levers.count());
    }
    for name in
        "trl openrlhf slime nemo-rl axolotl llama-factory verl-ppo verl-megatron skyrl megatron-lm
         prime-rl open-instruct"
            .split_whitespace()
    {
        assert!(counted[name] >= 8, "{name}: {}", counted[name]);
    }
}

/// What makes room for others may free nothing; what is a reason to take a rung does.
#[test]
fn knobs_that_a_rung_moves_for_gpu_memory_say_in_which_phases_they_act() {
    for preset in presets() {
        let mut faults = Vec::new();
        for rung in preset.ladder.iter().filter(|r| answers_gpu_memory(r)) {
            for step in &rung.moves {
                let moved = moved(step, &preset.knobs);
                assert!(!moved.is_empty(), "{}: {step:?}", rung.rung);
                let says = |knob: &&&Knob| match &knob.acts_on {
                    None => false,
                    Some(phases) => step.along || !phases.is_empty(),
                };
                let silent = moved.iter().filter(|k| !says(k));
                faults.extend(silent.map(|k| format!("{}: {}", rung.rung, k.name)));
            }
        }
        let name = preset.preset.as_str();
        assert!(
            faults.is_empty() || SILENT.contains(&name),
            "{name}: {faults:?}"
        );
    }
}

#[test]
fn what_a_rung_offloads_to_the_host_another_takes_back_when_host_memory_runs_out() {
    let mut missing = Vec::new();
    for preset in presets() {
        let moves = |of_host: bool| {
            let rungs = preset.ladder.iter();
            let rungs = rungs.filter(|r| r.answers.iter().any(|c| c == "host_oom") == of_host);
            let moved = rungs.flat_map(|r| r.moves.iter().flat_map(|m| moved(m, &preset.knobs)));
            let names = moved.map(|knob| (knob.name.clone(), knob.role));
            names.collect::<BTreeMap<_, _>>()
        };
        let taken_back = moves(true);
        let offloads = moves(false)
            .into_iter()
            .filter(|(_, role)| matches!(role, Some(Role::ParamOffload | Role::OptimizerOffload)));
        let never = offloads.filter(|(name, _)| !taken_back.contains_key(name));
        missing.extend(never.map(|(name, _)| format!("{}: {name}", preset.preset)));
    }
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_phases_of_knobs_are_those_of_incidents() {
    for preset in presets() {
        let name = preset.preset.clone();
        let preset = match preset.files.is_empty() {
            true => assemble(preset, Vec::new(), None),
            false => Preset::assemble(preset, Vec::new(), None),
        };
        let preset = preset.unwrap();
        assert!(
            check_phases(&preset).is_empty(),
            "{name}: {:?}",
            check_phases(&preset)
        );
    }
}

/// The page of the stacks names rungs by preset.
#[test]
fn the_levers_that_are_documented_are_rungs_of_the_same_mathematics() {
    let page = text(Path::new("docs/stacks.md"));
    let (_, table) = page.split_once("\n## Levers").unwrap();
    let mut seen = 0;
    for preset in presets() {
        let start = format!("| `{}` |", preset.preset);
        let Some(row) = table.lines().find(|l| l.starts_with(&start)) else {
            continue;
        };
        let names = row[start.len()..].split(['|', ',']).map(str::trim);
        for name in names.filter(|n| !n.is_empty() && *n != "-") {
            let rung = preset.ladder.iter().find(|r| r.rung == name);
            let rung = rung.unwrap_or_else(|| panic!("{} has no {name}", preset.preset));
            assert_eq!(effect(rung, &preset.knobs), Effect::SameMath, "{name}");
            seen += 1;
        }
    }
    assert!(seen > 80, "{seen}");
}

/// The commands of a plan's attempts: what each starts with `word` and adds to the lines before it.
fn commands(place: &Place, script: &str, word: &str) -> Vec<String> {
    let plan = place.run(&["plan", "--all", script]).ends(0);
    let added = plan.out.lines().filter_map(|l| l.strip_prefix('+'));
    let commands = added.filter(|l| l.starts_with(word));
    commands.map(str::to_owned).collect()
}

#[test]
fn trl_shards_weights_and_keeps_activations_in_host_memory() {
    let place = Place::bare();
    let command = "accelerate launch --num_processes 4 --zero_stage 2 sft.py --max_length 4096 --per_device_train_batch_size 1 --gradient_checkpointing True";
    place.write(
        "sft.sh",
        &format!("#!/bin/bash\n#SBATCH --gres=gpu:4\n{command}\n"),
    );
    let told = commands(&place, "sft.sh", "accelerate");
    assert_eq!(told[0], command.replace("--zero_stage 2", "--zero_stage 3"));
    let offloaded = format!("{} --activation_offloading True", told[0]);
    assert_eq!(told[1], offloaded, "{told:?}");
    // What shows a GRPO trainer, which has no such option, gets none.
    let grpo = command.replace(
        "--max_length 4096",
        "--max_completion_length 512 --num_generations 4",
    );
    place.write(
        "grpo.sh",
        &format!("#!/bin/bash\n#SBATCH --gres=gpu:4\n{grpo}\n"),
    );
    let told = commands(&place, "grpo.sh", "accelerate");
    assert_eq!(told[0], grpo.replace("--zero_stage 2", "--zero_stage 3"));
    assert!(
        told.iter().all(|l| !l.contains("activation_offloading")),
        "{told:?}"
    );
}

#[test]
fn an_example_of_diffusers_recomputes_before_its_states_are_rounded() {
    let place = Place::bare();
    let command =
        "accelerate launch train_dreambooth_lora.py --instance_prompt dog --train_batch_size 2";
    place.write(
        "dog.sh",
        &format!("#!/bin/bash\n#SBATCH --gres=gpu:1\n{command}\n"),
    );
    let told = commands(&place, "dog.sh", "accelerate");
    let halved = command.replace("size 2", "size 1") + " --gradient_accumulation_steps 2";
    let recomputed = format!("{halved} --gradient_checkpointing");
    let rounded = format!("{recomputed} --use_8bit_adam");
    assert_eq!(told, [halved, recomputed, rounded]);
}

#[test]
fn slime_recomputes_with_the_words_that_megatron_wants_together() {
    let place = Place::bare();
    let command = "python3 train.py --actor-num-gpus-per-node 8 --hf-checkpoint /m --rollout-batch-size 32 --n-samples-per-prompt 8 \
        --global-batch-size 256 --micro-batch-size 1 --log-probs-chunk-size 512 --recompute-loss-function";
    place.write("run.sh", &format!("#!/bin/bash\n{command}\n"));
    let told = commands(&place, "run.sh", "python3");
    let recompute =
        "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1";
    assert_eq!(told[0], format!("{command} {recompute}"));
    let selective = format!("{command} --recompute-granularity selective");
    place.write("run.sh", &format!("#!/bin/bash\n{selective}\n"));
    let told = commands(&place, "run.sh", "python3");
    let full = selective.replace("selective", "full");
    let others = "--recompute-method uniform --recompute-num-layers 1";
    assert_eq!(told[0], format!("{full} {others}"));
}

const NEMO: &str = "grpo: { num_prompts_per_step: 32, num_generations_per_prompt: 16 }
policy:
  model_name: m
  train_global_batch_size: 512
  train_micro_batch_size: 2
  max_total_sequence_length: 512
  logprob_chunk_size: 1024
  dtensor_cfg:
    enabled: false
  megatron_cfg:
    enabled: true
    activation_checkpointing: true
    defer_fp32_logits: true
    optimizer:
      optimizer_cpu_offload: false
      optimizer_offload_fraction: 0.0
  sequence_packing:
    enabled: true
    train_mb_tokens: ${mul:${policy.max_total_sequence_length}, ${policy.train_micro_batch_size}}
cluster:
  gpus_per_node: 8
";

#[test]
fn nemo_rl_offloads_all_states_or_none_and_halves_what_its_budgets_are_computed_from() {
    let place = Place::bare();
    place.write("grpo.yaml", NEMO);
    place.write(
        "run.sh",
        "#!/bin/bash\nuv run examples/run_grpo.py --config grpo.yaml\n",
    );
    let plan = place.run(&["plan", "--all", "run.sh"]).ends(0);
    plan.says(&[
        "train_micro_batch_size                               2 -> 1",
        "-  train_micro_batch_size: 2\n+  train_micro_batch_size: 1\n",
        // NeMo-RL refuses a share of the states.
        "-      optimizer_cpu_offload: false\n-      optimizer_offload_fraction: 0.0\n+      optimizer_cpu_offload: true\n+      optimizer_offload_fraction: 1",
    ]);
}

/// A failure in this frame, as a program prints it.
fn failure(frame: &str) -> String {
    format!(
        "Traceback (most recent call last):\n  File \"/opt/venv/{frame}\n    out = model(batch)\n\
         torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB \
         is free. Including non-PyTorch memory, this process has 78.00 GiB memory in use. Of the allocated memory 76.00 GiB is allocated \
         by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.\n"
    )
}

#[test]
fn an_evaluation_that_does_not_fit_gets_a_smaller_batch_and_the_training_keeps_its_own() {
    let place = Place::bare();
    let command = "torchrun --nproc_per_node 2 run_clm.py --per_device_train_batch_size 8 --per_device_eval_batch_size 16";
    place.write("clm.sh", &format!("#!/bin/bash\n{command}\n"));
    let frame = "transformers/trainer.py\", line 4531, in evaluation_loop";
    place.write("eval.log", &failure(frame));
    let plan = place
        .run(&["plan", "--after", "eval.log", "clm.sh"])
        .ends(0);
    plan.says(&["smaller-eval-batch", "per_device_eval_batch_size  16 -> 8"]);
    assert!(
        !plan.out.contains("per_device_train_batch_size"),
        "{}",
        plan.out
    );
}

#[test]
fn log_probabilities_of_slime_that_do_not_fit_get_a_budget_of_their_own() {
    let place = Place::bare();
    let command = "python3 train.py --actor-num-gpus-per-node 8 --hf-checkpoint /m --rollout-batch-size 32 --n-samples-per-prompt 8 \
        --global-batch-size 256 --use-dynamic-batch-size --max-tokens-per-gpu 8192";
    place.write("run.sh", &format!("#!/bin/bash\n{command}\n"));
    let frame = "slime/backends/megatron_utils/actor.py\", line 310, in compute_log_prob";
    place.write("job.log", &failure(frame));
    let plan = place.run(&["plan", "--after", "job.log", "run.sh"]).ends(0);
    plan.says(&[
        "halve-logprob-budget",
        "--log-probs-max-tokens-per-gpu  unset -> 4096",
    ]);
    assert!(!plan.out.contains(" max_tokens_per_gpu"), "{}", plan.out);
}

/// Up to the attempt that fits the plan takes what the memory model needs; behind it, where the model would be wrong, no
/// rung is left out: what it frees is said.
#[test]
fn a_plan_says_which_rungs_free_nothing_where_memory_is_fullest() {
    let place = Place::with(
        "preset: verl-grpo\ncluster: example-h100\nknobs: { train_batch_size: 256, ppo_mini_batch_size: 256, train_files: a, val_files: b, \
         model.path: Qwen/Qwen2.5-7B-Instruct, rollout.n: 8, max_response_length: 4096, use_remove_padding: false, \
         enable_gradient_checkpointing: false }\n",
    );
    let folded =
        "frees less than 1 GiB where memory is fullest (--all): smaller-rollout-share-again";
    place.says("plan", 0, &[folded]);
    let plan = place.run(&["plan", "--all"]).ends(0);
    plan.says(&[
        "Not used:",
        "gpu_memory_utilization                     0.3 -> 0.2",
        "by the memory model it does not help the fullest phase; used only after a failure in rollout",
    ]);
    let view = place.json("plan --json");
    let rungs = view["rungs"].as_array().unwrap();
    let frees = |name: &str| {
        let rung = rungs.iter().find(|r| r["rung"] == name);
        rung.unwrap_or_else(|| panic!("no {name}"))["frees"].clone()
    };
    assert_eq!(frees("halve-batches")["fullest"], true);
    assert_eq!(frees("smaller-rollout-share-again")["fullest"], false);
    let rollout = serde_json::json!(["rollout"]);
    assert_eq!(frees("smaller-rollout-share-again")["phases"], rollout);
    assert_eq!(frees("no-padding")["fullest"], true);
}
