//! How jobs end in Flux, and what follows.

use super::instance::Instance;
use super::place::{LARGE_CARD, Place, wait_for};
use oomctl_base::word_list;

#[test]
fn a_job_that_runs_out_of_memory_is_submitted_with_less_until_it_fits() {
    let Some(flux) = Instance::shared() else {
        return;
    };
    let place = Place::beside(flux, "ladder");
    let told = place.submit(&["--watch"]).expect_code(0);
    told.says("succeeded");
    let jobs = place.one_job_per_attempt();
    let statuses: Vec<&str> = jobs.iter().map(|job| job.status.as_str()).collect();
    assert_eq!(statuses, ["FAILED", "FAILED", "COMPLETED"]);
    let attempts = place.view()["attempts"].clone();
    let class = |at: usize| attempts[at]["incident"]["class"].clone();
    assert_eq!([class(0), class(1)], ["gpu_oom", "gpu_oom"]);
}

#[test]
fn a_request_that_no_node_can_satisfy_is_refused_with_fluxs_reason() {
    let Some(flux) = Instance::shared() else {
        return;
    };
    let place = Place::beside(flux, "refused");
    let words = word_list::<8>(
        "--set n_gpus_per_node=9 --set tensor_model_parallel_size=1 --set train_batch_size=1152
         --set ppo_mini_batch_size=288",
    );
    let told = place.submit(&words).expect_code(4);
    told.says("unsatisfiable request");
    told.says("flux resource list");
    let view = place.view();
    assert_eq!(view["state"], "refused");
    assert!(view["attempts"][0]["job"].is_null());
    // Who looks again finds the trace of the refusal, and submits nothing.
    place.oomctl(&["watch", place.run()]).expect_code(4);
}

#[test]
fn an_unknown_queue_is_refused_before_there_is_a_job() {
    let Some(flux) = Instance::shared() else {
        return;
    };
    let place = Place::beside(flux, "queue");
    let told = place.submit(&["--set", "partition=nope"]).expect_code(4);
    told.says("'nope' is not a valid queue");
    told.says("flux queue list");
    assert!(place.one_job_per_attempt().is_empty());
}

#[test]
fn what_flux_has_no_counterpart_for_is_refused_by_its_name() {
    let Some(flux) = Instance::shared() else {
        return;
    };
    let place = Place::beside(flux, "counterpart");
    let told = place.submit(&["--set", "mem=64G"]).expect_code(4);
    told.says("--mem=65536M in line 5 has no counterpart in Flux");
    assert!(place.one_job_per_attempt().is_empty());
}

#[test]
fn a_cancelled_run_cancels_its_job() {
    let Some(flux) = Instance::shared() else {
        return;
    };
    let place = Place::beside(flux, "cancel").with(&[LARGE_CARD, ("SIM_STEP_S", "60")]);
    place.submit(&[]).expect_code(0);
    let watching = place.start(&["watch", place.run()]);
    place.until("RUNNING");
    place
        .oomctl(&["cancel", place.run(), "--yes"])
        .expect_code(0);
    watching.end();
    assert_eq!(place.view()["state"], "cancelled");
    assert_eq!(place.one_job_per_attempt()[0].status, "CANCELED");
}

#[test]
fn a_job_that_reaches_its_time_limit_ends_the_run_and_says_so() {
    let Some(flux) = Instance::shared() else {
        return;
    };
    let place = Place::beside(flux, "limit").with(&[LARGE_CARD, ("SIM_STEP_S", "600")]);
    let told = place
        .submit(&["--watch", "--set", "time_limit=00:00:20"])
        .expect_code(6);
    told.says("TIMEOUT");
    let jobs = place.one_job_per_attempt();
    assert_eq!(jobs[0].status, "TIMEOUT");
}

#[test]
fn a_job_that_loses_its_node_is_submitted_once_more_with_the_same_configuration() {
    let Some(flux) = Instance::start() else {
        return;
    };
    let place = Place::beside(&flux, "node").with(&[LARGE_CARD, ("SIM_STEP_S", "5")]);
    // The simple scheduler fills the nodes from the first on: a job that takes all of it leaves the second.
    let first = [
        "submit",
        "-N1",
        "-n1",
        "-c8",
        "--requires=rank:0",
        "sleep",
        "inf",
    ];
    let holder = flux.answer(&first);
    let watching = place.start(&["submit", "--run", place.run(), "--watch"]);
    watching.until_it_says("step 1");
    flux.loses("1");
    flux.answer(&["cancel", holder.trim()]);
    watching.until_it_says("the same configuration, after node failure");
    watching.end().expect_code(0).says("succeeded");
    let statuses = place.one_job_per_attempt();
    let statuses: Vec<&str> = statuses.iter().map(|job| job.status.as_str()).collect();
    assert_eq!(statuses, ["FAILED", "COMPLETED"]);
    wait_for("the first attempt says why", || {
        (place.view()["attempts"][0]["state"] == "NODE_FAIL").then_some(())
    });
}
