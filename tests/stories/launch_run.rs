//! What `oomctl run` leaves is a run like any other, and teaches the next one.

use super::launch::{COMMAND, run, start, trainer};

#[test]
fn a_program_that_got_through_stands_in_status_report_and_history() {
    let (_gpus, place) = trainer(1_000, "oom 16");
    run(&place, &[], COMMAND).ends(0);
    let list = place.run(&["status"]).ends(0);
    assert!(
        list.out.contains("train-1") && list.out.contains("succeeded"),
        "{}",
        list.told()
    );
    let one = place.run(&["status", "train-1"]).ends(0);
    for part in [
        "FAILED",
        "COMPLETED",
        "then halve-batch",
        "peak 1.0 of 80.0 GiB",
        "3 attempts",
    ] {
        assert!(one.out.contains(part), "{part}: {}", one.told());
    }
    let rows = place.run(&["history", "-P", "--columns", "run,attempt,state,cause,gpus"]);
    assert_eq!(
        rows.ends(0).out,
        "run|attempt|state|cause|gpus\n\
         train-1|1|FAILED|cuda_oom|1\n\
         train-1|2|FAILED|cuda_oom|1\n\
         train-1|3|COMPLETED||1\n"
    );
    place.run(&["report", "train-1", "--to", "run.md"]).ends(0);
    let report = place.read("run.md");
    for part in ["train-1", "halve-batch", "succeeded"] {
        assert!(report.contains(part), "{part}: {report}");
    }
    let explained = place.run(&["explain", "batch", "--run", "train-1"]).ends(0);
    assert!(explained.out.contains("16"), "{}", explained.told());
    let died = place.run(&["diagnose", "train-1"]);
    assert!(
        died.out.contains("2.00 GiB requested") || died.code == 0,
        "{}",
        died.told()
    );
    // It is over, and no other process takes it up.
    place.run(&["watch", "train-1"]).ends(0);
    assert!(!place.has("argv.4") && !place.has("logs"));
}

#[test]
fn what_a_program_taught_is_where_the_next_one_starts() {
    let (gpus, place) = trainer(1_000, "oom 16");
    run(&place, &[], COMMAND).ends(0);
    let second = run(&place, &[], COMMAND).ends(0);
    second.says(&["run train-1, attempt 3, which fitted", "batch 64 -> 16"]);
    let first = "model=lora training.batch_size=16 training.gradient_accumulation_steps=4\n";
    assert_eq!(place.read("argv.1"), first);
    // Another seed, other words, another GPU: nothing is known of it. What is asked for anew is taken as it stands.
    run(&place, &[], &format!("{COMMAND} seed=2")).ends(0);
    assert!(place.read("argv.1").contains("batch_size=64 seed=2"));
    run(&place, &["--fresh"], COMMAND).ends(0);
    assert!(place.read("argv.1").contains("batch_size=64"));
    gpus.are(&["gpu uuid=GPU-b name=H200 total_mib=143771 used_mib=0 util=0"]);
    run(&place, &[], COMMAND).ends(0);
    assert!(place.read("argv.1").contains("batch_size=64"));
}

#[test]
fn a_program_that_did_not_get_through_says_why_in_its_run() {
    let (_gpus, mut place) = trainer(1_000, "always");
    run(&place, &["--max-retries", "1"], COMMAND).ends(1);
    let one = place.json("status train-1 --json");
    assert_eq!(one["runs"][0]["state"], "exhausted");
    assert_eq!(
        one["runs"][0]["attempts"][1]["incident"]["kind"],
        "cuda_oom"
    );
    let died = place.run(&["diagnose", "train-1"]).ends(0);
    assert!(died.out.contains("2.00 GiB requested"), "{}", died.told());
    place.set("TRAINER", "fail");
    run(&place, &[], COMMAND).ends(3);
    let one = place.run(&["status", "train-2"]).ends(0);
    assert!(
        one.out.contains(".oomctl/runs/train-2/attempt-1/slurm.err"),
        "{}",
        one.told()
    );
    assert!(
        one.out.contains("failed") && one.out.contains("KeyError"),
        "{}",
        one.told()
    );
}

/// Whoever cancels the run from elsewhere ends the program.
#[test]
fn a_run_of_a_program_is_cancelled_from_another_shell() {
    let (_gpus, place) = trainer(0, "wait");
    let started = start(&place, &[], COMMAND);
    place.written("pid");
    place.run(&["cancel", "train-1"]).ends(0);
    started.end().ends(7);
    let one = place.run(&["status", "train-1"]).ends(0);
    assert!(one.out.contains("cancelled"), "{}", one.told());
}

/// A program whose oomctl was killed is seen by others, who start nothing in its place.
#[test]
fn a_run_whose_process_was_killed_is_not_carried_on_by_another() {
    let (_gpus, place) = trainer(0, "wait");
    let first = start(&place, &[], COMMAND);
    let pid = place.written("pid");
    place.wait_for_fact("train-1", "submitted");
    first.kill();
    let running = place.run(&["status", "train-1"]).ends(0);
    assert!(running.out.contains("running"), "{}", running.told());
    place.write("go", "");
    let lives = || std::path::Path::new(&format!("/proc/{pid}/cwd")).exists();
    place.wait_for("the end of the program", || !lives());
    let watched = place.run(&["watch", "train-1"]);
    assert!(
        watched.code != 0 && !place.has("argv.2"),
        "{}",
        watched.told()
    );
}

/// What it left running holds the GPU, also where nothing is tried any more.
#[test]
fn what_a_program_left_running_ends_when_nothing_is_left_to_try() {
    let (_gpus, place) = trainer(1_000, "leaves");
    run(&place, &["--max-retries", "0"], COMMAND).ends(1);
    let left = place.written("left");
    place.wait_for("the end of what it left", || {
        !std::path::Path::new(&format!("/proc/{left}")).exists()
    });
}

#[test]
fn a_run_of_a_program_is_not_tuned_by_jobs() {
    let (_gpus, place) = trainer(1_000, "oom 1000");
    run(&place, &[], COMMAND).ends(0);
    place
        .run("tune train-1")
        .ends(2)
        .says(&["train-1 is a program that `oomctl run` started"]);
}
