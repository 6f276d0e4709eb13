//! Jobs that end for reasons of the machine: time, nodes, host memory, jobs of others.

use super::cluster::{Cluster, LostNode, answer, slurm, starts_soon};
use super::place::{LARGE_CARD, Place};

#[test]
fn a_job_that_reaches_its_time_limit_ends_the_run_and_says_so() {
    let Some(place) = Place::on(Cluster::Full, "time-limit") else {
        return;
    };
    let place = place
        .knob("time_limit", "'00:01:00'")
        .with(&[LARGE_CARD, ("SIM_STEP_S", "120")]);
    let told = place.submit_and_watch(&[]).expect_code(6);
    told.says("TIMEOUT");
    told.says("time limit");
    let jobs = place.one_job_per_attempt(place.run());
    assert_eq!(jobs.len(), 1);
    assert_eq!(jobs[0].state, "TIMEOUT");
    let view = place.view();
    assert_eq!(view["state"], "retries_spent");
    assert!(
        view["hint"].as_str().is_some_and(|h| !h.is_empty()),
        "{view:#}"
    );
}

#[test]
fn a_job_that_loses_its_node_is_submitted_once_more_with_the_same_configuration() {
    let Some(place) = Place::on(Cluster::Full, "node-fail") else {
        return;
    };
    place.forget_knob("exclude");
    let place = place
        .knob("requeue", "false")
        .with(&[LARGE_CARD, ("SIM_STEP_S", "9")]);
    let node = LostNode::of(&place.conf, 8);
    let pinned = format!("--sbatch={}", node.pinned());
    let watching = place.start(&["submit", "--run", place.run(), "--watch", &pinned]);
    place.until("RUNNING");
    // slurmd dies without a word; the controller notices after SlurmdTimeout.
    node.killed();
    watching.until_it_says("the same configuration, after node failure");
    node.back();
    watching.end().expect_code(0).says("succeeded");
    let jobs = place.one_job_per_attempt(place.run());
    let states: Vec<&str> = jobs.iter().map(|job| job.state.as_str()).collect();
    assert_eq!(states, ["NODE_FAIL", "COMPLETED"]);
    assert!(place.rungs().is_empty());
    let changes = format!(".oomctl/runs/{}/attempt-2/changes.diff", place.run());
    let changed = place.text(&changes);
    assert!(!changed.contains("batch_size"), "{changed}");
}

#[test]
fn a_lost_node_and_a_requeue_under_the_same_id_are_one_attempt_to_its_end() {
    let Some(place) = Place::on(Cluster::Full, "requeue") else {
        return;
    };
    place.forget_knob("exclude");
    let place = place
        .knob("requeue", "true")
        .with(&[LARGE_CARD, ("SIM_STEP_S", "3")]);
    let node = LostNode::of(&place.conf, 9);
    let pinned = format!("--sbatch={}", node.pinned());
    let watching = place.start(&["submit", "--run", place.run(), "--watch", &pinned]);
    let job = place.until("RUNNING");
    watching.until_it_says("step 1");
    node.down();
    starts_soon(&place.conf, &job);
    watching.until_it_says("restarted by the scheduler");
    node.back();
    let told = watching.end().expect_code(0);
    told.says("succeeded");
    let jobs = place.one_job_per_attempt(place.run());
    assert_eq!(jobs.len(), 1);
    assert_eq!(
        (jobs[0].id.as_str(), jobs[0].state.as_str()),
        (job.as_str(), "COMPLETED")
    );
    let line = answer(&place.conf, "scontrol", &["-o", "show", "job", &job]);
    assert!(line.contains("Restarts=1"), "{line}");
    let log = place.text(&format!("logs/slurm-{job}.err"));
    assert_eq!(
        log.matches("[simulated trainer] no GPU is used").count(),
        2,
        "both parts: {log}"
    );
}

/// A job that takes a node from those of lower priority.
fn takes_over(place: &Place, node: &str) {
    let at = format!("--nodelist={node}");
    let words = [
        "-p",
        "urgent",
        &at,
        "--gres=gpu:8",
        "-o",
        "/dev/null",
        "--wrap",
        "sleep 1",
    ];
    answer(&place.conf, "sbatch", &words);
}

#[test]
fn a_job_that_is_preempted_for_good_is_submitted_once_more_with_the_same_configuration() {
    let Some(place) = Place::on(Cluster::Full, "preempted") else {
        return;
    };
    place.forget_knob("exclude");
    let place = place
        .knob("partition", "cancel")
        // Longer than Slurm takes to see that the grace time is over: it looks every 30 s, and a job that ends by itself
        // meanwhile is called TIMEOUT.
        .with(&[LARGE_CARD, ("SIM_STEP_S", "7")]);
    let node = LostNode::of(&place.conf, 10);
    let pinned = format!("--sbatch={}", node.pinned());
    let watching = place.start(&["submit", "--run", place.run(), "--watch", &pinned]);
    place.until("RUNNING");
    takes_over(&place, &node.name);
    watching.until_it_says("the same configuration, after preemption");
    watching.end().expect_code(0).says("succeeded");
    let jobs = place.one_job_per_attempt(place.run());
    let states: Vec<&str> = jobs.iter().map(|job| job.state.as_str()).collect();
    assert_eq!(states, ["PREEMPTED", "COMPLETED"]);
    assert!(place.rungs().is_empty());
}

#[test]
fn a_job_that_is_preempted_and_put_back_is_not_submitted_as_well() {
    let Some(place) = Place::on(Cluster::Full, "preempt-requeue") else {
        return;
    };
    place.forget_knob("exclude");
    let place = place
        .knob("partition", "preempt")
        .knob("requeue", "true")
        .with(&[LARGE_CARD, ("SIM_STEP_S", "3")]);
    let node = LostNode::of(&place.conf, 11);
    let pinned = format!("--sbatch={}", node.pinned());
    let watching = place.start(&["submit", "--run", place.run(), "--watch", &pinned]);
    let job = place.until("RUNNING");
    takes_over(&place, &node.name);
    starts_soon(&place.conf, &job);
    watching.until_it_says("restarted by the scheduler");
    watching.end().expect_code(0).says("succeeded");
    let jobs = place.one_job_per_attempt(place.run());
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    assert_eq!(place.attempts().len(), 1);
}

#[test]
fn host_out_of_memory_is_answered_with_host_memory_and_never_with_the_gpu_ladder() {
    let Some(place) = Place::on(Cluster::Full, "host-oom") else {
        return;
    };
    let folder = place.file("presets/clusters");
    std::fs::create_dir_all(&folder).unwrap();
    let profile =
        "cluster: tests\nsummary: small\nfacts: { node_memory: 900M }\nknobs: { mem: 300M }\n";
    std::fs::write(folder.join("tests.yaml"), profile).unwrap();
    place.configure("cluster: tests\n");
    let place = place.with(&[
        LARGE_CARD,
        ("SIM_HOST_OOM", "1"),
        ("SIM_HOST_OOM_MIB", "600"),
        ("SIM_ONLY_ATTEMPTS", "1"),
    ]);
    let told = place.submit_and_watch(&[]).expect_code(0);
    told.says("more-host-memory");
    let jobs = place.one_job_per_attempt(place.run());
    assert_eq!(jobs.len(), 2);
    assert!(
        matches!(jobs[0].state.as_str(), "OUT_OF_MEMORY" | "FAILED"),
        "{jobs:?}"
    );
    assert_eq!(jobs[1].state, "COMPLETED");
    assert_eq!(place.rungs(), ["more-host-memory"]);
    let first = &place.attempts()[0];
    assert_eq!(first["incident"]["class"], "host_oom", "{first:#}");
    let changes = place.text(&format!(
        ".oomctl/runs/{}/attempt-2/changes.diff",
        place.run()
    ));
    assert!(
        changes.contains("-#SBATCH --mem=300M") && changes.contains("+#SBATCH --mem=600M"),
        "{changes}"
    );
    assert!(
        !changes.contains("batch_size") && !changes.contains("offload"),
        "{changes}"
    );
}

#[test]
fn a_failure_that_is_not_memory_is_not_submitted_again() {
    let Some(place) = Place::on(Cluster::Full, "key-error") else {
        return;
    };
    let place = place.with(&[LARGE_CARD, ("SIM_FAIL_AT_STEP", "2")]);
    let told = place.submit_and_watch(&[]).expect_code(1);
    told.says("KeyError: 'old_log_probs'");
    assert_eq!(place.one_job_per_attempt(place.run()).len(), 1);
    let left = slurm(&place.conf, "squeue", &["-h", "-o", "%j"]);
    assert!(!String::from_utf8_lossy(&left.stdout).contains(place.run()));
}

#[test]
fn ranks_that_hang_after_an_out_of_memory_do_not_hold_the_gpus() {
    let Some(place) = Place::on(Cluster::Full, "hang") else {
        return;
    };
    let place = place.with(&[("SIM_HANG_S", "600"), ("SIM_ONLY_ATTEMPTS", "1")]);
    let told = place.submit_and_watch(&[]).expect_code(0);
    told.says("hangs:");
    let jobs = place.one_job_per_attempt(place.run());
    assert!(jobs.len() >= 2);
    assert!(jobs[0].state.starts_with("CANCELLED"), "{jobs:?}");
    assert!(!place.rungs().is_empty());
}
