//! Scripts of the user's own: submitted by us, or with plain sbatch and taken over by the id of the job.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::cluster::{Cluster, answer, lost_nodes, program, starts_soon, wait_for};
use super::place::{LARGE_CARD, Place};

/// What the user calls from the job script.
const LAUNCHER: &str = "#!/bin/bash
# my launcher
cd \"$(dirname \"$0\")\"
python3 -m verl.trainer.main_ppo \\
  data.train_batch_size=256 \\
  data.max_prompt_length=1024 data.max_response_length=8192 \\
  actor_rollout_ref.actor.ppo_mini_batch_size=64 \\
  actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8 \\
  actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct algorithm.adv_estimator=grpo \\
  actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=8 \\
  actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8 \\
  actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.tensor_model_parallel_size=1 \\
  actor_rollout_ref.rollout.n=8 trainer.n_gpus_per_node=4 trainer.nnodes=1 \\
  actor_rollout_ref.rollout.gpu_memory_utilization=0.6 \\
  trainer.experiment_name=$1   # the data set
";

/// In place of the framework: the example's simulated trainer.
const TRAINER: &str = "import os, sys
sys.path.insert(0, os.getcwd())
import simulated_trainer
sys.exit(simulated_trainer.main(sys.argv[1:], os.environ))
";

fn job_script(further: &str) -> String {
    format!(
        "#!/bin/bash
#SBATCH --job-name=gems
#SBATCH --output=out/%x-%A_%a_%j.log
#SBATCH --gres=gpu:4
#SBATCH --mem=600M
#SBATCH --exclude={lost}
{further}set -euo pipefail
echo \"name $SLURM_JOB_NAME task ${{SLURM_ARRAY_TASK_ID:-none}}\"
bash run_grpo.sh \"$1\"
",
        lost = lost_nodes()
    )
}

pub fn place(story: &str, further: &str) -> Option<Place> {
    let place = Place::on(Cluster::Full, story)?;
    fs::create_dir_all(place.file("verl/trainer")).unwrap();
    fs::create_dir_all(place.file("out")).unwrap();
    fs::write(place.file("verl/trainer/main_ppo.py"), TRAINER).unwrap();
    fs::write(place.file("run_grpo.sh"), LAUNCHER).unwrap();
    fs::write(place.file("job.slurm"), job_script(further)).unwrap();
    Some(place.with(&[("SIM_GPU_GIB", "56")]))
}

/// Plain sbatch, as the user calls it.
pub fn sbatch(place: &Place, words: &[&str]) -> String {
    let output = Command::new(program("sbatch"))
        .arg("--parsable")
        .args(words)
        .current_dir(place.file(""))
        .env_clear()
        .envs(place.environment())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

pub fn state(place: &Place, id: &str) -> String {
    let text = answer(&place.conf, "scontrol", &["-o", "show", "job", id]);
    let state = text.split(' ').find_map(|f| f.strip_prefix("JobState="));
    state.unwrap_or_default().to_owned()
}

pub fn ended(place: &Place, id: &str, wanted: &str) {
    wait_for(&format!("job {id} is {wanted}"), || {
        (state(place, id) == wanted).then_some(())
    });
}

/// What a later attempt was asked to be, in Slurm's words.
fn asked(place: &Place, id: &str) -> String {
    answer(&place.conf, "scontrol", &["-o", "show", "job", id])
}

#[test]
fn a_script_of_the_users_own_is_submitted_as_it_is_and_again_with_the_smallest_patch() {
    let Some(place) = place("own-script", "") else {
        return;
    };
    let words = ["--yes", "--sbatch=--time=20", "job.slurm", "diamonds-seed0"];
    place.submit_and_watch(&words).expect_code(0);
    let attempts = place.attempts();
    assert!(attempts.len() >= 2, "{attempts:?}");
    let run = format!(".oomctl/runs/{}", place.run());
    let first = place.text(&format!("{run}/attempt-1/job.slurm"));
    let (before, after) = (job_script(""), first);
    let added: Vec<&str> = after.lines().filter(|l| !before.contains(l)).collect();
    assert_eq!(added.len(), 1, "one line of ours: {added:?}");
    assert!(added[0].contains("claim.sh"));
    let last = attempts.len();
    let launcher = place.text(&format!("{run}/attempt-{last}/run_grpo.sh"));
    assert!(launcher.contains("# my launcher\n") && launcher.contains("   # the data set\n"));
    assert!(
        !launcher.contains("micro_batch_size_per_gpu=8 "),
        "{launcher}"
    );
    assert_eq!(place.text("job.slurm"), job_script(""));
    assert_eq!(place.text("run_grpo.sh"), LAUNCHER);
    let patch = place.text(&format!("{run}/attempt-{last}/patch.diff"));
    assert!(
        patch.contains("-bash run_grpo.sh") && patch.contains("attempt-"),
        "{patch}"
    );
    for attempt in &attempts {
        let id = attempt["job"].as_str().unwrap();
        let log = place.text(&format!("out/gems-{id}_4294967294_{id}.log"));
        assert!(log.contains("name gems task none"), "{log}");
        let told = asked(&place, id);
        assert!(told.contains("TimeLimit=00:20:00"), "{told}");
        // Offload takes host memory, as much as a node has.
        let memory = ["MinMemoryNode=600M", "MinMemoryNode=62.50G"];
        assert!(memory.iter().any(|m| told.contains(m)), "{told}");
        let folder = place.file("").canonicalize().unwrap();
        assert!(
            told.contains(&format!("WorkDir={}", folder.display())),
            "{told}"
        );
    }
}

#[test]
fn a_job_of_plain_sbatch_is_taken_over_by_its_id_patched_and_succeeds() {
    let Some(place) = place("taken-over", "") else {
        return;
    };
    let id = sbatch(&place, &["--time=20", "job.slurm", "diamonds-seed0"]);
    ended(&place, &id, "FAILED");
    let told = place.oomctl(&["watch", &id]).expect_code(2);
    told.says("no terminal to ask");
    let told = place.oomctl(&["watch", "--yes", &id]).expect_code(0);
    told.says("recognised as verl-grpo");
    let run = format!("job-{id}");
    let attempts = place.attempts_of(&run);
    assert!(attempts.len() >= 2, "{attempts:?}");
    assert_eq!(attempts[0]["job"], id.as_str());
    let second = attempts[1]["job"].as_str().unwrap();
    assert!(asked(&place, second).contains("TimeLimit=00:20:00"));
    let patch = place.text(&format!(".oomctl/runs/{run}/attempt-2/patch.diff"));
    assert!(patch.contains("a/run_grpo.sh"), "{patch}");
    // Known by its first job from now on, and never taken over twice.
    place.oomctl(&["watch", &id]).expect_code(0);
}

#[test]
fn a_job_that_may_have_got_values_from_its_environment_is_watched_and_not_submitted_again() {
    let Some(place) = place("its-environment", "") else {
        return;
    };
    let reads = LAUNCHER.replace("batch_size=256", "batch_size=${BS:-256}");
    fs::write(place.file("run_grpo.sh"), reads).unwrap();
    let id = sbatch(&place, &["job.slurm", "diamonds-seed0"]);
    ended(&place, &id, "FAILED");
    let told = place.oomctl(&["watch", "--yes", &id]).expect_code(1);
    told.says(&format!("`BS=256 oomctl watch {id}`"));
    assert_eq!(place.attempts_of(&format!("job-{id}")).len(), 1);
    let place = place.with(&[("BS", "256")]);
    let id = sbatch(&place, &["job.slurm", "diamonds-seed0"]);
    ended(&place, &id, "FAILED");
    place.oomctl(&["watch", "--yes", &id]).expect_code(0);
    assert!(place.attempts_of(&format!("job-{id}")).len() >= 2);
}

#[test]
fn a_job_whose_script_was_deleted_is_taken_over_with_what_slurm_has() {
    let Some(place) = place("deleted", "") else {
        return;
    };
    let id = sbatch(&place, &["job.slurm", "diamonds-seed0"]);
    fs::remove_file(place.file("job.slurm")).unwrap();
    ended(&place, &id, "FAILED");
    place.oomctl(&["watch", "--yes", &id]).expect_code(0);
    let attempts = place.attempts_of(&format!("job-{id}"));
    assert!(attempts.len() >= 2, "{attempts:?}");
}

#[test]
fn a_requeued_job_is_followed_through_its_second_life() {
    let Some(place) = place(
        "requeued",
        "#SBATCH --requeue\n[ -e begun ] || { touch begun; sleep 600; }\n",
    ) else {
        return;
    };
    let id = sbatch(&place, &["job.slurm", "diamonds-seed0"]);
    // It must have begun its first life, or the second would sleep.
    wait_for("the script runs", || {
        place.file("begun").exists().then_some(())
    });
    answer(&place.conf, "scontrol", &["requeue", &id]);
    let watch = place.start(&["watch", "--yes", &id]);
    starts_soon(&place.conf, &id);
    let told = watch.end().expect_code(0);
    let attempts = place.attempts_of(&format!("job-{id}"));
    assert!(attempts.len() >= 2, "{attempts:?}\n{}", told.stderr);
    assert_eq!(attempts[0]["job"], id.as_str());
}

#[test]
fn a_task_of_an_array_is_a_run_of_its_own_and_is_submitted_alone_with_its_index() {
    let Some(place) = place("array-task", "#SBATCH --array=2-3\n") else {
        return;
    };
    let array = sbatch(&place, &["job.slurm", "diamonds-seed0"]);
    let task = format!("{array}_3");
    ended(&place, &task, "FAILED");
    place.oomctl(&["watch", "--yes", &task]).expect_code(0);
    let run = format!("job-{task}");
    let attempts = place.attempts_of(&run);
    assert!(attempts.len() >= 2, "{attempts:?}");
    let last = attempts.len();
    let log = place.text(&format!(".oomctl/runs/{run}/attempt-{last}/slurm.out"));
    assert!(log.contains("name gems task 3"), "{log}");
}

#[test]
fn a_lab_mate_sees_that_a_job_runs_and_not_the_state_that_was_last_written_down() {
    let Some(place) = Place::on(Cluster::Full, "looked-at") else {
        return;
    };
    let place = place.with(&[LARGE_CARD, ("SIM_STEP_S", "9")]);
    place.oomctl(&["init", "--group"]).expect_code(0);
    // Nobody watches: the ledger ends with the submission.
    place.submit(&[]).expect_code(0);
    place.until("RUNNING");
    fs::set_permissions(place.file(""), fs::Permissions::from_mode(0o755)).unwrap();
    let look = |words: &[&str]| {
        let mut command = place.command(words);
        command.uid(65_534).gid(rustix::process::getegid().as_raw());
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let status = look(&["status", place.run()]);
    assert!(status.contains("RUNNING"), "{status}");
    let all = look(&["status", "--all", "-o", "user,run,state", "--noheader"]);
    let row = format!("root  {}  running\n", place.run());
    assert_eq!(all, row);
    place.oomctl(&["cancel", place.run()]).expect_code(0);
}
