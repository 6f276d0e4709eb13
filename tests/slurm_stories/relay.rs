//! Supervision by small jobs that take turns: nobody watches on the login node.

use super::cluster::{Cluster, answer, slurm, undisturbed, wait_for};
use super::place::Place;

/// Ids of the watch jobs of a story that are not over.
fn watch_jobs(place: &Place) -> Vec<String> {
    let name = format!("oomctl-watch-{}", place.run());
    let queue = answer(&place.conf, "squeue", &["-h", "-o", "%i %j"]);
    let ours = queue.lines().filter_map(|line| line.split_once(' '));
    ours.filter(|(_, of)| *of == name)
        .map(|(id, _)| id.to_owned())
        .collect()
}

fn succeeds(place: &Place) {
    wait_for(280, "the run succeeds", || {
        (place.view()["state"] == "succeeded").then_some(())
    });
}

#[test]
fn a_run_goes_through_its_ladder_with_no_process_on_the_login_node() {
    let Some(place) = Place::on(Cluster::Full, "relay") else {
        return;
    };
    let _undisturbed = undisturbed();
    let told = place
        .submit(&["--dataset", "diamonds-seed0", "--supervise", "job"])
        .expect_code(0);
    told.says("watched by job");
    succeeds(&place);
    assert!(place.one_job_per_attempt(place.run()).len() >= 3);
    wait_for(30, "no watch job is left", || {
        watch_jobs(&place).is_empty().then_some(())
    });
}

#[test]
fn a_turn_that_is_killed_or_doubled_neither_ends_the_watch_nor_submits_twice() {
    let Some(place) = Place::on(Cluster::Full, "relay-killed") else {
        return;
    };
    let _undisturbed = undisturbed();
    let place = place.set("SIM_START_S", "1");
    place
        .submit(&["--dataset", "diamonds-seed0", "--supervise", "job"])
        .expect_code(0);
    let noted = place.file(&format!(".oomctl/runs/{}/watch-turn.json", place.run()));
    wait_for(60, "a turn has begun", || {
        let text = std::fs::read_to_string(&noted).ok()?;
        let turn: serde_json::Value = serde_json::from_str(&text).ok()?;
        let words = ["--signal=KILL", "--full", turn["job"].as_str()?];
        slurm(&place.conf, "scancel", &words)
            .status
            .success()
            .then_some(())
    });
    // As if its first job had been sent twice.
    let again = place.oomctl(&["watch", place.run(), "--turn", "1"]);
    again.expect_code(0).says("taken by another job");
    succeeds(&place);
    assert!(place.one_job_per_attempt(place.run()).len() >= 3);
    wait_for(120, "no watch job is left", || {
        watch_jobs(&place).is_empty().then_some(())
    });
}
