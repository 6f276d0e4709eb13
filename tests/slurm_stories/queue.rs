//! Waiting in the queue, and being cancelled there or later.

use super::cluster::{Cluster, answer, program};
use super::place::{LARGE_CARD, Place};

#[test]
fn a_pending_job_shows_slurms_reason_and_its_log_is_read_when_it_appears_late() {
    let Some(place) = Place::on(Cluster::Full, "held") else {
        return;
    };
    let place = place.with(&[
        LARGE_CARD,
        ("SIM_OOM_AT_STEP", "2"),
        ("SIM_ONLY_ATTEMPTS", "1"),
    ]);
    let told = place.submit(&["--sbatch=--hold"]).expect_code(0);
    let first = told.stdout.trim().to_owned();
    let watching = place.start(&["watch", &first]);
    watching.until_it_says("PENDING (JobHeldUser)");
    assert!(
        !place.file(&format!("logs/slurm-{first}.err")).exists(),
        "no log yet"
    );
    answer(&place.conf, "scontrol", &["release", &first]);
    watching.until_it_says("ran out of memory");
    // The next attempt is held as well.
    let second = super::cluster::wait_for("a second job", || {
        let job = place.attempts().last()?["job"].as_str()?.to_owned();
        (job != first).then_some(job)
    });
    answer(&place.conf, "scontrol", &["release", &second]);
    watching.end().expect_code(0).says("succeeded");
    assert_eq!(place.one_job_per_attempt(place.run()).len(), 2);
}

#[test]
fn a_log_that_the_file_system_shows_only_after_the_end_is_still_the_evidence() {
    let Some(place) = Place::on(Cluster::Full, "late-log") else {
        return;
    };
    // What a slow network file system does: the file is not there under its name until later.
    place.configure("limits: { attempts: 1 }\n");
    let place = place.knob(
        "setup",
        "['mv \"$OOMCTL_ATTEMPT_DIR/slurm.err\" \"$OOMCTL_ATTEMPT_DIR/unseen\"']",
    );
    let text = place.text("oomctl.yaml").replace("drain: 1s", "drain: 10s");
    std::fs::write(place.file("oomctl.yaml"), text).unwrap();
    place.submit(&[]).expect_code(0);
    let watching = place.start(&["watch", place.run()]);
    place.until("FAILED");
    let attempt = place.file(&format!(".oomctl/runs/{}/attempt-1", place.run()));
    assert!(!attempt.join("slurm.err").exists());
    std::fs::rename(attempt.join("unseen"), attempt.join("slurm.err")).unwrap();
    let told = watching.end().expect_code(8);
    told.says("GPU 0 ran out of memory in actor_update");
}

#[test]
fn a_job_cancelled_while_pending_ends_the_run_and_is_never_healed() {
    let Some(place) = Place::on(Cluster::Full, "scancel-pending") else {
        return;
    };
    let job = place.submit(&["--sbatch=--hold"]).expect_code(0);
    let job = job.stdout.trim().to_owned();
    let watching = place.start(&["watch", place.run()]);
    watching.until_it_says("PENDING (JobHeldUser)");
    answer(&place.conf, "scancel", &[&job]);
    watching.end().expect_code(9).says("cancelled");
    let jobs = place.one_job_per_attempt(place.run());
    assert_eq!(jobs.len(), 1);
    assert!(jobs[0].state.starts_with("CANCELLED"), "{jobs:?}");
}

#[test]
fn a_job_cancelled_while_running_ends_the_run_even_when_it_had_run_out_of_memory() {
    let Some(place) = Place::on(Cluster::Full, "scancel-running") else {
        return;
    };
    let place = place.with(&[LARGE_CARD, ("SIM_STEP_S", "60")]);
    let job = place.submit(&[]).expect_code(0).stdout.trim().to_owned();
    let watching = place.start(&["watch", place.run()]);
    place.until("RUNNING");
    answer(&place.conf, "scancel", &[&job]);
    watching.end().expect_code(9).says("cancelled");
    assert_eq!(place.one_job_per_attempt(place.run()).len(), 1);
    place.watch().expect_code(9);
    assert_eq!(
        place.one_job_per_attempt(place.run()).len(),
        1,
        "not healed later either"
    );
}

#[test]
fn the_jobs_of_many_runs_are_told_to_end_before_their_ledgers_are_written() {
    let Some(place) = Place::on(Cluster::Full, "cancel-many") else {
        return;
    };
    let noted = place.file("noted");
    // How many ledgers say at the first call that their end was asked for.
    let counts = format!(
        "#!/bin/sh\n[ -e '{noted}' ] || cat .oomctl/runs/*/ledger.jsonl | grep -c cancel_requested >'{noted}'\nexec {} \"$@\"\n",
        program("scancel").display(),
        noted = noted.display(),
    );
    let place = place.wrapping("scancel", &counts).with(&[LARGE_CARD]);
    let runs = ["a", "b", "c"].map(|end| format!("{}-{end}", place.run()));
    for run in &runs {
        place
            .oomctl(&["submit", "--run", run, "--sbatch=--hold"])
            .expect_code(0);
    }
    let names: Vec<&str> = runs.iter().map(String::as_str).collect();
    place
        .oomctl(&[&["cancel"], &names[..]].concat())
        .expect_code(0);
    assert_eq!(place.text("noted").trim(), "0");
    for run in &runs {
        assert_eq!(place.view_of(run)["state"], "cancelled");
        assert!(
            place.one_job_per_attempt(run)[0]
                .state
                .starts_with("CANCELLED")
        );
    }
}

#[test]
fn oomctl_cancel_ends_an_unattended_run_and_an_attended_one() {
    let Some(place) = Place::on(Cluster::Full, "cancel") else {
        return;
    };
    let place = place.with(&[LARGE_CARD, ("SIM_STEP_S", "60")]);
    let (alone, watched) = (format!("{}-a", place.run()), format!("{}-b", place.run()));
    place.oomctl(&["submit", "--run", &alone]).expect_code(0);
    place
        .oomctl(&["cancel", &alone])
        .expect_code(0)
        .says("is cancelled");
    let watching = place.start(&["submit", "--run", &watched, "--watch"]);
    watching.until_it_says("submitted as job");
    place
        .oomctl(&["cancel", &watched])
        .expect_code(0)
        .says("is cancelling it");
    watching.end().expect_code(9).says("cancelled");
    for run in [&alone, &watched] {
        let jobs = place.one_job_per_attempt(run);
        assert_eq!(jobs.len(), 1);
        assert!(jobs[0].state.starts_with("CANCELLED"), "{jobs:?}");
        assert_eq!(place.view_of(run)["state"], "cancelled");
    }
}

#[test]
fn ctrl_c_detaches_and_a_second_watch_goes_on() {
    let Some(place) = Place::on(Cluster::Full, "detach") else {
        return;
    };
    let place = place.with(&[LARGE_CARD, ("SIM_STEP_S", "1")]);
    let watching = place.start(&["submit", "--run", place.run(), "--watch"]);
    place.until("RUNNING");
    watching.signal(rustix::process::Signal::INT);
    let told = watching.end().expect_code(130);
    told.says(&format!("oomctl watch {}", place.run()));
    place.watch().expect_code(0);
    assert_eq!(place.one_job_per_attempt(place.run()).len(), 1);
}

#[test]
fn a_job_that_waits_for_an_attempt_waits_for_its_replacement_where_that_is_asked_for() {
    let Some(place) = Place::on(Cluster::Full, "dependent") else {
        return;
    };
    place.reconfigure("supervision: { ", "supervision: { move_dependents: true, ");
    let place = place.with(&[
        LARGE_CARD,
        ("SIM_STEP_S", "2"),
        ("SIM_OOM_AT_STEP", "4"),
        ("SIM_ONLY_ATTEMPTS", "1"),
    ]);
    let watching = place.start(&["submit", "--run", place.run(), "--watch"]);
    let first = place.until("RUNNING");
    let after = format!("--dependency=afterok:{first}");
    let waits = ["--parsable", &after, "-o", "/dev/null", "--wrap", "true"];
    let waiting = answer(&place.conf, "sbatch", &waits).trim().to_owned();
    let told = watching.end().expect_code(0);
    told.says(&format!("job {waiting} now waits for job"));
    super::cluster::wait_for("the job that waited has run", || {
        let words = ["-h", "-t", "all", "-j", &waiting, "-o", "%T"];
        let state = answer(&place.conf, "squeue", &words);
        (state.trim() == "COMPLETED").then_some(())
    });
}

#[test]
fn a_plan_shows_a_maintenance_that_the_job_reaches_into() {
    let Some(place) = Place::on(Cluster::Full, "maintenance") else {
        return;
    };
    // Far enough away for the jobs of all others.
    let name = format!("far-{}", std::process::id());
    let create = [
        "create",
        "reservation",
        &format!("reservationname={name}"),
        "starttime=now+20days",
        "duration=120",
        "users=root",
        "flags=maint,ignore_jobs",
        "nodes=ALL",
    ];
    answer(&place.conf, "scontrol", &create);
    let plan = |limit: &str| {
        std::fs::write(
            place.file("job.sh"),
            format!("#!/bin/bash\n#SBATCH --time={limit}\ntrue\n"),
        )
        .unwrap();
        place.oomctl(&["plan", "job.sh"]).expect_code(0).stdout
    };
    let (long, short) = (plan("30-00:00:00"), plan("10:00:00"));
    answer(
        &place.conf,
        "scontrol",
        &["delete", &format!("reservationname={name}")],
    );
    let line = "queue      maintenance in 19d 23h, for 2h 00m: with its time limit of 30d 00h the job starts after it, \
                below 19d 23h it can start before\n";
    assert!(long.contains(line), "{long}");
    assert!(!short.contains("maintenance"), "{short}");
}
