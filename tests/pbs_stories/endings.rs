//! How jobs end in PBS, and what follows.

use super::place::{LARGE_CARD, Place};
use super::server::Server;

#[test]
fn a_job_that_runs_out_of_memory_is_submitted_with_less_until_it_fits() {
    let Some(server) = Server::here() else { return };
    let place = Place::beside(&server, "ladder");
    let told = place.submit(&["--watch"]).expect_code(0);
    told.says("succeeded");
    let jobs = place.one_job_per_attempt();
    let statuses: Vec<&str> = jobs.iter().map(|job| job.status.as_str()).collect();
    assert_eq!(statuses, ["F 1 93", "F 1 93", "F 0 92"]);
    let attempts = place.view()["attempts"].clone();
    let class = |at: usize| attempts[at]["incident"]["class"].clone();
    assert_eq!([class(0), class(1)], ["gpu_oom", "gpu_oom"]);
}

#[test]
fn an_unknown_queue_is_refused_before_there_is_a_job() {
    let Some(server) = Server::here() else { return };
    let place = Place::beside(&server, "queue");
    let told = place.submit(&["--set", "partition=nope"]).expect_code(4);
    told.says("Unknown queue");
    told.says("qstat -Q");
    assert_eq!(place.view()["state"], "refused");
    assert!(place.one_job_per_attempt().is_empty());
}

#[test]
fn what_pbs_has_no_counterpart_for_is_refused_by_its_name() {
    let Some(server) = Server::here() else { return };
    let place = Place::beside(&server, "counterpart");
    let told = place.submit(&["--set", "qos=high"]).expect_code(4);
    told.says("--qos=high in line 2 has no counterpart in PBS");
    assert!(place.one_job_per_attempt().is_empty());
}

#[test]
fn a_request_that_no_node_can_satisfy_waits_and_says_so() {
    let Some(server) = Server::here() else { return };
    let place = Place::beside(&server, "never");
    let words = "--watch --set n_gpus_per_node=9 --set tensor_model_parallel_size=1 --set train_batch_size=1152
         --set ppo_mini_batch_size=288";
    let words: Vec<&str> = words.split_whitespace().collect();
    let watching = place.start(&[&["submit", "--run", place.run()], words.as_slice()].concat());
    watching
        .until_it_says("Can Never Run: Insufficient amount of resource: ngpus (R: 9 A: 8 T: 8)");
    place
        .oomctl(&["cancel", place.run(), "--yes"])
        .expect_code(0);
    watching.end();
}

#[test]
fn a_cancelled_run_cancels_its_job() {
    let Some(server) = Server::here() else { return };
    let place = Place::beside(&server, "cancel").with(&[LARGE_CARD, ("SIM_STEP_S", "60")]);
    place.submit(&[]).expect_code(0);
    let watching = place.start(&["watch", place.run()]);
    place.until("RUNNING");
    place
        .oomctl(&["cancel", place.run(), "--yes"])
        .expect_code(0);
    watching.end();
    assert_eq!(place.view()["state"], "cancelled");
    let status = &place.one_job_per_attempt()[0].status;
    assert!(status.ends_with(" 91"), "terminated: {status}");
}

#[test]
fn a_job_that_reaches_its_time_limit_ends_the_run_and_says_so() {
    let Some(server) = Server::here() else { return };
    let place = Place::beside(&server, "limit").with(&[LARGE_CARD, ("SIM_STEP_S", "600")]);
    let told = place
        .submit(&["--watch", "--set", "time_limit=00:00:20"])
        .expect_code(6);
    told.says("TIMEOUT");
    assert_eq!(place.one_job_per_attempt()[0].status, "F -29 93");
}

#[test]
fn a_job_that_exceeds_its_host_memory_is_known_by_pbss_word_for_it() {
    let Some(server) = Server::here() else { return };
    let place = Place::beside(&server, "memory");
    place.write(
        "job.sh",
        "#!/bin/bash\n#PBS -l select=1:ncpus=1:mem=50mb\npython3 -c 'x = b\"1\" * 300000000; import time; time.sleep(60)'\n",
    );
    place.submit(&["--yes", "--watch", "job.sh"]);
    let jobs = place.one_job_per_attempt();
    assert!(jobs[0].status.starts_with("F -27 "), "{jobs:?}");
    let attempt = place.view()["attempts"][0].clone();
    assert_eq!(attempt["state"], "OUT_OF_MEMORY");
    assert_eq!(attempt["incident"]["class"], "host_oom");
}

#[test]
fn a_job_that_loses_its_node_goes_back_to_the_queue_and_runs_again() {
    let Some(server) = Server::here() else { return };
    let place = Place::beside(&server, "node").with(&[LARGE_CARD, ("SIM_STEP_S", "5")]);
    let watching = place.start(&["submit", "--run", place.run(), "--watch"]);
    watching.until_it_says("step 1");
    server.node("lose");
    place.until("PENDING");
    server.node("return");
    watching.end().expect_code(0).says("succeeded");
    assert_eq!(place.one_job_per_attempt()[0].status, "F 0 92");
}

#[test]
fn a_job_that_may_not_go_back_and_loses_its_node_is_submitted_once_more() {
    let Some(server) = Server::here() else { return };
    let place = Place::beside(&server, "once").with(&[LARGE_CARD, ("SIM_STEP_S", "5")]);
    let words = [
        "submit",
        "--run",
        place.run(),
        "--watch",
        "--set",
        "requeue=false",
    ];
    let watching = place.start(&words);
    watching.until_it_says("step 1");
    server.node("lose");
    watching.until_it_says("the same configuration, after node failure");
    server.node("return");
    watching.end().expect_code(0).says("succeeded");
    let jobs = place.one_job_per_attempt();
    let statuses: Vec<&str> = jobs.iter().map(|job| job.status.as_str()).collect();
    assert_eq!(statuses, ["F -20 93", "F 0 92"]);
}
