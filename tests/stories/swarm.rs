//! The example `swarm`: a trainer that is told by a YAML file, of which each attempt gets a changed copy.

use super::place::Place;
use oomctl_base::word_list;

const FILE: &str = "rgym_exp/config/rg-swarm.yaml";

/// The lines of the attempt's copy that differ from the user's file, and what they are there.
fn changed(place: &Place, attempt: u32) -> Vec<(String, String)> {
    let copy = place.read(&format!(
        ".oomctl/runs/rl-swarm-1/attempt-{attempt}/rg-swarm.yaml"
    ));
    let file = place.read(FILE);
    assert_eq!(file.lines().count(), copy.lines().count(), "{copy}");
    let both = file.lines().zip(copy.lines());
    let differ = both.filter(|(a, b)| a != b);
    differ.map(|(a, b)| (a.to_owned(), b.to_owned())).collect()
}

fn pair(from: &str, to: &str) -> (String, String) {
    (from.to_owned(), to.to_owned())
}

/// The same line with another value.
fn becomes(line: &str, from: &str, to: &str) -> (String, String) {
    pair(line, &line.replacen(from, to, 1))
}

const ACCUMULATION: &str = "  gradient_accumulation_steps: 4   # forwards per optimizer step";
const MINIBATCH: &str = "      minibatch_size: 16     # answers per forward";
const SAMPLES: &str = "    num_train_samples: 8     # prompts of a round";

#[test]
fn it_dies_of_memory_and_gets_a_copy_of_its_file_with_smaller_batches_until_it_fits() {
    let place = Place::example_named("swarm");
    let before = place.read(FILE);
    let done = place
        .run(&["submit", "--backend", "local", "--watch"])
        .ends(0);
    insta::assert_snapshot!(place.steady(&done.told()));
    assert_eq!(place.read(FILE), before, "the user's file is never written");
    assert_eq!(changed(&place, 1), []);
    assert_eq!(
        changed(&place, 2),
        [
            becomes(ACCUMULATION, "4", "8"),
            becomes(MINIBATCH, "16", "8")
        ]
    );
    assert_eq!(
        changed(&place, 3),
        [
            becomes(ACCUMULATION, "4", "16"),
            becomes(MINIBATCH, "16", "4")
        ]
    );
    let diff = place.read(".oomctl/runs/rl-swarm-1/attempt-2/changes.diff");
    assert!(
        diff.contains(
            "-      minibatch_size: 16     # answers per forward\n+      minibatch_size: 8 "
        ),
        "{diff}"
    );
    let why = place
        .run(&["explain", "minibatch_size", "--run", "rl-swarm-1"])
        .ends(0);
    why.says(&["halve-minibatch", "rgym_exp/config/rg-swarm.yaml:31"]);
}

#[test]
fn a_key_that_the_file_lacks_is_added_in_its_mapping_or_refused() {
    let place = Place::example_named("swarm");
    let copy = |set: &str| {
        place.run(&["render", "--set", set, "--to", "out"]).ends(0);
        place.read("out/rg-swarm.yaml")
    };
    let file = place.read(FILE);
    let added = "      minibatch_size: 16     # answers per forward\n      max_new_tokens: 128\n";
    let line = format!("{MINIBATCH}\n");
    assert_eq!(copy("max_new_tokens=128"), file.replace(&line, added));
    // The released trainer has `dtype`; this file is one of those that have `fp16`.
    let refused = place.run(&["render", "--set", "dtype=bfloat16"]).ends(5);
    refused.says(&[
        "dtype cannot be written to rgym_exp/config/rg-swarm.yaml: it has no key training.dtype",
    ]);
}

#[test]
fn a_file_that_cannot_be_edited_is_refused_with_its_line() {
    let place = Place::example_named("swarm");
    let file = place.read(FILE);
    place.write(
        FILE,
        &file.replace(SAMPLES, &format!("{SAMPLES}\n    num_train_samples: 4")),
    );
    place.run("plan").ends(5).says(&[
        "`num_train_samples` is given twice, here and in line 35",
        "rgym_exp/config/rg-swarm.yaml:36:5",
    ]);
    place.write(
        FILE,
        &file.replace("num_train_samples: 8", "num_train_samples: eight"),
    );
    place.run("plan").ends(5).says(&[
        "num_train_samples: expected a whole number, got `eight`",
        "rgym_exp/config/rg-swarm.yaml:35:24",
    ]);
    let done = place.run(&["plan", "--set", "config=other.yaml"]).ends(5);
    done.says(&["other.yaml", "config names the file"]);
}

#[test]
fn more_forwards_without_smaller_ones_are_refused_for_they_save_nothing() {
    let place = Place::example_named("swarm");
    let done = place
        .run(&["plan", "--set", "gradient_accumulation_steps=8"])
        .ends(5);
    done.says(&[
        "8 forwards of 16 answers are more than a round has (64)",
        "4 forwards of 16, or 8 of 8, would be legal",
    ]);
}

#[test]
fn the_allocators_variable_is_spelled_for_the_version_and_clashes_are_refused() {
    let place = Place::example_named("swarm");
    let environment = |more: &[&str]| {
        let mut words = vec![
            "render",
            "--set",
            "allocator_conf=expandable_segments:True",
            "--to",
            "out",
        ];
        words.extend(more);
        place.run(&words).ends(0);
        place.read("out/environment.sh")
    };
    for (version, name) in [
        (None, "PYTORCH_CUDA_ALLOC_CONF"),
        (Some("torch_version=2.9.1"), "PYTORCH_CUDA_ALLOC_CONF"),
        (Some("torch_version=2.10.0+cu128"), "PYTORCH_ALLOC_CONF"),
        (Some("torch_version=3.0"), "PYTORCH_ALLOC_CONF"),
    ] {
        let more: Vec<&str> = version.into_iter().flat_map(|v| ["--set", v]).collect();
        let text = environment(&more);
        let line = format!("export {name}=expandable_segments:True\n");
        assert!(text.contains(&line), "{version:?}\n{text}");
        assert!(text.contains("export CUDA_LAUNCH_BLOCKING=0\n"), "{text}");
    }
    place
        .run("plan --set allocator_conf=expandable_segments:True --set vllm_sleeps=true")
        .ends(5)
        .says(&[
            "clashes with the sleep mode of vLLM",
            "max_split_size_mb:512",
        ]);
}

#[test]
fn a_smaller_model_is_taken_only_where_that_is_allowed_and_the_gpu_is_small() {
    let place = Place::example_named("swarm");
    let ladder = |more: &[&str]| {
        let mut words = vec![
            "plan",
            "--all",
            "--set",
            "model.path=Qwen/Qwen2.5-1.5B-Instruct",
        ];
        words.extend(more);
        place.run(&words).ends(0).out
    };
    let step = "  Qwen/Qwen2.5-1.5B-Instruct -> Gensyn/Qwen2.5-0.5B-Instruct";
    assert!(!ladder(&[]).contains(step));
    let allowed = ladder(&["--set", "allow=[smaller-model]"]);
    assert!(allowed.contains(step), "{allowed}");
    let large = ladder(&word_list::<4>(
        "--set allow=[smaller-model] --set gpu_memory=79.2GiB",
    ));
    assert!(!large.contains(step), "{large}");
}

#[test]
fn a_model_that_the_program_chooses_is_not_known_and_replaced_only_by_a_name() {
    let place = Place::example_named("swarm");
    let file = place.read(FILE);
    let own = "pretrained_model_name_or_path: Qwen/Qwen2.5-0.5B-Instruct";
    let chosen = "pretrained_model_name_or_path: ${oc.env:MODEL_NAME, ${gpu_model_choice:${large},${small}}} ";
    place.write(FILE, &file.replace(own, chosen));
    place.run(&["estimate"]).ends(5);
    place.run(&["render", "--to", "out"]).ends(0);
    assert_eq!(place.read("out/rg-swarm.yaml"), place.read(FILE));
    place
        .run("render --set model.path=Qwen/Qwen2.5-0.5B-Instruct --to out")
        .ends(0);
    assert_eq!(
        place.read("out/rg-swarm.yaml"),
        file.replace(own, &format!("{own} "))
    );
}

#[test]
fn a_value_that_asks_for_a_variable_is_that_of_the_job_or_else_its_default() {
    let mut place = Place::example_named("swarm");
    let file = place.read(FILE);
    let asks = file.replace("fp16: false ", "fp16: ${oc.env:HALF,true} ");
    place.write(FILE, &asks);
    let said = |place: &Place, expected: &str| {
        place.says("explain fp16", 0, &[expected]);
        place.run(&["render", "--to", "out"]).ends(0);
        assert_eq!(
            place.read("out/rg-swarm.yaml"),
            asks,
            "the file says so already"
        );
    };
    said(&place, "fp16 = true");
    place.set("HALF", "false");
    said(&place, "fp16 = false");
    let yaml = place.read("oomctl.yaml");
    place.write(
        "oomctl.yaml",
        &yaml.replace("GIB: '12' }", "GIB: '12', HALF: 'true' }"),
    );
    said(&place, "fp16 = true");
}

#[test]
fn a_program_started_here_gets_a_copy_with_smaller_batches_until_it_fits() {
    let mut place = Place::example_named("swarm");
    place.set("SIM_GPU_GIB", "12");
    let before = place.read(FILE);
    let program =
        word_list::<9>("run --preset rl-swarm --wait 0s --json -- python3 simulated_swarm.py");
    let named = word_list::<4>("--config-path rgym_exp/config --config-name rg-swarm.yaml");
    let gpu = ["--set", "device=cpu"];
    let words = [&program[..1], &gpu, &program[1..], &named].concat();
    let done = place.run(&words).ends(0);
    let attempts = done.json()["attempts"].as_array().unwrap().clone();
    assert_eq!(attempts.len(), 3, "{}", done.told());
    assert_eq!(place.read(FILE), before, "the user's file is never written");
    for (attempt, minibatch) in attempts.iter().zip(["16", "8", "4"]) {
        let command: Vec<&str> = attempt["command"]
            .as_array()
            .unwrap()
            .iter()
            .map(|w| w.as_str().unwrap())
            .collect();
        assert_eq!(command[4..], ["--config-name", "rg-swarm.yaml"]);
        let copy = std::fs::read_to_string(format!("{}/rg-swarm.yaml", command[3])).unwrap();
        assert!(
            copy.contains(&format!("minibatch_size: {minibatch} ")),
            "{copy}"
        );
    }
    // The same with the copy in a place that the command marks; and none where it is named nowhere.
    let marked = word_list::<4>("--config-path {config:folder} --config-name rg-swarm.yaml");
    place
        .run(&[&words[..words.len() - 4], &marked].concat())
        .ends(0);
    place.run(&words[..words.len() - 4]).ends(5).says(&[
        "the command does not contain rgym_exp/config/rg-swarm.yaml",
        "write {config} in place of the file's path",
    ]);
}

#[test]
fn no_key_is_added_to_a_configuration_whose_class_would_refuse_it() {
    let place = Place::example_named("swarm");
    let file = place.read(FILE);
    let (own, fp16) = (
        "genrl.trainer.grpo_trainer.GRPOTrainerConfig",
        "fp16: ${training.fp16}",
    );
    // As releases before 0.6 have it.
    let file = file
        .replace(own, "trl.trainer.GRPOConfig")
        .replace(fp16, "bf16: false");
    let file = file.replace(
        "  fp16: false                # weights in half precision\n",
        "",
    );
    place.write(FILE, &file);
    let plan = place.run(&["plan", "--all"]).ends(0).out;
    assert!(!plan.contains("shorter-answers: halve"), "{plan}");
    assert!(
        plan.contains("trainer_bf16                 false -> true"),
        "{plan}"
    );
}
