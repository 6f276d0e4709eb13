//! The pipelines of `examples/ci`, whose script runs here as CI systems run it.

use std::path::Path;
use std::process::{Command, Stdio};

use super::cluster::{Cluster, answer, wait_for};
use super::place::{LARGE_CARD, Place};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/ci/train.sh");

/// The script of the example with these words.
fn script(place: &Place, words: &[&str]) -> Command {
    let folder = Path::new(env!("CARGO_BIN_EXE_oomctl")).parent().unwrap();
    let path = &place.environment()["PATH"];
    let mut command = Command::new(SCRIPT);
    command
        .args(words)
        .current_dir(place.file("."))
        .env_clear()
        .envs(place.environment())
        .env("PATH", format!("{}:{path}", folder.display()))
        .stdin(Stdio::null());
    command
}

/// The value of a variable of the dotenv report.
fn variable(place: &Place, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(place.file("oomctl.env")).ok()?;
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs
        .filter(|(k, _)| *k == name)
        .map(|(_, v)| v.to_owned())
        .next()
}

#[test]
fn a_pipeline_that_is_killed_is_gone_on_with_by_the_next_and_reports_what_slurm_says() {
    let Some(place) = Place::on(Cluster::Full, "pipeline") else {
        return;
    };
    let place = place.set("SIM_START_S", "2");
    let words = [place.run(), "--dataset", "diamonds-seed0"];
    let mut first = script(&place, &words)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for("the run has a job", || {
        let told = place.oomctl(&["status", place.run(), "--json"]);
        told.stdout.contains("\"job\": \"").then_some(())
    });
    // As a runner does when the time of a job is up.
    first.kill().unwrap();
    first.wait().unwrap();
    let run = variable(&place, "OOMCTL_RUN").unwrap();
    assert_eq!(run, place.run());
    let second = script(&place, &[&run]).output().unwrap();
    assert!(second.status.success(), "{second:?}");
    let jobs = place.one_job_per_attempt(place.run());
    assert!(jobs.len() >= 3, "{jobs:?}");
    assert_eq!(
        variable(&place, "OOMCTL_STATE").as_deref(),
        Some("succeeded")
    );
    assert_eq!(variable(&place, "OOMCTL_EXIT_CODE").as_deref(), Some("0"));
    let last = jobs.last().map(|job| job.id.clone());
    assert_eq!(variable(&place, "OOMCTL_JOB"), last);
    let junit = place.text("oomctl-junit.xml");
    let cases = format!("tests=\"{}\" failures=\"0\"", jobs.len() + 1);
    assert!(junit.contains(&cases), "{junit}");
}

#[test]
fn a_pipeline_that_is_cancelled_takes_its_job_with_it_where_that_is_asked_for() {
    let Some(place) = Place::on(Cluster::Full, "pipeline-cancel") else {
        return;
    };
    let place = place.with(&[LARGE_CARD, ("SIM_START_S", "300")]);
    let words = [
        "submit",
        "--run",
        place.run(),
        "--watch",
        "--on-interrupt",
        "cancel",
    ];
    let mut watch = place.command(&words).stderr(Stdio::null()).spawn().unwrap();
    let job = place.until("RUNNING");
    let pid = rustix::process::Pid::from_raw(watch.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(watch.wait().unwrap().code(), Some(130));
    wait_for("the job is gone", || {
        let queue = answer(&place.conf, "squeue", &["-h", "-o", "%i"]);
        (!queue.lines().any(|id| id == job)).then_some(())
    });
    place.watch().expect_code(9);
}

#[test]
fn watch_jobs_give_notices() {
    let Some(place) = Place::on(Cluster::Full, "notices") else {
        return;
    };
    place.configure("notices: { command: [bash, -c, 'cat >>told.jsonl'], on: [succeeded] }\n");
    let place = place.with(&[LARGE_CARD]);
    place.submit(&["--supervise", "job"]).expect_code(0);
    wait_for("the notice", || {
        place.file("told.jsonl").exists().then_some(())
    });
    wait_for("the run succeeds", || {
        (place.view()["state"] == "succeeded").then_some(())
    });
    let told = place.text("told.jsonl");
    assert_eq!(told.lines().count(), 1, "{told}");
    assert!(told.contains("\"event\":\"succeeded\""), "{told}");
}
