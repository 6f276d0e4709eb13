//! Where an estimate has the model's dimensions and the GPU's memory from, and what is said where they are unknown.

use serde_json::Value;

use super::nvml::Gpus;
use super::place::{Done, Place};
use oomctl_base::word_list;

/// A model of 2 layers.
const CONFIG: &str = r#"{
  "model_type": "llama",
  "hidden_size": 256,
  "intermediate_size": 512,
  "num_attention_heads": 4,
  "num_hidden_layers": 2,
  "vocab_size": 1000
}
"#;

/// A project that trains `model` with a script of its own.
fn project(model: &str) -> Place {
    let place = Place::bare();
    place.write(
        "oomctl.yaml",
        &format!(
            "preset: torchrun\nbackend: slurm\nknobs:\n  script: train.py\n  batch_size: 2\n  max_seq_len: 512\n  model.path: {model}\n"
        ),
    );
    place
}

fn estimate(place: &Place, more: &[&str]) -> Done {
    place.run(&[&["estimate"], more].concat())
}

/// The sources of an estimate that succeeds.
#[track_caller]
fn sources(place: &Place, more: &[&str]) -> Value {
    let json = estimate(place, &[more, &["--json"]].concat())
        .ends(0)
        .json();
    json["sources"].clone()
}

#[test]
fn a_folder_gives_the_dimensions_with_the_lines_that_they_stand_in() {
    let place = project("models/small");
    place.write("models/small/config.json", CONFIG);
    let model = sources(&place, &[])["model"].clone();
    assert_eq!(model["dimensions"]["layers"], 2);
    assert_eq!(model["dimensions"]["head_dim"], 64);
    // Attention, MLP and norms of both layers; the last norm; embedding and output.
    let params = 2 * (4 * 256 * 256 + 3 * 256 * 512 + 2 * 256) + 256 + 2 * 1000 * 256;
    assert_eq!(model["dimensions"]["params"], params);
    let from = model["from"].to_string();
    assert!(from.contains("models/small/config.json:"), "{from}");
    let told = place.run(&["explain", "model.layers"]).ends(0);
    told.says(&["model.layers = 2", "models/small/config.json:6"]);
    let text = estimate(&place, &[]).ends(0);
    text.says(&[
        "model  models/small:",
        "2 layers, width 256",
        "models/small/config.json",
    ]);
}

#[test]
fn the_cache_of_the_hub_goes_before_the_tables() {
    let mut place = project("Qwen/Qwen2.5-7B-Instruct");
    assert_eq!(sources(&place, &[])["model"]["dimensions"]["layers"], 28);
    assert_eq!(
        sources(&place, &[])["model"]["dimensions"]["params"],
        7_615_616_512_u64
    );
    let hub = "hub/models--Qwen--Qwen2.5-7B-Instruct";
    place.write(&format!("{hub}/refs/main"), "a1b2\n");
    place.write(&format!("{hub}/snapshots/a1b2/config.json"), CONFIG);
    let cache = place.path("hub").display().to_string();
    // The variables of the job come before those of this shell.
    let of_job = format!("environment={{HF_HUB_CACHE: {cache}}}");
    let told = sources(&place, &["--set", &of_job]);
    assert_eq!(told["model"]["dimensions"]["layers"], 2);
    place.set("HF_HUB_CACHE", &cache);
    assert_eq!(sources(&place, &[])["model"]["dimensions"]["layers"], 2);
}

#[test]
fn what_is_given_by_hand_beside_the_name_or_above_it_wins() {
    let place = project("Qwen/Qwen2.5-7B-Instruct");
    let yaml = place.read("oomctl.yaml");
    place.write("oomctl.yaml", &format!("{yaml}  model.layers: 14\n"));
    let layers = |more: &[&str]| sources(&place, more)["model"]["dimensions"]["layers"].clone();
    assert_eq!(layers(&[]), 14);
    assert_eq!(layers(&["--set", "model.layers=7"]), 7);
    // Another name above: the 14 layers were those of the first.
    assert_eq!(layers(&["--set", "model.path=Qwen/Qwen2.5-0.5B"]), 24);
    let told = place.run("explain model.layers --set model.path=Qwen/Qwen2.5-0.5B");
    told.ends(0)
        .says(&["model.layers = 24", "overrides   14 (oomctl.yaml:8)"]);
}

#[test]
fn a_folder_that_has_a_models_name_is_taken_for_it_and_says_so() {
    let place = project("Qwen/Qwen2.5-7B-Instruct");
    let known = estimate(&place, &[]).ends(0).out;
    for path in [
        "/data/models/Qwen2.5-7B-Instruct/",
        "/hub/models--Qwen--Qwen2.5-7B-Instruct/snapshots/a09a35458c70",
        "lab/qwen2.5-7b-instruct",
    ] {
        let done = estimate(&place, &["--set", &format!("model.path={path}")]).ends(0);
        done.says(&["oomctl assumes Qwen/Qwen2.5-7B-Instruct, by its name"]);
        let phases = |text: &str| -> Vec<String> {
            let lines = text
                .lines()
                .filter(|l| l.contains("GiB") && !l.contains(" GPU "));
            lines.map(str::to_owned).collect()
        };
        assert_eq!(phases(&done.out), phases(&known), "{path}");
    }
}

#[test]
fn a_model_that_nobody_knows_is_never_taken_for_another() {
    let place = project("Qwen/Qwen2.5-7B-Instruct");
    let yaml = place.read("oomctl.yaml");
    place.write("oomctl.yaml", &format!("{yaml}  model.layers: 14\n"));
    let unknown = ["--set", "model.path=lab/secret"];
    let done = estimate(&place, &unknown).ends(5);
    done.says(&[
        "hidden: is unknown",
        "unknown model lab/secret: there is no ",
        "proj/lab/secret/config.json, it is not in ",
        ".cache/huggingface/hub, and it is not in the model tables",
        "--set model.path=lab/secret",
        "hint: give the model's dimensions as model.layers, model.hidden",
    ]);
    assert!(done.out.is_empty(), "{}", done.told());
    place
        .run(&[&["explain", "model.layers"], &unknown[..]].concat())
        .ends(0)
        .says(&["model.layers = null"]);
    let by_hand = word_list::<5>(
        "model.layers=2 model.hidden=256 model.intermediate=512 model.heads=4 model.vocab=1000",
    );
    let mut words = unknown.to_vec();
    by_hand
        .iter()
        .for_each(|word| words.extend(["--set", word]));
    estimate(&place, &words).ends(0);
}

#[test]
fn an_odd_config_is_named_with_its_line_and_stops_no_job() {
    let place = project("models/odd");
    place.write(
        "models/odd/config.json",
        &CONFIG.replace("256,", "\"wide\","),
    );
    estimate(&place, &[]).ends(5).says(&[
        "the dimensions of the model cannot be read: hidden_size: \"wide\" is not a whole number",
        "models/odd/config.json:3:3: hidden_size",
        "hint: give them as model.layers",
    ]);
    place.run(&["render"]).ends(0);
    place.write("models/odd/config.json", "no json");
    estimate(&place, &[])
        .ends(5)
        .says(&["config.json: is no JSON object", "line 1 column 2"]);
}

#[test]
fn the_memory_of_a_gpu_follows_from_its_type() {
    let place = project("Qwen/Qwen2.5-0.5B");
    let gpu = |more: &[&str]| sources(&place, more)["gpu"].clone();
    assert!(gpu(&[]).is_null());
    let told = gpu(&["--set", "gpu_type=nvidia_h100_80gb_hbm3"]);
    assert_eq!(told["memory"], "79.18GiB");
    assert!(
        told["from"]
            .to_string()
            .contains("presets/gpus/nvidia.yaml:"),
        "{told}"
    );
    // A name of cards of 40 and of 80 GB, and one that nobody knows.
    assert!(gpu(&["--set", "gpu_type=a100"]).is_null());
    assert!(gpu(&["--set", "gpu_type=warp9"]).is_null());
    for (kind, why) in [
        (
            "a100",
            "memory unknown: a100 has 79.15GiB or 39.39GiB; add --set gpu_memory=79.15GiB",
        ),
        (
            "warp9",
            "memory unknown: no table has the GPU type warp9; add --set gpu_memory=79.18GiB",
        ),
    ] {
        estimate(&place, &["--set", &format!("gpu_type={kind}")])
            .ends(0)
            .says(&[why]);
    }
    assert_eq!(
        gpu(&["--set", "gpu_type=a100", "--set", "gpu_memory=40GiB"])["memory"],
        "40GiB"
    );
}

#[test]
fn the_cluster_profile_says_which_card_a_request_means() {
    let place = project("Qwen/Qwen2.5-0.5B");
    let gpu = |more: &[&str]| {
        sources(&place, &[&["--cluster", "example-a100"], more].concat())["gpu"].clone()
    };
    assert_eq!(gpu(&[])["memory"], "39.39GiB");
    let larger = gpu(&["--set", "constraint=a100-80"]);
    assert_eq!(larger["memory"], "79.15GiB");
    assert!(
        larger["from"]
            .to_string()
            .contains("A100 80 GB, of the cluster profile's gpu_types"),
        "{larger}"
    );
    // A type that is not the profile's: what the profile says of its own does not hold.
    let of_other = sources(
        &place,
        &["--cluster", "example-h100", "--set", "gpu_type=warp9"],
    );
    assert!(of_other["gpu"].is_null(), "{of_other}");
}

#[test]
fn on_this_machine_the_driver_is_asked() {
    let mut place = project("Qwen/Qwen2.5-0.5B");
    let gpus = Gpus::new(&[
        "gpu uuid=GPU-a name=Loom total_mib=24576 used_mib=0",
        "gpu uuid=GPU-b name=Loom total_mib=16384 used_mib=0",
    ]);
    for (name, value) in gpus.variables() {
        place.set(name, &value);
    }
    let gpu = |backend: &str| sources(&place, &["--backend", backend])["gpu"].clone();
    assert_eq!(gpu("local")["memory"], "16384MiB");
    assert!(gpu("local")["from"].to_string().contains("NVML"));
    // A job that Slurm places elsewhere has other GPUs.
    assert!(gpu("slurm").is_null());
}

#[test]
fn a_bare_specification_may_name_model_and_gpu() {
    let place = Place::bare();
    let spec = r#"{ "id": "a", "model": "Qwen/Qwen2.5-7B", "gpu_type": "h100", "micro_batch": 1, "seq_len": 2048 }"#;
    place.write("named.json", spec);
    place.write(
        "given.json",
        r#"{ "id": "b", "params_b": 7.615616512, "layers": 28, "hidden": 3584, "heads": 28, "kv_heads": 4, "ffn": 18944,
            "vocab": 152064, "tied": false, "gpu_total_gib": 79.18, "micro_batch": 1, "seq_len": 2048 }"#,
    );
    let of = |file: &str| place.json(&["estimate", "--spec", file]);
    let (named, given) = (of("named.json"), of("given.json"));
    assert_eq!(named["predicted_peak_gib"], given["predicted_peak_gib"]);
    assert_eq!(named["fits_probability"], given["fits_probability"]);
    place.write("unknown.json", &spec.replace("Qwen2.5-7B", "Qwen9-7B"));
    let done = place.run(&["estimate", "--spec", "unknown.json"]).ends(5);
    done.says(&["unknown.json:1: unknown model Qwen/Qwen9-7B: there is no "]);
}

#[test]
fn a_line_that_cannot_be_estimated_leaves_the_others_theirs() {
    let place = Place::bare();
    let line = |id: &str, more: &str| {
        format!(
            r#"{{ "id": "{id}", "layers": 28, "hidden": 3584, "heads": 28, "ffn": 18944, "vocab": 152064, "seq_len": 2048{more} }}"#
        )
    };
    let lines = [
        line("a", r#", "micro_batch": 1"#),
        r#"{ "id": "torn", "layers": 28, "hid"#.to_owned(),
        String::new(),
        line("b", r#", "micro_batch": NaN"#),
        line("c", r#", "micro_batch": "one""#),
        line("d", r#", "micro_batch": 1, "gpus": 8, "dp": 3"#),
        line("e", r#", "micro_batch": 1, "framework": "of our own""#),
    ];
    place.write(
        "jobs.jsonl",
        &lines.join(
            "
",
        ),
    );
    let done = place.run(&["estimate", "--jsonl", "jobs.jsonl"]).ends(5);
    let told: Vec<serde_json::Value> = done
        .out
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let ids: Vec<_> = told.iter().map(|l| l["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["a", "e"]);
    // A stack that is not known is said to be none, and its intervals are wide.
    assert_eq!(told[1]["profile"], "unknown");
    done.says(&[
        "jobs.jsonl:2: specification: EOF",
        "jobs.jsonl:4: specification: expected value",
        r#"jobs.jsonl:5: micro_batch: invalid type: string "one", expected a number"#,
        "jobs.jsonl:6: gpus: 8 are not dp 3 x tp 1 x pp 1 x cp 1",
    ]);
}

#[test]
fn a_script_of_ones_own_has_forecasts_once_its_model_is_known() {
    let place = project("meta-llama/Llama-3.1-8B");
    let knobs = word_list::<4>("--set gpu_type=h100 --set gradient_checkpointing=false");
    let plan = place.run(&[&["plan"], &knobs[..]].concat()).ends(0);
    plan.says(&["GiB"]);
    let bare = place
        .run(&["plan", "--set", "model.path=lab/secret"])
        .ends(0);
    assert!(!bare.out.contains("GiB"), "{}", bare.told());
}

#[test]
fn a_table_of_ones_own_is_read_too() {
    let place = project("lab/weaver-1b");
    place.write(
        "presets/models/mine.yaml",
        "models:\n  - names: [lab/weaver-1b]\n    params: 1100048384\n    config: { model_type: llama, num_hidden_layers: 22, hidden_size: 2048, intermediate_size: 5632, num_attention_heads: 32, num_key_value_heads: 4, vocab_size: 32000 }\n",
    );
    let model = sources(&place, &[])["model"].clone();
    assert_eq!(model["dimensions"]["layers"], 22);
    assert!(
        model["from"]
            .to_string()
            .contains("presets/models/mine.yaml:3"),
        "{model}"
    );
    place.says("presets", 0, &["model tables:", "mine", "GPU tables:"]);
    place.write(
        "presets/models/mine.yaml",
        "models:\n  - { names: [lab/weaver-1b], params: 1, config: { hidden_size: 8 } }\n",
    );
    estimate(&place, &[])
        .ends(5)
        .says(&["mine.yaml:2: num_hidden_layers: is required"]);
}

/// What EasyR1's own page estimates: full training in 32 bits of 7B on 8 GPUs of 40 GB, in 16 bits on 4; nothing of it on cards of 24 GB.
#[test]
fn easyr1_needs_what_its_authors_say() {
    let place = Place::bare();
    let config = "data: {max_prompt_length: 2048, max_response_length: 2048}\n\
        worker:\n  actor:\n    global_batch_size: 128\n    micro_batch_size_per_device_for_update: 1\n    \
        micro_batch_size_per_device_for_experience: 2\n    padding_free: true\n    dynamic_batching: true\n    \
        offload: {offload_params: true, offload_optimizer: true}\n  \
        rollout: {n: 5, gpu_memory_utilization: 0.6}\n  ref: {fsdp: {enable_cpu_offload: true}}\n";
    place.write("config.yaml", config);
    let half = "worker.actor.fsdp.torch_dtype=bf16 worker.actor.optim.strategy=adamw_bf16";
    for (gpus, more) in [(8, ""), (4, half)] {
        place.write(
            "job.sh",
            &format!(
                "#!/bin/bash\n#SBATCH --gpus-per-node={gpus}\npython3 -m verl.trainer.main config=config.yaml \
                 worker.actor.model.model_path=Qwen/Qwen2.5-7B-Instruct trainer.n_gpus_per_node={gpus} {more}\n"
            ),
        );
        for (memory, verdict) in [("40GiB", "\nfits (pro"), ("24GiB", "\ndoes not fit (pro")] {
            let memory = format!("gpu_memory={memory}");
            let done = estimate(&place, &["--set", &memory, "job.sh"]).ends(0);
            done.says(&[verdict]);
        }
    }
    place.write(
        "config.yaml",
        &format!("{config}algorithm: {{adv_estimator: gae}}\n"),
    );
    estimate(&place, &["--set", "gpu_memory=40GiB", "job.sh"])
        .ends(5)
        .says(&["oomctl has no memory model of a critic beside the policy"]);
}

/// verl's own example of PPO on 8 GPUs of 80 GB: the critic's states lie beside the policy's until they are offloaded.
#[test]
fn ppo_counts_the_critic() {
    let place = Place::bare();
    let script = |more: &str| {
        format!(
            "#!/bin/bash\n#SBATCH --gpus-per-node=8\npython3 -m verl.trainer.main_ppo algorithm.adv_estimator=gae \
             data.train_batch_size=1024 data.max_prompt_length=512 data.max_response_length=512 \
             actor_rollout_ref.model.path=Qwen/Qwen2-7B-Instruct actor_rollout_ref.actor.ppo_mini_batch_size=256 \
             actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16 actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=32 \
             actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.gpu_memory_utilization=0.4 \
             critic.ppo_micro_batch_size_per_gpu=32 trainer.n_gpus_per_node=8 {more}\n"
        )
    };
    let estimated = |more: &str| {
        place.write("job.sh", &script(more));
        estimate(&place, &["--set", "gpu_memory=80GiB", "job.sh"])
    };
    let same = "critic.model.path=Qwen/Qwen2-7B-Instruct";
    let lines = [
        "critic update",
        "weights and optimizer states of the critic that are not offloaded",
    ];
    let beside = estimated(same).ends(0);
    beside.says(&lines);
    beside.says(&["\nfits (pro"]);
    let away = "critic.fsdp.param_offload=True critic.fsdp.optimizer_offload=True";
    let done = estimated(&format!("{same} {away}")).ends(0);
    assert!(!done.out.contains(lines[1]), "{}", done.out);
    estimated("critic.model.path=Qwen/Qwen2.5-0.5B")
        .ends(5)
        .says(&["is another model than the policy"]);
}

/// Axolotl's file says how the model is held: FSDP by its keys, DeepSpeed by its file or that file's name.
#[test]
fn an_axolotl_file_says_what_an_estimate_needs() {
    let place = Place::bare();
    let base = "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 4096\nsample_packing: true\nmicro_batch_size: 2\n\
        gradient_accumulation_steps: 1\noptimizer: adamw_torch_fused\nflash_attention: true\ngradient_checkpointing: true\n";
    place.write(
        "job.sh",
        "#!/bin/bash\n#SBATCH --gpus-per-node=8\naxolotl train c.yml\n",
    );
    let peak = |more: &str| {
        place.write("c.yml", &format!("{base}{more}"));
        let words = ["--json", "--set", "gpu_memory=80GiB", "job.sh"];
        let json = estimate(&place, &words).ends(0).json();
        json["predicted_peak_gib"].as_f64().unwrap()
    };
    let fsdp = peak(
        "fsdp:\n  - full_shard\n  - auto_wrap\nfsdp_config: {fsdp_state_dict_type: FULL_STATE_DICT}\n",
    );
    let (whole, adapter) = (peak(""), peak("adapter: lora\nlora_r: 16\n"));
    assert!(fsdp + 30.0 < whole, "{fsdp} {whole}");
    assert!(adapter + 30.0 < whole, "{adapter} {whole}");
    let fused = peak("cut_cross_entropy: true\nadapter: lora\nlora_r: 16\n");
    assert!(fused + 10.0 < adapter, "{fused} {adapter}");
    place.write("c.yml", &format!("{base}rl: dpo\n"));
    estimate(&place, &["job.sh"])
        .ends(5)
        .says(&["Axolotl's supervised training only"]);
}
