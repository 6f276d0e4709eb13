//! Supervision by small jobs that take turns, or by the jobs themselves: nobody watches on the login node.

use super::cluster::{Cluster, answer, slurm, wait_for};
use super::place::{LARGE_CARD, Place};

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
    wait_for("the run succeeds", || {
        (place.view()["state"] == "succeeded").then_some(())
    });
}

#[test]
fn a_run_goes_through_its_ladder_with_no_process_on_the_login_node() {
    let Some(place) = Place::on(Cluster::Full, "relay") else {
        return;
    };
    let told = place
        .submit(&["--dataset", "diamonds-seed0", "--supervise", "job"])
        .expect_code(0);
    told.says("watched by job");
    succeeds(&place);
    assert!(place.one_job_per_attempt(place.run()).len() >= 3);
    wait_for("no watch job is left", || {
        watch_jobs(&place).is_empty().then_some(())
    });
}

#[test]
fn a_turn_that_is_killed_or_doubled_neither_ends_the_watch_nor_submits_twice() {
    let Some(place) = Place::on(Cluster::Full, "relay-killed") else {
        return;
    };
    let place = place.set("SIM_START_S", "1");
    place
        .submit(&["--dataset", "diamonds-seed0", "--supervise", "job"])
        .expect_code(0);
    let noted = place.file(&format!(".oomctl/runs/{}/watch-turn.json", place.run()));
    wait_for("a turn has begun", || {
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
    wait_for("no watch job is left", || {
        watch_jobs(&place).is_empty().then_some(())
    });
}

#[test]
fn a_cancelled_run_is_taken_up_again_by_watch_jobs() {
    let Some(place) = Place::on(Cluster::Full, "relay-retried") else {
        return;
    };
    place
        .submit(&["--dataset", "diamonds-seed0"])
        .expect_code(0);
    place.oomctl(&["cancel", place.run()]).expect_code(0);
    let told = place
        .oomctl(&["retry", place.run(), "--supervise", "job"])
        .expect_code(0);
    told.says("watched by job");
    succeeds(&place);
    wait_for("no watch job is left", || {
        watch_jobs(&place).is_empty().then_some(())
    });
}

#[test]
fn each_job_takes_its_turn_at_the_end_of_its_own_script() {
    let Some(place) = Place::on(Cluster::Full, "at-end") else {
        return;
    };
    let told = place
        .submit(&["--dataset", "diamonds-seed0", "--supervise", "script"])
        .expect_code(0);
    told.says("each job takes a turn of the watch at its end");
    succeeds(&place);
    let jobs = place.one_job_per_attempt(place.run());
    assert!(jobs.len() >= 3, "{jobs:?}");
    // The turn changes nothing of how its job ends: a GPU OOM is a program that ends with 1.
    let (last, earlier) = jobs.split_last().unwrap();
    assert_eq!(last.state, "COMPLETED");
    assert!(earlier.iter().all(|job| job.state == "FAILED"), "{jobs:?}");
    for attempt in place.attempts().iter().rev().skip(1) {
        assert_eq!(attempt["exit"], "1:0");
    }
    wait_for("no watch job is left", || {
        watch_jobs(&place).is_empty().then_some(())
    });
}

#[test]
fn a_script_that_is_killed_before_its_turn_leaves_a_watch_job_that_takes_it() {
    let Some(place) = Place::on(Cluster::Full, "at-end-killed") else {
        return;
    };
    let place = place.with(&[LARGE_CARD, ("SIM_STEP_S", "60")]);
    place.submit(&["--supervise", "script"]).expect_code(0);
    let job = place.until("RUNNING");
    assert_eq!(watch_jobs(&place).len(), 1, "it stands ready");
    wait_for("the job has begun", || {
        let claim = format!(".oomctl/runs/{}/attempt-1/claim", place.run());
        place.file(&claim).is_file().then_some(())
    });
    // Nothing of the script is left that could take a turn, and Slurm was told nothing.
    kill_all_of(&job, &place.file("").canonicalize().unwrap());
    wait_for("somebody judges the job", || {
        (place.view()["exit_code"] == 1).then_some(())
    });
    assert_eq!(place.one_job_per_attempt(place.run()).len(), 1);
    wait_for("no watch job is left", || {
        watch_jobs(&place).is_empty().then_some(())
    });
}

#[test]
fn what_ends_a_script_by_a_signal_is_judged_by_a_watch_job_afterwards() {
    let Some(place) = Place::on(Cluster::Full, "at-end-cancelled") else {
        return;
    };
    let place = place.with(&[LARGE_CARD, ("SIM_STEP_S", "60")]);
    place.submit(&["--supervise", "script"]).expect_code(0);
    let job = place.until("RUNNING");
    wait_for("the job has begun", || {
        let claim = format!(".oomctl/runs/{}/attempt-1/claim", place.run());
        place.file(&claim).is_file().then_some(())
    });
    slurm(&place.conf, "scancel", &[&job]);
    wait_for("the run is known to be cancelled", || {
        (place.view()["state"] == "cancelled").then_some(())
    });
    let jobs = place.one_job_per_attempt(place.run());
    assert_eq!(
        jobs.len(),
        1,
        "what a person cancels is not healed: {jobs:?}"
    );
}

#[test]
fn a_job_that_hears_of_its_time_limit_stops_and_goes_on_from_its_checkpoint() {
    let Some(place) = Place::on(Cluster::Full, "early-stop") else {
        return;
    };
    let place = place
        .knob("signal", "'B:USR1@60'")
        .knob("save_freq", "1")
        .knob("time_limit", "'00:10:00'")
        .with(&[LARGE_CARD, ("SIM_STEP_S", "1"), ("SIM_STEPS", "9")]);
    place.reconfigure("supervision: { ", "supervision: { time_limit_retries: 1, ");
    let watching = place.start(&["submit", "--run", place.run(), "--watch"]);
    let job = place.until("RUNNING");
    let checkpoints = || {
        let found = file_below(
            &place.file("checkpoints"),
            "latest_checkpointed_iteration.txt",
        )?;
        std::fs::read_to_string(found)
            .ok()?
            .trim()
            .parse::<u32>()
            .ok()
    };
    wait_for("two steps are saved", || {
        checkpoints().filter(|step| *step >= 2)
    });
    // What Slurm does 60 s before the time limit.
    slurm(&place.conf, "scancel", &["--batch", "--signal=USR1", &job]);
    let told = watching.end().expect_code(0);
    told.says("resumes from step");
    let jobs = place.one_job_per_attempt(place.run());
    assert_eq!(jobs.len(), 2, "{jobs:?}");
    assert_eq!(place.attempts()[0]["exit"], "124:0");
}

/// `kill -9` of every process of a job that works in a folder.
fn kill_all_of(job: &str, folder: &std::path::Path) {
    let marked = format!("SLURM_JOB_ID={job}");
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let environment = std::fs::read(process.path().join("environ")).unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0);
        let name = process.file_name().to_string_lossy().parse().ok();
        let Some(pid) = name.and_then(rustix::process::Pid::from_raw) else {
            continue;
        };
        // Another cluster of this machine may have a job of that number.
        let ours = std::fs::read_link(process.path().join("cwd"));
        let ours = ours.is_ok_and(|cwd| cwd.starts_with(folder));
        if ours && variables.any(|variable| variable == marked.as_bytes()) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

/// The first file of this name below a folder.
fn file_below(folder: &std::path::Path, name: &str) -> Option<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?;
    entries.flatten().map(|e| e.path()).find_map(|path| {
        if path.is_dir() {
            return file_below(&path, name);
        }
        path.ends_with(name).then_some(path)
    })
}
