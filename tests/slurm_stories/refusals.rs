//! Submissions that Slurm refuses: its reason, the next step, and nothing changed.

use std::fs;

use super::cluster::{Cluster, answer, slurm};
use super::place::{LARGE_CARD, Place};
use oomctl_base::word_list;

/// A refused first submission: Slurm's words, a hint, exit code 4, the run on record, and the
/// project untouched.
fn refused(story: &str, words: &[&str], reason: &str, next: &str) {
    let Some(place) = Place::on(Cluster::Full, story) else {
        return;
    };
    let before = place.text("oomctl.yaml");
    let told = place.submit(words).expect_code(4);
    told.says(reason);
    told.says(next);
    assert_eq!(told.stdout.trim(), "", "no job id");
    assert_eq!(place.text("oomctl.yaml"), before);
    let view = place.view();
    assert_eq!(view["state"], "refused");
    assert!(
        view["reason"].as_str().unwrap().contains(reason),
        "{view:#}"
    );
    assert!(view["hint"].as_str().unwrap().contains(next), "{view:#}");
    assert_eq!(view["attempts"].as_array().unwrap().len(), 1);
    assert!(view["attempts"][0]["job"].is_null());
    let again = place.watch().expect_code(4);
    assert_eq!(
        place.tokens(place.run()).len(),
        1,
        "not submitted again: {}",
        again.stderr
    );
}

#[test]
fn an_unknown_partition_is_refused_with_slurms_reason() {
    let (reason, next) = ("Invalid partition name specified", "sinfo -s");
    refused("partition", &["--set", "partition=nope"], reason, next);
}

#[test]
fn more_gpus_than_a_node_has_are_refused_with_slurms_reason() {
    let reason = "Requested node configuration is not available";
    let words = word_list::<8>(
        "--set n_gpus_per_node=9 --set tensor_model_parallel_size=1 --set train_batch_size=1152
         --set ppo_mini_batch_size=288",
    );
    refused("gpus", &words, reason, "%G");
}

#[test]
fn a_limit_of_a_quality_of_service_is_refused_with_slurms_reason() {
    let words = ["--sbatch=--qos=small", "--set", "n_gpus_per_node=8"];
    refused("qos", &words, "QOSMaxGRESPerJob", "fewer GPUs");
}

#[test]
fn a_full_queue_is_waited_out_and_told_of() {
    let Some(place) = Place::on(Cluster::Full, "queue-full") else {
        return;
    };
    place.reconfigure("supervision: { ", "supervision: { refused_pause: 1s, ");
    // The other stories leave this QOS alone: two jobs of it are all that its user may have in the queue.
    let held = word_list::<7>("--parsable --hold --qos=two -o /dev/null --wrap true");
    let first = answer(&place.conf, "sbatch", &held);
    let second = answer(&place.conf, "sbatch", &held);
    let place = place.with(&[LARGE_CARD]);
    // Who does not stay is told, and has no job.
    let told = place.submit(&["--sbatch=--qos=two"]).expect_code(4);
    told.says("QOSMaxSubmitJobPerUserLimit");
    told.says("`oomctl watch");
    assert_eq!(place.view()["state"], "refused_for_now");
    let watching = place.start(&["watch", place.run()]);
    watching.until_it_says("submitted again in 2 s");
    slurm(&place.conf, "scancel", &[first.trim()]);
    watching.end().expect_code(0);
    slurm(&place.conf, "scancel", &[second.trim()]);
    assert_eq!(place.one_job_per_attempt(place.run()).len(), 1);
    assert_eq!(place.tokens(place.run()).len(), 1);
}

#[test]
fn a_job_that_never_starts_ends_with_the_limit_that_it_breaks() {
    let Some(place) = Place::on(Cluster::Full, "never-starts") else {
        return;
    };
    place.reconfigure("supervision: { ", "supervision: { never_starts: 2s, ");
    // The partition allows four hours.
    let words = ["--sbatch=--partition=debug", "--sbatch=--time=5:00:00"];
    let told = place.submit_and_watch(&words).expect_code(4);
    told.says("PartitionTimeLimit");
    assert_eq!(place.view()["state"], "refused");
    let jobs = place.one_job_per_attempt(place.run());
    assert!(jobs[0].state.starts_with("CANCELLED"), "{jobs:?}");
}

#[test]
fn an_unknown_account_is_refused_with_slurms_reason() {
    let reason = "Invalid account or account/partition combination specified";
    refused("account", &["--set", "account=nobody"], reason, "sacctmgr");
}

#[test]
fn a_refused_rung_ends_the_run_and_leaves_the_attempt_before_it_as_it_was() {
    let Some(place) = Place::on(Cluster::Full, "refused-rung") else {
        return;
    };
    let folder = place.file("presets/clusters");
    fs::create_dir_all(&folder).unwrap();
    let profile =
        "cluster: tests\nsummary: says more than there is\nfacts: { gpus_per_node: 16 }\n";
    fs::write(folder.join("tests.yaml"), profile).unwrap();
    place.configure("cluster: tests\nladder: [more-gpus]\n");
    let before = place.text("oomctl.yaml");
    let place = place.knob("n_gpus_per_node", "8").set("SIM_GPU_GIB", "30");
    let told = place.submit_and_watch(&[]).expect_code(4);
    told.says("Requested node configuration is not available");
    told.says("more-gpus");
    let view = place.view();
    let attempts = view["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 2);
    assert!(attempts[1]["job"].is_null());
    let first = place.text(&format!(
        ".oomctl/runs/{}/attempt-1/job.sbatch",
        place.run()
    ));
    assert!(first.contains("--gres=gpu:8"), "{first}");
    assert_eq!(
        place.text("oomctl.yaml"),
        before.replacen("knobs:\n", "knobs:\n  n_gpus_per_node: 8\n", 1)
    );
}
