//! A controller that is gone, one that does not answer, and a cluster that keeps no accounts.

use super::cluster::{Cluster, Daemons, answer, program};
use super::place::{LARGE_CARD, LATE_OOM, Place};

#[test]
fn a_controller_that_stops_in_the_middle_costs_nothing() {
    let Some(place) = Place::on(Cluster::Outages, "stopped") else {
        return;
    };
    let place = place.with(&LATE_OOM);
    let daemons = Daemons::taken();
    let watching = place.start(&["submit", "--run", place.run(), "--watch"]);
    place.until("RUNNING");
    daemons.does(&["stop", "slurmctld"]);
    watching.until_it_says("trouble:");
    daemons.does(&["start", "slurmctld"]);
    watching.until_it_says("the scheduler answers again");
    drop(daemons);
    let told = watching.end().expect_code(0);
    told.says("Unable to contact slurm controller");
    told.says("ran out of memory");
    let jobs = place.one_job_per_attempt(place.run());
    assert_eq!(jobs.len(), 2, "{jobs:?}");
}

#[test]
fn a_submission_that_got_no_answer_is_adopted_and_not_repeated() {
    let Some(place) = Place::on(Cluster::Outages, "frozen") else {
        return;
    };
    let place = place.with(&[LARGE_CARD]);
    let daemons = Daemons::taken();
    daemons.does(&["pause", "slurmctld"]);
    let watching = place.start(&["submit", "--run", place.run(), "--watch"]);
    watching.until_it_says("unclear:");
    daemons.does(&["resume", "slurmctld"]);
    let told = watching.end().expect_code(0);
    drop(daemons);
    told.says("Socket timed out on send/recv operation");
    told.says("found again by its token");
    let jobs = place.one_job_per_attempt(place.run());
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    assert_eq!(place.attempts()[0]["adopted"], true);
}

#[test]
fn a_cluster_without_accounting_tells_the_whole_story() {
    let Some(place) = Place::on(Cluster::Plain, "plain") else {
        return;
    };
    let probe = || -> u64 {
        let id = answer(
            &place.conf,
            "sbatch",
            &["--parsable", "-o", "/dev/null", "--wrap", "true"],
        );
        id.trim().parse().unwrap()
    };
    let before = probe();
    let told = place.submit_and_watch(&[]).expect_code(0);
    told.says("ran out of memory in actor_update");
    let after = probe();
    let attempts = place.attempts();
    assert!(attempts.len() >= 3);
    assert_eq!(
        after - before - 1,
        attempts.len() as u64,
        "one job for each attempt"
    );
    assert_eq!(attempts.last().unwrap()["state"], "COMPLETED");
    assert_eq!(attempts[0]["exit"], "1:0");
}

#[test]
fn accounting_that_stops_in_the_middle_costs_nothing() {
    let Some(place) = Place::on(Cluster::Outages, "no-accounts") else {
        return;
    };
    let place = place.with(&[
        LARGE_CARD,
        ("SIM_OOM_AT_STEP", "3"),
        ("SIM_ONLY_ATTEMPTS", "1"),
    ]);
    let daemons = Daemons::taken();
    daemons.does(&["stop", "slurmdbd"]);
    let told = place.submit_and_watch(&[]);
    daemons.does(&["start", "slurmdbd"]);
    drop(daemons);
    told.expect_code(0).says("ran out of memory");
    let jobs = place.one_job_per_attempt(place.run());
    assert_eq!(jobs.len(), 2, "{jobs:?}");
}

#[test]
fn a_submission_that_arrives_after_its_deadline_is_adopted_and_not_repeated() {
    let Some(place) = Place::on(Cluster::Full, "late-sbatch") else {
        return;
    };
    // Longer than anybody waits for sbatch; what it was to hand over arrives all the same, a little later.
    let late = format!(
        "#!/bin/sh\nsetsid sh -c 'sleep 65; exec {} \"$@\"' late \"$@\" >/dev/null 2>&1 &\nsleep 600\n",
        program("sbatch").display()
    );
    let place = place.wrapping("sbatch", &late).with(&[LARGE_CARD]);
    place.reconfigure("settle: 4s", "settle: 30s");
    let told = place.submit_and_watch(&[]).expect_code(0);
    told.says("unclear:");
    told.says("found again by its token");
    let jobs = place.one_job_per_attempt(place.run());
    assert_eq!(jobs.len(), 1, "{jobs:?}");
}
