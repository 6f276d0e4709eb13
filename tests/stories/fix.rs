//! `oomctl fix`: what to change after a failure, from a log, a pipe, a CI log or a pasted issue.

use std::io::Write;
use std::process::{Command, Stdio};

use super::own_scripts;
use super::place::{Done, Place, install};

const OOM: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free. Including non-PyTorch memory, this process has 78.00 GiB memory in use. Of the allocated memory 76.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.\n";

/// A traceback of these frames, each with its source line, as CPython prints it.
fn failure(frames: &[(&str, &str)]) -> String {
    let shown = frames.iter().enumerate().map(|(i, (place, code))| {
        let (file, function) = place.split_once(' ').unwrap();
        format!(
            "  File \"{file}\", line {}, in {function}\n    {code}\n",
            100 + i
        )
    });
    let frames: String = shown.collect();
    format!("Traceback (most recent call last):\n{frames}{OOM}")
}

fn trl() -> String {
    failure(&[
        ("/home/me/train.py <module>", "trainer.train()"),
        (
            "/env/lib/python3.12/site-packages/transformers/trainer.py train",
            "return inner_training_loop(",
        ),
        (
            "/env/lib/python3.12/site-packages/trl/trainer/grpo_trainer.py compute_loss",
            "return self._compute_loss(model, inputs)",
        ),
    ])
}

/// The engine of a trainer that wakes up beside it.
fn verl(workers: &str) -> String {
    failure(&[
        ("/opt/verl/verl/trainer/main_ppo.py main", "run_ppo(config)"),
        (
            &format!("/opt/verl/verl/workers/{workers} __enter__"),
            "self.inference_engine.wake_up()",
        ),
        (
            "/env/lib/python3.12/site-packages/vllm/entrypoints/llm.py wake_up",
            "self.llm_engine.wake_up(tags)",
        ),
    ])
}

fn piped(place: &Place, text: &str, script: &[&str]) -> Done {
    let mut fix = Command::new(env!("CARGO_BIN_EXE_oomctl"));
    fix.args(["fix", "--json", "-"]).args(script);
    fix.current_dir(&place.root);
    fix.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut fix = fix.stderr(Stdio::piped()).spawn().unwrap();
    fix.stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    Done::from(fix.wait_with_output().unwrap())
}

/// Knobs that help, as `WAY SPELLING`.
fn helps(view: &serde_json::Value) -> Vec<String> {
    let helps = view["advice"]["helps"].as_array().unwrap();
    let turns = helps.iter().flat_map(|a| a["turns"].as_array().unwrap());
    let told = |t: &serde_json::Value| {
        let word = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        format!("{} {}", word(&t["way"]), word(&t["spellings"][0]))
    };
    turns.map(told).collect()
}

#[test]
fn a_log_alone_is_answered_in_the_words_of_its_framework_and_without_a_value() {
    let place = Place::bare();
    place.write("job.log", &verl("sharding_manager/fsdp_vllm.py"));
    let done = place.run(&["fix", "job.log"]).ends(0);
    insta::assert_snapshot!(done.out);
    let view = place.json("fix --json job.log");
    assert_eq!(view["schema_version"], 1);
    assert_eq!(view["decision"], "advice");
    let presets = serde_json::json!(["verl-grpo", "verl-ppo"]);
    assert_eq!(view["framework"]["presets"], presets);
    let best = "lower actor_rollout_ref.rollout.gpu_memory_utilization";
    assert_eq!(helps(&view)[0], best);
    let worse = &view["advice"]["worse"][0]["turns"][0];
    assert_eq!(worse["way"], "raise");
    // What changes training comes last.
    let effects = view["advice"]["helps"].as_array().unwrap().iter();
    let effects: Vec<String> = effects.map(|a| a["effect"].to_string()).collect();
    assert!(
        effects.is_sorted_by_key(|e| ["same", "reso", "chan"]
            .iter()
            .position(|s| e[1..].starts_with(s))),
        "{effects:?}"
    );
}

#[test]
fn the_outermost_framework_counts_and_not_what_it_builds_on() {
    let place = Place::bare();
    let of = |text: &str| {
        place.write("job.log", text);
        let view = place.json("fix --json job.log");
        view["framework"]["presets"].clone()
    };
    let trainer = "/env/lib/python3.12/site-packages/transformers/trainer.py";
    let engine = "/env/lib/python3.12/site-packages/deepspeed/runtime/engine.py";
    assert_eq!(of(&trl()), serde_json::json!(["trl"]));
    let bare = [(&*format!("{trainer} training_step"), "loss.backward()")];
    assert_eq!(of(&failure(&bare)), serde_json::json!(["hf-trainer"]));
    let factory = "/opt/LLaMA-Factory/src/llamafactory/train/sft/workflow.py";
    let frames = [
        (&*format!("{factory} run_sft"), "trainer.train()"),
        (&*format!("{trainer} train"), "loss.backward()"),
        (&*format!("{engine} backward"), "loss.backward()"),
    ];
    assert_eq!(of(&failure(&frames)), serde_json::json!(["llama-factory"]));
    let slime = "/root/slime/slime/backends/megatron_utils/actor.py train_actor";
    let slime = failure(&[(slime, "train(")]);
    assert_eq!(of(&slime), serde_json::json!(["slime"]));
    let megatron = of(&verl("megatron_workers.py"));
    assert_eq!(megatron, serde_json::json!(["verl-megatron"]));
    // A command that is echoed says it too.
    let command = "+ python3 -m verl.trainer.main_ppo algorithm.adv_estimator=gae \\\n    critic.model.path=/m\n";
    let own = failure(&[("/home/me/model.py forward", "x = self.mlp(x)")]);
    assert_eq!(
        of(&format!("{command}{own}")),
        serde_json::json!(["verl-ppo"])
    );
    assert_eq!(of(&own), serde_json::Value::Null);
}

#[test]
fn where_no_framework_is_recognised_the_advice_is_general_and_says_how_to_be_asked() {
    let place = Place::bare();
    place.write("job.log", OOM);
    let done = place.run(&["fix", "job.log"]).ends(0);
    done.says(&[
        "smaller micro batches",
        "framework not recognised; `oomctl fix job.log SCRIPT` reads the job script",
    ]);
    let named = place.run(&["fix", "--preset", "trl", "job.log"]).ends(0);
    named.says(&["TRL by --preset trl", "lower --per_device_train_batch_size"]);
    place.write("well.log", "all is well\n");
    let well = ["fix", "--exit-code", "--preset", "trl", "well.log"];
    place.says(&well, 0, &["nothing to fix"]);
    place.run(&["fix", "--exit-code", "job.log"]).ends(10);
    place.run(&["fix", "gone.log"]).ends(2);
}

#[test]
fn every_framework_with_a_package_is_known_by_its_frames_and_answers_in_its_own_words() {
    let place = Place::bare();
    let listed = place.json("presets --json");
    let entries = listed["entries"].as_array().unwrap().iter();
    let mut seen = 0;
    for preset in entries.filter(|e| e["kind"] == "preset") {
        let name = preset["name"].as_str().unwrap();
        let text = std::fs::read_to_string(format!("presets/{name}.yaml")).unwrap_or_default();
        let file: serde_json::Value = serde_yaml::from_str(&text).unwrap();
        let Some(package) = file["framework"]["packages"].as_array() else {
            continue;
        };
        let package = package.last().unwrap().as_str().unwrap();
        let of = |key: &str| file["recognise"][key][0].as_str().unwrap_or("x.py");
        let place_of = |path: &str| format!("/env/site-packages/{package}/{path} step");
        let (script, part) = (place_of(of("scripts")), place_of(of("frames")));
        let frames = [(&*script, "trainer.fit()"), (&*part, "loss.backward()")];
        place.write("job.log", &failure(&frames));
        let view = place.json("fix --json job.log");
        let known = view["framework"]["presets"].as_array().unwrap();
        assert!(known.contains(&name.into()), "{name}: {known:?}");
        // An engine by itself has no backward pass.
        if file["recognise"]["generates"] == true {
            continue;
        }
        let helps = helps(&view);
        assert!(helps.len() > 3, "{name}: {helps:?}");
        assert!(helps.iter().all(|h| !h.ends_with(' ')), "{name}: {helps:?}");
        seen += 1;
    }
    assert!(seen > 10, "{seen}");
}

/// Each with what its makers put before every line.
#[test]
fn ci_logs_and_pasted_issues_are_read_like_the_log_itself() {
    let place = Place::bare();
    let plain = piped(&place, &trl(), &[]).ends(0).json();
    let lines = |of: &dyn Fn(usize, &str) -> String| -> String {
        let text = trl();
        let lines = text.lines().enumerate();
        lines.map(|(i, line)| of(i, line) + "\n").collect()
    };
    let issue = format!(
        "### Bug\n\nIt dies in the first step:\n\n```python\n{}```\n\n### Environment\n\n- Ubuntu\n",
        trl()
    );
    let step = "train\tRun training";
    for (name, text) in [
        ("quoted", lines(&|_, l| format!("> {l}"))),
        ("fenced", issue),
        ("indented", lines(&|_, l| format!("    {l}"))),
        (
            "actions",
            lines(&|i, l| format!("2026-11-02T09:14:{i:02}.1234567Z {l}")),
        ),
        (
            "gh",
            lines(&|i, l| format!("{step}\t2026-11-02T09:14:{i:02}.1234567Z {l}")),
        ),
        (
            "gitlab",
            lines(&|i, l| format!("2026-11-02T09:14:{i:02}.123456Z 01O \u{1b}[31m{l}\u{1b}[0;m")),
        ),
        (
            "jenkins",
            lines(&|i, l| format!("[2026-11-02T09:14:{i:02}.123Z] \u{1b}[31m{l}\u{1b}[0m")),
        ),
        (
            "buildkite",
            lines(&|i, l| format!("\u{1b}_bk;t=17620748{i:02}000\u{7}{l}")),
        ),
    ] {
        let view = piped(&place, &text, &[]).ends(0).json();
        let known = |v: &serde_json::Value| {
            let log = &v["log"];
            (
                log["kind"].clone(),
                log["phase"].clone(),
                log["frame"].clone(),
                helps(v),
            )
        };
        assert_eq!(known(&view), known(&plain), "{name}: {view:#}");
    }
}

#[test]
fn with_its_script_the_decision_is_the_one_that_a_watch_takes() {
    let place = own_scripts::place();
    let run = ["submit", "--yes", "--watch", "--run", "r", "job.slurm"];
    place.run(&run).ends(0);
    let log = ".oomctl/runs/r/attempt-1/slurm.out";
    let view = place.json(&["fix", "--json", log, "job.slurm"]);
    let after = ["plan", "--json", "--after", log, "job.slurm"];
    let planned = place.json(&after);
    assert_eq!(view["steps"], planned["steps"]);
    let ledger = place.read(".oomctl/runs/r/ledger.jsonl");
    let mut facts = ledger
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let decided = facts
        .find_map(|fact| find(&fact, "steps").cloned())
        .expect("a decision");
    assert_eq!(changes(&view["steps"]), changes(&decided));
    let through_a_pipe = piped(&place, &place.read(log), &["job.slurm"]);
    assert_eq!(through_a_pipe.ends(0).json()["steps"], view["steps"]);
    let diff = view["diff"].as_str().unwrap();
    assert!(diff.contains("-BS=32\n+BS=16\n"), "{diff}");
    assert!(!diff.contains("oomctl"), "{diff}");
    place.says(
        &["fix", log, "job.slurm"],
        0,
        &[
            "oomctl changed nothing. To make the change yourself:",
            "+BS=16",
        ],
    );
    // A run is answered by all that it has tried.
    let of_run = place.json("fix --json r");
    assert_eq!(of_run["attempt"], "r, attempt 2 (job 2)");
}

fn find<'v>(value: &'v serde_json::Value, key: &str) -> Option<&'v serde_json::Value> {
    match value {
        serde_json::Value::Object(map) => map
            .get(key)
            .or_else(|| map.values().find_map(|v| find(v, key))),
        serde_json::Value::Array(all) => all.iter().find_map(|v| find(v, key)),
        _ => None,
    }
}

fn changes(steps: &serde_json::Value) -> Vec<serde_json::Value> {
    let steps = steps.as_array().unwrap().iter();
    steps.map(|step| step["changes"].clone()).collect()
}

/// A script, and what is decided after a log.
fn after(place: &Place, script: &str, log: &str) -> serde_json::Value {
    place.write("job.slurm", script);
    place.write("job.log", log);
    let view = place.run(&["fix", "--json", "job.log", "job.slurm"]);
    let view = view.ends(0).json();
    let through_a_pipe = piped(place, log, &["job.slurm"]).ends(0).json();
    assert_eq!(through_a_pipe["steps"], view["steps"]);
    view
}

fn first(view: &serde_json::Value) -> &str {
    view["steps"][0]["rung"].as_str().unwrap_or_default()
}

const SFT: &str = "#!/bin/bash\n#SBATCH --gpus-per-node=1\naccelerate launch --num_processes 1 sft.py --model_name_or_path m --per_device_train_batch_size 1 --max_length 2048 --gradient_checkpointing true --activation_offloading true\n";

const VERL: &str = "#!/bin/bash\n#SBATCH --gpus-per-node=8\npython3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_files=a data.val_files=b data.train_batch_size=256 actor_rollout_ref.model.path=m actor_rollout_ref.actor.ppo_mini_batch_size=64 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 actor_rollout_ref.actor.fsdp_config.param_offload=False actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.gpu_memory_utilization=0.85 actor_rollout_ref.rollout.max_num_seqs=1024 actor_rollout_ref.rollout.enforce_eager=False trainer.n_gpus_per_node=8 trainer.nnodes=1\n";

#[test]
fn the_version_that_the_log_names_decides_what_there_is() {
    let place = Place::bare();
    let sft = |version: &str| {
        let trainer = "/env/lib/python3.12/site-packages/trl/trainer/sft_trainer.py training_step";
        let log = failure(&[(trainer, "loss.backward()")]);
        after(&place, SFT, &format!("{version}{log}"))
    };
    let old = sft("trl==0.20.0\n");
    assert_eq!(first(&old), "fused-loss", "{old:#}");
    let said = old["rests_on"][0].as_str().unwrap();
    assert!(said.starts_with("TRL 0.20.0, as "), "{said}");
    // Later ones need no fused loss for that.
    let unknown = sft("");
    assert_ne!(first(&unknown), "fused-loss");
    let said = unknown["rests_on"][0].as_str().unwrap();
    assert!(said.contains("version not found"), "{said}");
    let said = sft("trl==7.0.0\n")["rests_on"][0].to_string();
    assert!(said.contains("is not supported"), "{said}");
}

/// The submission assumed the newest TRL. The first attempt prints another, and the second is decided for that one.
#[test]
fn a_watched_run_is_decided_for_the_version_in_its_own_log() {
    let place = own_scripts::place();
    let trainer = "/env/lib/python3.12/site-packages/trl/trainer/sft_trainer.py training_step";
    let log = failure(&[(trainer, "loss.backward()")]);
    let dies = format!(
        "#!/bin/bash\ncase \"$*\" in *--use_liger*) exit 0;; esac\n\
         echo trl==0.20.0\ncat >&2 <<'END'\n{log}END\nexit 1\n"
    );
    install(&place.home.join("bin/accelerate"), &dies);
    place.write("job.slurm", SFT);
    place.write("sft.py", "from trl import SFTConfig, SFTTrainer\n");
    let words = ["submit", "--yes", "--watch", "--run", "r", "job.slurm"];
    let done = place.run(&words).ends(0);
    done.says(&[
        "TRL version not found; assuming",
        "attempt 1  TRL 0.20.0, as ",
        "slurm.out:1 says",
        "fused-loss",
        "succeeded (2 attempts",
    ]);
}

#[test]
fn a_decision_says_what_it_rests_on_and_what_else_went_wrong() {
    let place = Place::bare();
    let trainer = "/env/lib/python3.12/site-packages/transformers/trainer.py training_step";
    let log = failure(&[(trainer, "loss.backward()")]);
    let bare = log.replace(OOM, "torch.OutOfMemoryError: CUDA out of memory.\n");
    let odd = log.replace("1.00 GiB is free", "100.00 GiB is free");
    let killed = "slurmstepd: error: Detected 1 oom_kill event in StepId=4.batch. Some of the step tasks have been OOM Killed.\n";
    let script = SFT.replace("_batch_size 1 ", "_batch_size 8 ");
    for (log, said) in [
        (bare, "the message has no figures"),
        (odd, "100.00 GiB are free on a GPU of 79.15 GiB"),
        (format!("{log}{killed}"), "followed   job.log:"),
    ] {
        let view = after(&place, &script, &log);
        assert_eq!(first(&view), "halve-batch-keep-effective", "{view:#}");
        let done = place.run(&["fix", "job.log", "job.slurm"]).ends(0);
        done.says(&[said]);
    }
}

#[test]
fn a_leak_is_no_reason_to_train_otherwise() {
    let place = Place::bare();
    let steps = (1..60).map(|step| {
        let host = 120 + 12 * step;
        format!("step:{step} - actor/pg_loss:0.01 - perf/max_memory_allocated_gb:40.0 - perf/cpu_memory_used_gb:{host}.0 - timing_s/step:100.1\n")
    });
    let steps: String = steps.collect();
    let killed = "slurmstepd: error: Detected 1 oom_kill event in StepId=4.batch. Some of the step tasks have been OOM Killed.\n";
    let once = after(&place, VERL, killed);
    let training = |view: &serde_json::Value| view["steps"][0]["effect"] == "changes-training";
    assert!(training(&once), "{once:#}");
    let leak = after(&place, VERL, &format!("{steps}{killed}"));
    assert!(!training(&leak), "{leak:#}");
    let done = place.run(&["fix", "job.log", "job.slurm"]).ends(0);
    done.says(&[
        "helps      a restart from the newest checkpoint",
        "it only delays the end",
    ]);
}

/// The rungs that come first where an engine shares the GPU with its trainer.
#[test]
fn a_failure_of_the_engine_is_answered_by_what_sizes_what_had_no_room() {
    let place = Place::bare();
    let runner = |function: &str| {
        let place = "/env/lib/python3.12/site-packages/vllm/v1/worker/gpu_model_runner.py";
        failure(&[(&format!("{place} {function}"), "x = self.y(")])
    };
    let sampler = format!(
        "{}\nThe above exception was the direct cause of the following exception:\n\nRuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests. Please try lowering `max_num_seqs` or `gpu_memory_utilization` when initializing the engine.\n",
        runner("_dummy_sampler_run")
    );
    // The last of its words may be missing.
    let cut = runner("_dummy_sampler_run");
    let generated = "/env/lib/python3.12/site-packages/verl/workers/rollout/vllm_rollout/vllm_rollout_spmd.py generate_sequences";
    let generated = failure(&[(generated, "outputs = self.inference_engine.generate(")]);
    for (log, rung, knobs) in [
        (sampler, "fewer-rollout-sequences", "max_num_seqs"),
        (cut, "fewer-rollout-sequences", "max_num_seqs"),
        (runner("capture_model"), "no-cuda-graphs", "enforce_eager"),
        (
            runner("initialize_kv_cache"),
            "smaller-rollout-share",
            "gpu_memory_utilization",
        ),
        (generated, "smaller-rollout-share", "gpu_memory_utilization"),
    ] {
        let view = after(&place, VERL, &log);
        assert_eq!(first(&view), rung, "{view:#}");
        let changed = view["steps"][0]["changes"].as_array().unwrap().iter();
        let changed: Vec<&str> = changed.map(|c| c["knob"].as_str().unwrap()).collect();
        assert_eq!(changed.join(" "), knobs);
        let done = place.run(&["fix", "job.log", "job.slurm"]).ends(0);
        assert!(!done.out.contains("passed over"), "{}", done.out);
    }
}

#[test]
fn in_a_project_the_log_is_of_its_configuration() {
    let place = Place::with(
        "preset: verl-grpo\nknobs: { train_batch_size: 256, ppo_mini_batch_size: 256, n_gpus_per_node: 4, train_files: a, val_files: b, model.path: m }\n",
    );
    place.write("job.log", &verl("sharding_manager/fsdp_vllm.py"));
    let view = place.json("fix --json job.log");
    let planned = place.run(&["plan", "--json", "--after", "job.log"]);
    assert_eq!(view["steps"], planned.ends(0).json()["steps"]);
    assert_eq!(view["diff"], serde_json::Value::Null);
    assert!(view["steps"][0]["changes"][0]["to"].is_number(), "{view:#}");
}

#[test]
fn host_memory_of_a_program_that_nobody_knows_is_doubled_in_the_form_in_which_it_was_asked_for() {
    let place = Place::bare();
    let killed = "slurmstepd: error: Detected 1 oom_kill event in StepId=5.batch. Some of the step tasks have been OOM Killed.\n";
    place.write("job.err", killed);
    let cases: [(&[&str], Option<&str>); 8] = [
        (&["--mem=16G"], Some("--mem=32G")),
        (
            &["--mem-per-cpu=4G", "--cpus-per-task=8"],
            Some("--mem-per-cpu=8G"),
        ),
        (
            &["--ntasks=4", "--nodes=2", "--mem-per-cpu=3001"],
            Some("--mem-per-cpu=6002M"),
        ),
        (&["--mem-per-gpu=60G"], Some("--mem-per-gpu=120G")),
        (&["--mem-per-cpu=4G", "--exclusive"], None),
        (&["--mem=16G", "--mem-per-gpu=8G"], None),
        (&["--mem=0"], None),
        (&["--time=1:00:00"], None),
    ];
    for (options, expected) in cases {
        let lines: String = options.iter().map(|o| format!("#SBATCH {o}\n")).collect();
        let script = format!("#!/bin/bash\n{lines}#SBATCH --gres=gpu:2\npython3 my_own.py\n");
        place.write("job.sh", &script);
        let done = place.run(&["fix", "job.err", "job.sh"]).ends(0);
        let added: Vec<&str> = done
            .out
            .lines()
            .filter_map(|line| line.strip_prefix("+#SBATCH "))
            .collect();
        assert_eq!(
            added,
            expected.into_iter().collect::<Vec<_>>(),
            "{options:?}"
        );
        if expected.is_none() {
            done.says(&["more-host-memory: "]);
        }
    }
}

#[test]
fn laps_of_one_rung_are_shown_as_one() {
    let place = Place::bare();
    let script = "#!/bin/bash\n#SBATCH --gres=gpu:h100:8\n#SBATCH --mem=800G\n\
        python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=256 \
        data.max_prompt_length=1024 data.max_response_length=3072 actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct \
        actor_rollout_ref.actor.ppo_mini_batch_size=128 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16 \
        actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=32 actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=16 \
        actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.gpu_memory_utilization=0.6 actor_rollout_ref.rollout.n=8 \
        actor_rollout_ref.rollout.tensor_model_parallel_size=2 trainer.n_gpus_per_node=8 trainer.nnodes=1\n";
    place.write("job.sh", script);
    let log_probs =
        "/env/lib/python3.11/site-packages/verl/workers/actor/dp_actor.py compute_log_prob";
    place.write(
        "job.err",
        &failure(&[(log_probs, "self._forward_micro_batch(micro_batch)")]),
    );
    let done = place.run(&["fix", "job.err", "job.sh"]).ends(0);
    insta::assert_snapshot!(done.out);
    let view = place.json("fix --json job.err job.sh");
    let rungs: Vec<&str> = view["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["rung"].as_str().unwrap())
        .collect();
    let mut names = rungs.clone();
    names.dedup();
    assert!(names.len() < rungs.len(), "{rungs:?}");
}
