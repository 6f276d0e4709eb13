//! The verl preset renders, for every version, scripts that bash and shellcheck accept and that do
//! what they say when they run; and its ladder answers each kind of failure with the right rungs.

#![expect(
    clippy::disallowed_methods,
    reason = "tests read the tree and run what was rendered"
)]

use oomctl_base::{table, word_list};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::harness::{VERSIONS, files, preset, profile, set, shape, templates};
use crate::walk::{cluster, incident, verl, walk};
use oomctl::core::ladder::{ClimbContext, Decision, climb};
use oomctl::core::recipe::{ClusterFacts, Layer, LayerKind, Preset, Shape};
use oomctl::core::render::{AttemptPlace, RenderedFile, render};
use oomctl_diagnose::{Class, Incident};

fn diamonds(preset: &Preset) -> Layer {
    profile(
        preset,
        "presets/datasets/diamonds-seed0.yaml",
        LayerKind::Dataset,
    )
}

fn h100(preset: &Preset) -> Layer {
    profile(
        preset,
        "presets/clusters/example-h100.yaml",
        LayerKind::Cluster,
    )
}

/// Configurations that reach every branch of the templates.
fn variants(preset: &Preset) -> Vec<(&'static str, Vec<Layer>)> {
    let with = |more: &[&str]| vec![diamonds(preset), set(preset, more)];
    vec![
        ("plain", vec![diamonds(preset)]),
        ("h100", vec![h100(preset), diamonds(preset)]),
        (
            "everything",
            with(&[
                "account=proj_1",
                "qos=high",
                "reservation=r",
                "constraint=a100,nvlink",
                "exclude=n[1-3]",
                "exclusive=true",
                "requeue=false",
                "signal=B:TERM@120",
                "mem=0",
                "time_limit=2h",
                "cpus_per_task=16",
                "modules=[\"cuda/12.4\"]",
                "setup=[\"source venv/bin/activate\"]",
                "secrets=[\"HF_TOKEN\"]",
                "environment={\"A B\": \"x; id\", \"HF_HOME\": \"/x y\"}",
                "default_local_dir=/shared/a b",
                "network_interface=ib0",
            ]),
        ),
        (
            "nodes",
            with(&["nnodes=2", "network_interface=ib0", "ray_port=6379"]),
        ),
        ("nodes-plain", with(&["nnodes=2"])),
        (
            "apptainer",
            with(&[
                "container_image=verl.sif",
                "container_mounts=[\"/a:/b\"]",
                "container_args=[\"--cleanenv\"]",
            ]),
        ),
        (
            "pyxis",
            with(&[
                "nnodes=2",
                "container_image=nvcr.io#x",
                "container_runtime=pyxis",
                "container_mounts=[\"/a:/b\"]",
            ]),
        ),
        (
            "pyxis-one",
            with(&["container_image=x", "container_runtime=pyxis"]),
        ),
        (
            "awake",
            with(&[
                "free_cache_engine=false",
                "allocator_conf=expandable_segments:True",
            ]),
        ),
        (
            "turns",
            with(&["turn_at_end=true", "signal=B:USR1@300", "requeue=true"]),
        ),
        (
            "turns-only",
            with(&["turn_at_end=true", "nnodes=2", "signal=TERM@60"]),
        ),
        (
            "early",
            match preset.knob("save_before_time_limit") {
                Some(_) => with(&["save_before_time_limit=true", "save_freq=20"]),
                None => with(&["save_freq=20"]),
            },
        ),
    ]
}

fn check(tool: &str, args: &[&str], path: &Path) -> Option<Output> {
    Command::new(tool).args(args).arg(path).output().ok()
}

#[test]
fn rendered_scripts_pass_bash_and_shellcheck_in_every_version() {
    let dir = tempfile::tempdir().unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for version in VERSIONS {
        let preset = verl(version);
        for (name, layers) in variants(&preset) {
            let shape = shape(&preset, &layers, &ClusterFacts::default())
                .unwrap_or_else(|e| panic!("{version} {name}: {e}"));
            for file in files(&preset, &shape) {
                if !seen.insert(file.text.replace(version, "")) {
                    continue;
                }
                let path = dir.path().join(&file.name);
                std::fs::write(&path, &file.text).unwrap();
                let out = check("bash", &["-n"], &path).unwrap();
                assert!(
                    out.status.success(),
                    "{version} {name} {}: {out:?}",
                    file.name
                );
                match check("shellcheck", &["-x", "-s", "bash", "-e", "SC1091"], &path) {
                    Some(out) => assert!(
                        out.status.success(),
                        "{version} {name} {}:\n{}",
                        file.name,
                        String::from_utf8_lossy(&out.stdout)
                    ),
                    None => assert!(std::env::var_os("CI").is_none(), "shellcheck is missing"),
                }
            }
        }
    }
}

/// A folder with the rendered files, a working directory and commands of our own first on PATH.
struct Stage {
    dir: tempfile::TempDir,
}

impl Stage {
    fn new(version: &str, assignments: &[&str], facts: &ClusterFacts) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for sub in ["bin", "work", "attempt"] {
            std::fs::create_dir(dir.path().join(sub)).unwrap();
        }
        let preset = verl(version);
        let mut more = vec!["launcher=[\"trainer\"]", "ray_tmpdir=/tmp"];
        more.extend(assignments);
        let layers = [diamonds(&preset), set(&preset, &more)];
        let shape = shape(&preset, &layers, facts).unwrap_or_else(|e| panic!("{e}"));
        let stage = Self { dir };
        for file in stage.render(&preset, &shape) {
            std::fs::write(stage.path("attempt").join(&file.name), file.text).unwrap();
        }
        stage.command(
            "trainer",
            "printf '%s\\n' \"$@\" >\"$OUT/argv\"; env >\"$OUT/env\"; exit \"${CODE:-0}\"",
        );
        stage
    }

    fn render(&self, preset: &Preset, shape: &Shape) -> Vec<RenderedFile> {
        let place = AttemptPlace {
            run: "r1".to_owned(),
            number: 1,
            token: "t".to_owned(),
            dir: self.path("attempt").display().to_string(),
            workdir: self.path("work").display().to_string(),
            backend: "local".to_owned(),
            program: Some("/shared/bin/oomctl".to_owned()),
        };
        render(preset, shape, &templates(), &place).unwrap_or_else(|e| panic!("{e}"))
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, name: &str, script: &str) {
        let path = self.path("bin").join(name);
        std::fs::write(&path, format!("#!/bin/bash\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn run(&self, job: &str, env: &[(&str, &str)]) -> Output {
        let path = format!(
            "{}:{}",
            self.path("bin").display(),
            std::env::var("PATH").unwrap()
        );
        Command::new("bash")
            .arg(self.path("attempt/job.sbatch"))
            .current_dir(self.path("work"))
            .env_clear()
            .env("PATH", path)
            .env("OUT", self.dir.path())
            .env("OOMCTL_JOB_ID", job)
            .envs(env.iter().copied())
            .output()
            .unwrap()
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }
}

fn stderr(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

#[test]
fn the_trainers_exit_code_is_the_jobs() {
    let stage = Stage::new("0.9.1", &[], &ClusterFacts::default());
    let out = stage.run("7", &[("CODE", "41")]);
    assert_eq!(out.status.code(), Some(41), "{}", stderr(&out));
    let argv = stage.read("argv");
    assert!(argv.contains("data.train_batch_size=1024\n"), "{argv}");
    let folder = format!(
        "trainer.default_local_dir={}/checkpoints/oomctl/run/gpus-4\n",
        stage.path("work").display()
    );
    assert!(argv.ends_with(&folder), "{argv}");
    let env = stage.read("env");
    for line in
        "OOMCTL_RUN=r1 OOMCTL_ATTEMPT=1 OOMCTL_JOB_ID=7 HYDRA_FULL_ERROR=1 PYTHONUNBUFFERED=1
         WANDB_RUN_GROUP=r1 WANDB_NAME=r1-attempt-1"
            .split_whitespace()
    {
        assert!(env.lines().any(|l| l == line), "{line} is not in {env}");
    }
    assert!(
        !env.contains("PYTORCH_CUDA_ALLOC_CONF") && !env.contains("WANDB_MODE"),
        "{env}"
    );
}

#[test]
fn an_offline_cluster_reaches_for_no_network() {
    let facts = ClusterFacts {
        offline: true,
        ..ClusterFacts::default()
    };
    let stage = Stage::new("0.9.1", &[], &facts);
    assert!(stage.run("7", &[]).status.success());
    let env = stage.read("env");
    for line in "WANDB_MODE=offline HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 HF_DATASETS_OFFLINE=1"
        .split_whitespace()
    {
        assert!(env.lines().any(|l| l == line), "{line} is not in {env}");
    }
}

#[test]
fn expandable_segments_are_dropped_beside_vllms_sleep_mode_only() {
    let inherited = [("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")];
    let stage = Stage::new("0.9.1", &[], &ClusterFacts::default());
    let out = stage.run("7", &inherited);
    assert!(
        stderr(&out).contains("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True is dropped"),
        "{}",
        stderr(&out)
    );
    assert!(!stage.read("env").contains("expandable_segments"));

    let stage = Stage::new(
        "0.9.1",
        &["free_cache_engine=false"],
        &ClusterFacts::default(),
    );
    assert!(stage.run("7", &inherited).status.success());
    assert!(
        stage
            .read("env")
            .contains("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True")
    );
}

#[test]
fn a_duplicate_ends_and_a_requeued_job_goes_on() {
    let stage = Stage::new("0.9.1", &[], &ClusterFacts::default());
    assert!(stage.run("7", &[]).status.success());
    assert_eq!(stage.read("attempt/claim"), "7\n");
    std::fs::remove_file(stage.path("argv")).unwrap();
    let out = stage.run("8", &[]);
    assert_eq!(out.status.code(), Some(75));
    assert!(
        stderr(&out).contains(
            "oomctl: attempt 1 of run r1 is already claimed by job 7; this duplicate ends"
        ),
        "{}",
        stderr(&out)
    );
    assert!(!stage.path("argv").exists());
    assert!(stage.run("7", &[]).status.success());
    assert!(stage.path("argv").exists());
}

#[test]
fn a_missing_secret_ends_the_job_by_name_and_is_never_written() {
    let stage = Stage::new(
        "0.9.1",
        &["secrets=[\"HF_TOKEN\"]"],
        &ClusterFacts::default(),
    );
    let out = stage.run("7", &[]);
    assert!(
        !out.status.success() && stderr(&out).contains("HF_TOKEN"),
        "{}",
        stderr(&out)
    );
    assert!(!stage.path("argv").exists());
    assert!(
        stage
            .run("7", &[("HF_TOKEN", "hf_s3cret")])
            .status
            .success()
    );
    for file in ["job.sbatch", "environment.sh", "run_grpo.sh"] {
        assert!(!stage.read(&format!("attempt/{file}")).contains("s3cret"));
    }
}

#[test]
fn hostile_values_reach_the_trainer_as_they_are_and_run_nothing() {
    let nasty = "train_files=a b'\"$(touch pwned)`touch pwned`;x";
    let stage = Stage::new(
        "0.9.1",
        &[nasty, "environment={\"X\": \"$(touch pwned)\"}"],
        &ClusterFacts::default(),
    );
    let out = stage.run("7", &[]);
    assert!(out.status.success(), "{}", stderr(&out));
    let word = "data.train_files='a b\\'\"$(touch pwned)`touch pwned`;x'";
    assert!(
        stage.read("argv").lines().any(|l| l == word),
        "{}",
        stage.read("argv")
    );
    assert!(stage.read("env").contains("X=$(touch pwned)"));
    assert!(!stage.path("work/pwned").exists());
    for value in [
        "partition=gpu\n#SBATCH --uid=0",
        "partition=a b",
        "gpu_type=-x",
        "account=$(id)",
        "modules=[\"a;b\"]",
    ] {
        let preset = verl("0.9.1");
        let layers = [diamonds(&preset), set(&preset, &[value])];
        assert!(
            shape(&preset, &layers, &ClusterFacts::default()).is_err(),
            "{value}"
        );
    }
}

/// `srun` that runs its command here, `scontrol` that knows two nodes, `ray` that counts who joined.
fn two_nodes(stage: &Stage, joining: u32) {
    stage.command("scontrol", "printf 'n1\\nn2\\n'");
    stage.command("srun", "while [[ $1 == --* ]]; do shift; done\nexec \"$@\"");
    let ray = format!(
        "case $1 in\n  start) printf '%s\\n' \"$*\" >>\"$OUT/ray\"; exec sleep 600 ;;\n  status) printf 'Active:\\n'; head -n {joining} \"$OUT/ray\" | sed 's/.*/ 1 node_ab12/'; printf 'Pending:\\n 1 node_ff\\n' ;;\nesac"
    );
    stage.command("ray", &ray);
    stage.command("getent", "echo '10.0.0.1 STREAM n1'");
}

const IN_SLURM: [(&str, &str); 3] = [
    ("SLURM_JOB_ID", "4711"),
    ("SLURM_JOB_NODELIST", "n[1-2]"),
    ("SLURM_CPUS_PER_TASK", "16"),
];

#[test]
fn two_nodes_join_ray_before_the_trainer_starts() {
    let stage = Stage::new(
        "0.9.1",
        &["nnodes=2", "ray_wait=00:00:30"],
        &ClusterFacts::default(),
    );
    two_nodes(&stage, 2);
    let mut env = IN_SLURM.to_vec();
    env.push(("CODE", "3"));
    let out = stage.run("", &env);
    assert_eq!(out.status.code(), Some(3), "{}", stderr(&out));
    assert!(
        stage.read("env").contains("RAY_ADDRESS=10.0.0.1:24711\n"),
        "{}",
        stage.read("env")
    );
    let ray = stage.read("ray");
    assert!(
        ray.contains("--head --node-ip-address=10.0.0.1 --port=24711")
            && ray.contains("--num-cpus=16 --num-gpus=4 --block"),
        "{ray}"
    );
    assert!(ray.contains("start --address=10.0.0.1:24711"), "{ray}");
}

#[test]
fn a_node_that_never_joins_ends_the_job_at_the_deadline() {
    let stage = Stage::new(
        "0.9.1",
        &["nnodes=2", "ray_wait=00:00:01"],
        &ClusterFacts::default(),
    );
    two_nodes(&stage, 1);
    let out = stage.run("", &IN_SLURM);
    assert_eq!(out.status.code(), Some(1));
    // On a busy machine even the first may not have joined within a second.
    assert!(
        stderr(&out).contains(" of 2 nodes joined Ray within 1 s (ray_wait)"),
        "{}",
        stderr(&out)
    );
    assert!(!stage.path("argv").exists());
}

#[test]
fn several_nodes_without_slurm_are_refused_by_the_script() {
    let stage = Stage::new("0.9.1", &["nnodes=2"], &ClusterFacts::default());
    let out = stage.run("7", &[]);
    assert!(
        stderr(&out).contains("a job of several nodes needs Slurm"),
        "{}",
        stderr(&out)
    );
}

/// The rungs that answer an incident, in order, from the user's case on the example cluster.
fn rungs(version: &str, assignments: &[&str], incident: Option<&Incident>) -> Vec<String> {
    let preset = verl(version);
    let layers = vec![h100(&preset), diamonds(&preset), set(&preset, assignments)];
    let stands = walk(&preset, &layers, incident);
    stands
        .into_iter()
        .filter_map(|s| s.step)
        .map(|s| s.rung)
        .collect()
}

#[test]
fn the_ladder_of_the_design_card_is_the_default() {
    let card = word_list::<9>(
        "halve-batches offload halve-batches-again smaller-rollout-share shorter-responses
         more-gpus more-nodes more-nodes larger-gpu",
    );
    for version in VERSIONS {
        let all = of_the_card(rungs(version, &[], None));
        assert_eq!(all[..card.len()], card, "{version}");
        assert!(
            all[card.len()..].iter().all(|r| r == "halve-micro-batches"),
            "{all:?}"
        );
    }
}

/// The rungs without the levers that keep the mathematics, which stand before shorter responses.
fn of_the_card(mut rungs: Vec<String>) -> Vec<String> {
    const LEVERS: [&str; 8] = word_list(
        "smaller-rollout-share-again entropy-in-pieces checkpoint-activations offload-activations
         no-padding reshard-after-forward eager-rollout split-sequences",
    );
    rungs.retain(|rung| !LEVERS.contains(&rung.as_str()));
    rungs
}

#[test]
fn the_users_case_moves_as_the_design_card_says() {
    let preset = verl("0.9.1");
    let layers = vec![h100(&preset), diamonds(&preset)];
    let steps: Vec<_> = walk(&preset, &layers, None)
        .into_iter()
        .filter_map(|s| s.step)
        .filter(|s| !of_the_card(vec![s.rung.clone()]).is_empty())
        .collect();
    let moved: Vec<String> = steps[..6]
        .iter()
        .map(|s| {
            let changes: Vec<String> = s
                .changes
                .iter()
                .map(|c| format!("{} {} -> {}", c.knob, c.from, c.to))
                .collect();
            format!("{}: {}", s.rung, changes.join(", "))
        })
        .collect();
    assert_eq!(
        moved,
        [
            "halve-batches: train_batch_size 1024 -> 512, ppo_mini_batch_size 256 -> 128, ppo_micro_batch_size_per_gpu 32 -> 16, ref.log_prob_micro_batch_size_per_gpu 32 -> 16, rollout.log_prob_micro_batch_size_per_gpu 32 -> 16",
            "offload: mem 900G -> 1030542M, time_limit 1-00:00:00 -> 1-06:00:00, param_offload false -> true, optimizer_offload false -> true",
            "halve-batches-again: train_batch_size 512 -> 256, ppo_mini_batch_size 128 -> 64, ppo_micro_batch_size_per_gpu 16 -> 8, ref.log_prob_micro_batch_size_per_gpu 16 -> 8, rollout.log_prob_micro_batch_size_per_gpu 16 -> 8",
            "smaller-rollout-share: gpu_memory_utilization 0.6 -> 0.4",
            "shorter-responses: max_response_length 1024 -> 512, rollout.max_model_len 2048 -> 1536",
            "more-gpus: cpus_per_task 96 -> 192, mem 1030542M -> 1945600M, n_gpus_per_node 4 -> 8",
        ]
    );
}

fn split(words: &str) -> Vec<&str> {
    words.split_whitespace().collect()
}

/// Kind, class and phase of an incident, settings, the rungs that run first, rungs that never run.
const ANSWERS: [[&str; 4]; 13] = table(
    "
    cuda_oom gpu_oom actor_update |  | halve-batches offload halve-batches-again shorter-responses more-gpus | smaller-rollout-share larger-rollout-share undo-offload
    cuda_oom gpu_oom actor_update | free_cache_engine=false | halve-batches sleeping-rollout-engine offload halve-batches-again | smaller-rollout-share
    cuda_oom gpu_oom actor_update | enforce_eager=false | halve-batches offload |
    cuda_oom gpu_oom old_logprob |  | halve-batches offload halve-batches-again smaller-rollout-share |
    cuda_oom gpu_oom optimizer_step |  | offload more-gpus | halve-batches halve-batches-again halve-micro-batches shorter-responses smaller-rollout-share
    cuda_oom gpu_oom optimizer_step | strategy=fsdp2 offload_policy=true | more-gpus | offload
    cuda_oom gpu_oom load |  | offload smaller-rollout-share more-gpus | halve-batches halve-batches-again shorter-responses
    cuda_oom gpu_oom wake_up |  | smaller-rollout-share offload | no-cuda-graphs halve-batches shorter-responses
    cuda_oom gpu_oom cuda_graph | enforce_eager=false | no-cuda-graphs fewer-rollout-sequences | halve-batches
    vllm_kv_cache engine_memory kv_cache | rollout.max_model_len=4096 max_num_batched_tokens=8192 | shorter-rollout-context larger-rollout-share larger-rollout-share larger-rollout-share fewer-rollout-sequences | smaller-rollout-share halve-batches halve-batches-again
    vllm_startup_memory engine_memory init |  | smaller-rollout-share offload | larger-rollout-share halve-batches
    host_oom host_oom rollout | param_offload=true optimizer_offload=true | more-host-memory undo-offload smaller-train-batch-for-the-host | offload more-gpus halve-batches smaller-rollout-share
    time_limit not_oom unknown |  |  | halve-batches offload
    ",
);

#[test]
fn each_failure_is_answered_by_its_own_rungs() {
    for [failure, assignments, first, never] in ANSWERS {
        let [kind, class, phase] = split(failure).try_into().unwrap();
        let class = serde_json::from_value(class.into()).unwrap();
        let incident = incident(kind, class, phase);
        let (assignments, first) = (split(assignments), split(first));
        let all = of_the_card(rungs("0.9.1", &assignments, Some(&incident)));
        let what = format!(
            "{} in {} with {assignments:?}: {all:?}",
            incident.kind, incident.phase
        );
        assert!(
            all.len() >= first.len() && all[..first.len()] == first,
            "{what}"
        );
        for rung in never.split_whitespace() {
            assert!(
                !all.iter().any(|r| r == rung),
                "{rung} must not run: {what}"
            );
        }
    }
}

/// The reason for which a rung is passed over at the first failure.
fn reason(assignments: &[&str], facts: &ClusterFacts, incident: &Incident, rung: &str) -> String {
    let preset = verl("0.9.1");
    let layers = [diamonds(&preset), set(&preset, assignments)];
    let templates = templates();
    let only: Vec<_> = preset
        .ladder
        .iter()
        .filter(|r| r.rung == rung)
        .cloned()
        .collect();
    let footing = ClimbContext {
        ladder: &only,
        ..ClimbContext::new(&preset, facts, &templates, &layers, &[])
    };
    match climb(&footing, Some(incident)).unwrap() {
        Decision::Exhausted { skipped, .. } => {
            let of = skipped.iter().find(|s| s.rung == rung);
            of.map(|s| s.reason.clone()).unwrap()
        }
        Decision::Climb { steps, .. } => panic!("{rung} was taken: {:?}", steps[0].changes),
    }
}

#[test]
fn a_rung_that_is_passed_over_says_why() {
    let unknown = ClusterFacts::default();
    let update = incident("cuda_oom", Class::GpuOom, "actor_update");
    let mut fragmented = update.clone();
    fragmented.fragmentation = true;
    let cases = [
        (
            reason(&[], &cluster(), &update, "smaller-rollout-share"),
            "verl#2186",
        ),
        (
            reason(&[], &unknown, &update, "more-gpus"),
            "nothing says how many GPUs a node has",
        ),
        (
            reason(&["n_gpus_per_node=8"], &cluster(), &update, "more-gpus"),
            "n_gpus_per_node = 8 is at its limit",
        ),
        (
            reason(&[], &cluster(), &fragmented, "expandable-segments"),
            "clash with the memory pool of vLLM's sleep mode",
        ),
        (
            reason(
                &["param_offload=true", "optimizer_offload=true"],
                &cluster(),
                &update,
                "offload",
            ),
            "is true already",
        ),
        (
            reason(&[], &unknown, &update, "larger-gpu"),
            "lists no larger type of GPU",
        ),
    ];
    for (reason, expected) in cases {
        assert!(
            reason.contains(expected),
            "{expected:?} is not in {reason:?}"
        );
    }
}

#[test]
fn defaults_that_verl_changed_are_handed_over_in_every_version() {
    for version in VERSIONS {
        let preset = verl(version);
        let shape = shape(&preset, &[diamonds(&preset)], &ClusterFacts::default()).unwrap();
        let run = files(&preset, &shape)
            .into_iter()
            .find(|f| f.name == "run_grpo.sh")
            .unwrap()
            .text;
        for word in "rollout.enforce_eager=True rollout.max_num_seqs=256 rollout.max_model_len=2048
             model.use_remove_padding=True actor.fsdp_config.model_dtype=fp32
             ref.fsdp_config.model_dtype=bf16 rollout.name=vllm"
            .split_whitespace()
        {
            assert!(run.contains(word), "{version} lacks {word}");
        }
    }
}

#[test]
fn every_rule_names_its_source_and_explains_itself() {
    for version in VERSIONS {
        for rule in &preset("verl-grpo", Some(version)).rules {
            assert!(
                !rule.source.is_empty() && !rule.message.is_empty(),
                "{}",
                rule.name
            );
        }
    }
    let preset = verl("0.9.1");
    let layers = [
        diamonds(&preset),
        set(&preset, &["ppo_micro_batch_size_per_gpu=30"]),
    ];
    let refusal = shape(&preset, &layers, &ClusterFacts::default())
        .unwrap_err()
        .to_string();
    assert!(
        refusal.contains("320 sequences per data parallel rank (ppo_mini_batch_size × rollout.n / 4) cannot be split into micro batches of 30")
            && refusal.contains("20, 16, 10 would be legal"),
        "{refusal}"
    );
}

#[test]
fn the_memory_that_verl_reports_is_read_in_binary_gigabytes_with_and_without_numpy() {
    use oomctl::core::measure::{AttemptFigures, Overlap, Quantity};
    let log = "(TaskRunner pid=900) step:1 - perf/max_memory_allocated_gb:40.000 - perf/max_memory_reserved_gb:61.500 - \
        perf/cpu_memory_used_gb:210.250\n\
        (TaskRunner pid=900) step:2 - actor/perf/max_memory_allocated_gb:np.float64(44.5) - \
        perf/max_memory_reserved_gb:np.float64(60.25) - perf/cpu_memory_used_gb:np.float64(200.0)\n";
    let patterns = preset("verl-grpo", None).measures;
    let mut figures = AttemptFigures::new(patterns);
    figures.feed(&mut Overlap::default(), log.as_bytes());
    let peaks: Vec<(Quantity, f64)> = figures
        .peaks()
        .iter()
        .map(|f| (f.measure, f.peak_bytes.gib()))
        .collect();
    let expected = [
        (Quantity::GpuAllocated, 44.5),
        (Quantity::GpuReserved, 61.5),
        (Quantity::HostUsed, 210.25),
    ];
    assert_eq!(peaks, expected);
}
