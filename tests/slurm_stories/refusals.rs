//! Submissions that Slurm refuses: its reason, the next step, and nothing changed.

use std::fs;

use super::cluster::Cluster;
use super::place::Place;

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
    let words = [
        "--set",
        "n_gpus_per_node=9",
        "--set",
        "tensor_model_parallel_size=1",
        "--set",
        "train_batch_size=1152",
        "--set",
        "ppo_mini_batch_size=288",
    ];
    refused("gpus", &words, reason, "%G");
}

#[test]
fn a_limit_of_a_quality_of_service_is_refused_with_slurms_reason() {
    let words = ["--sbatch=--qos=small", "--set", "n_gpus_per_node=8"];
    refused("qos", &words, "QOSMaxGRESPerJob", "fewer GPUs");
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
