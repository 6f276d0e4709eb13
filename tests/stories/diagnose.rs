//! `oomctl diagnose` of files, runs and jobs; a project's own signatures, also while a run is watched.

use super::place::Place;
use super::slurm::Slurm;
use super::weaver;
use oomctl_base::word_list;

const WATCH: [&str; 4] = ["submit", "--backend", "local", "--watch"];
const OOM: &str = "Traceback (most recent call last):\n  File \"/w/train.py\", line 12, in main\n    loss.backward()\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 80.00 GiB of which 10.00 GiB is free. Including non-PyTorch memory, this process has 70.00 GiB memory in use. Of the allocated memory 40.00 GiB is allocated by PyTorch, and 20.00 GiB is reserved by PyTorch but unallocated.\nlast words\n";

const SHUTTLE: &str = "signatures:\n  - id: shuttle_lost\n    kind: loom_full\n    class: gpu_oom\n    contains: \"KeyError: 'shuttle'\"\n    helps: [fewer threads]\n";

#[test]
fn a_person_is_told_what_where_how_much_and_what_helps() {
    let mut place = Place::bare();
    place.write("job.err", &format!("before\n{OOM}"));
    place.set("LANG", "C");
    let done = place.run(&["diagnose", "job.err"]).ends(0);
    done.says(&[
        "job.err: GPU 1 ran out of memory in backward: 2.00 GiB requested, 10.00 GiB free of 80.00 GiB",
        "/w/train.py:12 in main: loss.backward()",
        "[####################==========+++++.....] 80.00 GiB",
        "# 40.00 GiB allocated",
        "job.err:5: torch.OutOfMemoryError",
        "4 |     loss.backward()",
        "6 | last words",
        "expandable_segments",
    ]);
    place.set("LANG", "C.UTF-8");
    place
        .run(&["diagnose", "job.err"])
        .says(&["[████████████████████▒▒▒▒▒▒▒▒▒▒░░░░░·····]"]);
}

#[test]
fn json_has_every_field_that_is_promised() {
    let place = Place::bare();
    place.write("job.err", OOM);
    let view = place.json("diagnose --json job.err");
    let file = view["files"][0].as_object().unwrap();
    for field in
        "kind class is_gpu_oom is_host_oom fatal retryable_unchanged phase device_index rank
         requested_bytes total_bytes free_bytes allocated_bytes reserved_bytes
         reserved_unallocated_bytes step first_step co_tenant fragmentation evidence consequences
         helps worse"
            .split_whitespace()
    {
        assert!(file.contains_key(field), "{field}");
    }
    assert_eq!(file["requested_bytes"], 2_u64 << 30);
    assert_eq!(file["fragmentation"], true);
    assert_eq!(file["evidence"][0]["line"], 4);
}

#[test]
fn what_cannot_be_read_is_said_and_a_pipe_is_read_once() {
    let place = Place::bare();
    place.write("empty.log", "");
    let told = place.run(&["diagnose", "empty.log"]).ends(0);
    told.says(&["no failure found", "the file is empty"]);
    std::fs::write(place.path("job.log.gz"), [0x1f, 0x8b, 8, 0, 0, 0]).unwrap();
    let told = place.run(&["diagnose", "job.log.gz"]).ends(2);
    told.says(&["it is compressed", "zcat job.log.gz | oomctl diagnose -"]);
    let told = place.run(&["diagnose", "gone.log"]).ends(2);
    told.says(&["cannot read gone.log: No such file"]);
    for script in [
        "OOMCTL diagnose <(printf '%s' \"$0\")",
        "OOMCTL fix <(sleep 0.1; printf '%s' \"$0\")",
        "printf '%s' \"$0\" | OOMCTL diagnose -",
        "printf '%s' \"$0\" | OOMCTL fix /dev/stdin",
    ] {
        let mut unpacked = std::process::Command::new("bash");
        unpacked.current_dir(place.path("."));
        let script = script.replace("OOMCTL", env!("CARGO_BIN_EXE_oomctl"));
        let output = unpacked.args(["-c", &script, OOM]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("GPU 1 ran out of memory"), "{script}: {text}");
    }
}

#[test]
fn what_never_ends_or_never_begins_is_no_log() {
    let place = Place::with("preset: torchrun\n");
    place.shell("mkfifo pipe; mkdir logs").ends(0);
    for (log, why) in [
        ("/dev/zero", "cannot read /dev/zero: it is a device"),
        ("/dev/full", "cannot read /dev/full: it is a device"),
        ("pipe", "cannot read pipe: nobody writes into this pipe"),
        ("logs", "logs is a directory, not a log"),
    ] {
        for command in [
            &["diagnose", log][..],
            &["fix", log],
            &["plan", "--after", log],
        ] {
            place.run(command).ends(2).says(&[why]);
        }
    }
    place.says("diagnose /dev/null", 0, &["the file is empty"]);
    place.says("sweep check pipe", 2, &["it is a pipe"]);
}

#[test]
fn the_logs_of_one_job_are_judged_together_and_others_when_asked() {
    let place = Place::bare();
    place.write("slurm-7.out", "step:1 - actor/pg_loss:0.012\n");
    place.write("slurm-7.err", OOM);
    place.write("other.log", "all is well\n");
    let count = |arguments: &[&str]| {
        let view = place.json(arguments);
        let files = view["files"].as_array().unwrap();
        (files.len(), files[0]["step"].clone())
    };
    let files = word_list::<5>("diagnose --json slurm-7.out slurm-7.err other.log");
    assert_eq!(count(&files), (2, 2.into()));
    let together = [&files[..], &["--together"]].concat();
    assert_eq!(count(&together), (1, 2.into()));
}

#[test]
fn a_whole_run_is_told_attempt_by_attempt_with_the_schedulers_word() {
    let place = weaver::project("");
    place.run(&WATCH).ends(0);
    let view = place.json("diagnose --json weaver-1");
    let attempts = view["files"].as_array().unwrap();
    assert_eq!(attempts.len(), 3);
    let told = |i: usize, field: &str| attempts[i][field].clone();
    assert_eq!(
        (told(0, "attempt"), told(0, "kind")),
        (1.into(), "cuda_oom".into())
    );
    assert_eq!(
        (told(2, "attempt"), told(2, "kind")),
        (3.into(), "no_failure".into())
    );
    assert_eq!(told(0, "job")["state"], "FAILED");
    let job = told(1, "job")["id"].as_str().unwrap().to_owned();
    let one = place.json(&["diagnose", "--json", &job]);
    assert_eq!(one["files"].as_array().unwrap().len(), 1);
    assert_eq!(one["files"][0]["attempt"], 2);
    place.run(&["diagnose", "nobody-1"]).ends(2);
}

#[test]
fn a_job_of_slurm_that_is_nobodys_run_is_found_by_its_id() {
    let mut place = Place::bare();
    let slurm = Slurm::before(&mut place);
    let job = slurm.path("jobs/4711");
    std::fs::create_dir(&job).unwrap();
    for (name, text) in [
        ("state", "OUT_OF_MEMORY"),
        ("code", "0:125"),
        ("name", "theirs"),
        ("submit", "2026-03-02T10:00:00"),
    ] {
        std::fs::write(job.join(name), text).unwrap();
    }
    let log = place.path("theirs.log");
    place.write("theirs.log", "step:4 - actor/pg_loss:0.012\n");
    let scontrol = slurm.path("bin/scontrol");
    let text = std::fs::read_to_string(&scontrol).unwrap();
    std::fs::write(
        &scontrol,
        format!("{text}echo \"   StdOut={}\"\n", log.display()),
    )
    .unwrap();
    let view = place.json("diagnose --json 4711");
    let told = &view["files"][0];
    assert_eq!(told["job"]["state"], "OUT_OF_MEMORY");
    assert_eq!(told["kind"], "host_oom");
    assert_eq!(told["step"], 5);
    place.run(&["diagnose", "9999"]).ends(2);
}

#[test]
fn a_projects_own_signature_counts_in_diagnose_and_in_watch() {
    let mut place = weaver::project(SHUTTLE);
    place.write(
        "x.log",
        "Traceback (most recent call last):\nKeyError: 'shuttle'\n",
    );
    let done = place.run(&["diagnose", "x.log"]).ends(0);
    done.says(&["a GPU failed with loom_full", "fewer threads", "x.log:2"]);
    // Without the signature it is a fault of the program and ends the run with 1.
    place.set("WEAVER", "fail");
    place.run(&WATCH).ends(3);
    assert!(place.has("argv.2"), "it climbed");
}

#[test]
fn a_faulty_signature_is_shown_with_its_place() {
    let place =
        weaver::project("signatures:\n  - id: a\n    kind: mine\n    contains: some text\n");
    place.write("x.log", "");
    for (yaml, words) in [
        ("kind: mine", &["oomctl.yaml:4:11", "needs a `class`"][..]),
        (
            "kind: config\n    patern: x",
            &["oomctl.yaml:5:5", "did you mean `pattern`?"],
        ),
        (
            "kind: config\n    pattern: '('",
            &["oomctl.yaml:5:14", "pattern"],
        ),
        (
            "kind: config\n    fatal: perhaps",
            &["expected true or false"],
        ),
    ] {
        let text = format!(
            "preset: weaver\nsignatures:\n  - id: a\n    {yaml}\n    contains: some text\n"
        );
        place.write("oomctl.yaml", &text);
        place.says("diagnose x.log", 5, words);
        place.says("plan", 5, words);
    }
}

const WAKE_UP: &str = "Traceback (most recent call last):\n  File \"/env/lib/python3.10/site-packages/vllm/worker/worker.py\", line 140, in wake_up\n    allocator.wake_up()\n  File \"/env/lib/python3.10/site-packages/vllm/device_allocator/cumem.py\", line 207, in wake_up\n    create_and_map(handle)\nRuntimeError: CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62\n";

const LEAK: &str = "(TaskRunner pid=1) step:41 - global_seqlen/min:36872.000 - actor/pg_loss:0.012\nslurmstepd: error: Detected 1 oom_kill event in StepId=4711.batch. Some of the step tasks have been OOM Killed.\n";

fn engine(version: &str) -> String {
    format!(
        "INFO 03-26 11:02:10 [core.py:53] Initializing a V1 LLM engine (v{version}) with config: model='m'\n{WAKE_UP}"
    )
}

#[test]
fn a_bug_of_a_version_is_named_with_what_helps_and_where_it_is_told_of() {
    let place = Place::bare();
    place.write("job.err", &engine("0.8.2"));
    place.write("mended.err", &engine("0.9.1"));
    let done = place.run(&["diagnose", "job.err"]).ends(0);
    insta::assert_snapshot!(done.out);
    let mended = place.run(&["diagnose", "mended.err"]).ends(0);
    assert!(!mended.out.contains("bug"), "{}", mended.out);
    let view = place.json("diagnose --json job.err");
    let bugs = &view["files"][0]["known_bugs"];
    insta::assert_snapshot!(serde_json::to_string_pretty(bugs).unwrap());
}

#[test]
fn a_bug_of_an_unknown_version_only_may_be() {
    let place = Place::bare();
    let log = "Traceback (most recent call last):\n  File \"/w/train.py\", line 31, in main\n    model = AutoModelForCausalLM.from_pretrained(args.model)\n  File \"/env/lib/python3.11/site-packages/transformers/modeling_utils.py\", line 5803, in caching_allocator_warmup\n    _ = torch.empty(byte_count // factor, dtype=torch.float16, device=device, requires_grad=False)\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 14.19 GiB. GPU 0 has a total capacity of 23.65 GiB of which 12.02 GiB is free.\n";
    place.write("job.err", log);
    // That an engine cannot wake up has many causes.
    place.write("wake.err", WAKE_UP);
    let done = place.run(&["diagnose", "job.err"]).ends(0);
    done.says(&["may be: transformers-allocator-warmup (if transformers >=4.50.0, <4.52.0; "]);
    let view = place.run(&["diagnose", "--json", "job.err", "wake.err"]);
    let view = view.ends(0).json();
    let bugs = &view["files"][0]["known_bugs"];
    assert_eq!(bugs[0]["certain"], false);
    assert_eq!(bugs[0].get("version"), None);
    assert_eq!(view["files"][1]["known_bugs"], serde_json::json!([]));
}

/// The environment that a script of the user's own takes over says the version, where the log does not.
#[test]
fn the_environment_of_a_script_says_which_bugs_it_can_have() {
    let place = Place::bare();
    let info = "env/lib/python3.12/site-packages/vllm-0.7.3.dist-info/METADATA";
    place.write(info, "Name: vllm\n");
    let run =
        "python3 -m verl.trainer.main_ppo data.train_batch_size=64 actor_rollout_ref.rollout.n=8";
    let script = |lines: &str| format!("#!/bin/bash\n#SBATCH --gres=gpu:1\n{lines}{run}\n");
    place.write("job.slurm", &script("source env/bin/activate\n"));
    place.write("other.slurm", &script(""));
    place.write("leak.err", LEAK);
    let plan = |script: &str| place.run(&["plan", "--after", "leak.err", script]);
    plan("job.slurm").says(&["vllm-n-above-1 (vllm 0.7.3: "]);
    let other = plan("other.slurm");
    assert!(!other.told().contains("vllm-n-above-1"), "{}", other.told());
}

/// `conda activate NAME` is below the conda that the script takes over, and is not the environment of the submission.
#[test]
fn an_environment_of_conda_is_found_by_its_name() {
    let mut place = Place::bare();
    place.set("CONDA_PREFIX", &place.path("base").display().to_string());
    let package = |folder: &str, version: &str| {
        format!("{folder}/lib/python3.12/site-packages/vllm-{version}.dist-info/METADATA")
    };
    place.write(&package("base", "0.7.3"), "Name: vllm\n");
    place.write(&package("conda/envs/old", "0.7.3"), "Name: vllm\n");
    place.write(&package("conda/envs/new", "0.9.1"), "Name: vllm\n");
    place.write("conda/etc/profile.d/conda.sh", "conda() { :; }\n");
    place.write("leak.err", LEAK);
    let named = |activate: &str| {
        let run = "python3 -m verl.trainer.main_ppo data.train_batch_size=64 actor_rollout_ref.rollout.n=8";
        let lines = format!("source conda/etc/profile.d/conda.sh\n{activate}\n{run}\n");
        place.write(
            "job.slurm",
            &format!("#!/bin/bash\n#SBATCH --gres=gpu:1\n{lines}"),
        );
        let plan = place.run(&["plan", "--after", "leak.err", "job.slurm"]);
        plan.told().contains("vllm-n-above-1 (vllm 0.7.3: ")
    };
    assert!(named("conda activate old"));
    assert!(!named("conda activate new"));
    assert!(!named("conda activate gone"));
    assert!(named("# that of the submission"));
}

/// A preset's jobs run in the environment that their setup activates, or else in that of the submission; what a module brings is
/// not known.
#[test]
fn the_environment_of_a_presets_jobs_says_which_bugs_they_can_have() {
    let job = "preset: verl-grpo\nknobs: { train_batch_size: 256, ppo_mini_batch_size: 256, n_gpus_per_node: 4, train_files: a, val_files: b, model.path: m, rollout.n: 8";
    for (more, active, expected) in [
        (", setup: [source env/bin/activate] }", false, true),
        (
            ", setup: [source env/bin/activate], modules: [python/3.12] }",
            false,
            false,
        ),
        (" }", true, true),
        (" }", false, false),
    ] {
        let mut place = Place::with(&format!("{job}{more}\n"));
        let info = "env/lib/python3.12/site-packages/vllm-0.7.3.dist-info/METADATA";
        place.write(info, "Name: vllm\n");
        place.write("leak.err", LEAK);
        if active {
            place.set("VIRTUAL_ENV", &place.path("env").display().to_string());
        }
        let plan = place.run(&["plan", "--after", "leak.err"]).ends(0);
        let named = plan.out.contains("vllm-n-above-1 (vllm 0.7.3: ");
        assert_eq!(named, expected, "{more} {active}: {}", plan.told());
    }
}

/// A project's own table is read beside those of the program, by a run as by `diagnose`; a fault in it is told.
#[test]
fn a_project_has_tables_of_bugs_of_its_own() {
    let place = Place::with("preset: verl-grpo\n");
    let table = "package: vllm
bugs:
  - id: our-patch
    says: our patch keeps the last batch
    versions: '>=0.8.0, <0.9.0'
    source: https://example.org/12
    seen: { class: [gpu_oom], phase: [wake_up] }
    workaround: use the image of June
  - id: vllm-wakes-up-at-once
    says: ours says it otherwise
    versions: '>=0.8.0, <0.9.0'
    source: https://example.org/13
    seen: { class: [gpu_oom], signature: [vllm_cumem_oom] }
    workaround: wait
";
    place.write("job.err", &engine("0.8.2"));
    place.write("presets/bugs/ours.yaml", table);
    let told = place.run(&["diagnose", "job.err"]).ends(0);
    told.says(&[
        "our-patch (vllm 0.8.2: our patch keeps the last batch; https://example.org/12)",
        "vllm-wakes-up-at-once (vllm 0.8.2: ours says it otherwise; ",
    ]);
    assert!(!told.out.contains("maps the weights"), "{}", told.out);
    place.write(
        "presets/bugs/ours.yaml",
        &table.replace("says: our patch", "say: our patch"),
    );
    place.says("diagnose job.err", 5, &["presets/bugs/ours.yaml"]);
}

/// The log says the version, the project's file what else must hold.
#[test]
fn no_rung_is_taken_that_cannot_help_against_a_bug_that_is_certain() {
    let place = Place::with(
        "preset: verl-grpo\nknobs: { train_batch_size: 256, ppo_mini_batch_size: 256, n_gpus_per_node: 4, train_files: a, val_files: b, model.path: m, rollout.n: 8 }\n",
    );
    let died = |version: &str| format!("vllm=={version}\n{LEAK}");
    place.write("leak.err", &died("0.7.3"));
    place.write("none.err", &died("0.9.1"));
    let plan = |log: &str, more: &[&str]| {
        place.json(&[&["plan", "--json", "--after", log], more].concat())
    };
    let why = |plan: &serde_json::Value| {
        let skipped = plan["skipped"].as_array().unwrap();
        let rung = skipped
            .iter()
            .find(|s| s["rung"] == "smaller-train-batch-for-the-host");
        rung.and_then(|s| s["reason"].as_str()).map(str::to_owned)
    };
    let reason = "cannot help against vllm-n-above-1, a bug of vllm 0.7.3 (https://github.com/vllm-project/vllm/pull/14326)";
    assert_eq!(why(&plan("leak.err", &[])).as_deref(), Some(reason));
    // One answer for each prompt, or another version: it is not that.
    assert_eq!(why(&plan("leak.err", &["--set", "rollout.n=1"])), None);
    assert_eq!(why(&plan("none.err", &[])), None);
    let told = place.run(&["plan", "--after", "leak.err"]);
    told.says(&["vllm-n-above-1 (vllm 0.7.3: ", "more memory only delays it"]);
}

/// NCCL has nothing to do with a hub, and a module without the name is installed.
#[test]
fn the_advice_is_about_what_the_message_is_about() {
    let place = Place::bare();
    let nccl = "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1691, unhandled system error, NCCL version 2.19.3\n";
    place.write("nccl.err", nccl);
    let told = place.run(&["diagnose", "nccl.err"]).ends(0).told();
    assert!(
        told.contains("NCCL_DEBUG=INFO") && !told.contains("HF_HUB"),
        "{told}"
    );
    let import = "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nImportError: cannot import name 'FlashAttention2' from 'transformers'\n";
    place.write("import.err", import);
    place.says(
        "diagnose import.err",
        0,
        &["the version of it that has the name"],
    );
}
