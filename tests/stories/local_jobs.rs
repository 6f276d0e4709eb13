//! Jobs on this machine.

use super::weaver;

const WATCH: [&str; 4] = ["submit", "--backend", "local", "--watch"];

fn alive(pid: &str) -> bool {
    std::path::Path::new(&format!("/proc/{}", pid.trim())).exists()
}

#[test]
fn submit_prints_the_job_id_on_stdout_and_the_next_command_on_stderr() {
    let place = weaver::project("knobs: { threads: 2 }");
    let done = place.run(&["submit", "--backend", "local"]).ends(0);
    assert_eq!(done.out, "1\n");
    assert!(
        done.err.contains("oomctl watch weaver-1"),
        "{}",
        done.told()
    );
    place.run(&["watch", "1"]).ends(0);
}

#[test]
fn a_job_outlives_the_submit_that_started_it() {
    let mut place = weaver::project("knobs: { threads: 2 }");
    place.set("WEAVER", "wait");
    place.run(&["submit", "--backend", "local"]).ends(0);
    place.wait_for("the trainer", || place.has("argv.1"));
    place.write("go", "");
    place.wait_for("the end of the job", || place.has(".oomctl/local/1/exit"));
    assert!(place.read("logs/slurm-1.out").contains("woven 3 of 3"));
    place.run(&["watch", "weaver-1"]).ends(0);
}

#[test]
fn cancel_ends_every_process_of_the_job() {
    let mut place = weaver::project("");
    place.set("WEAVER", "sleep");
    place.run(&["submit", "--backend", "local"]).ends(0);
    // The file is there before what is written into it.
    place.wait_for("the trainer's child", || {
        place.has("child.1") && !place.read("child.1").trim().is_empty()
    });
    let (parent, child) = (place.read("pid.1"), place.read("child.1"));
    assert!(alive(&parent) && alive(&child));
    place.says("cancel weaver-1", 0, &["cancelled"]);
    place.wait_for("the end of both", || !alive(&parent) && !alive(&child));
    place.says("status weaver-1", 0, &["cancelled"]);
}

#[test]
fn a_job_that_hangs_after_its_oom_is_cancelled_and_the_next_rung_taken() {
    let mut place = weaver::project("");
    place.set("WEAVER", "hang");
    let done = place.run(&WATCH).ends(0);
    done.says(&["hangs", "thin"]);
    let facts = place.facts("weaver-1");
    assert!(facts.iter().any(|f| f["fact"] == "stalled"));
}

#[test]
fn two_runs_in_one_folder_do_not_meet() {
    let place = weaver::project("knobs: { threads: 2 }");
    place
        .run(&["submit", "--backend", "local", "--run", "one"])
        .ends(0);
    place
        .run(&["submit", "--backend", "local", "--run", "two"])
        .ends(0);
    place.run(&["watch", "one", "two"]).ends(0);
    let status = place.json("status --json");
    assert_eq!(status["runs"].as_array().unwrap().len(), 2);
    place.says("submit --backend local --run one", 2, &["already exists"]);
}

#[test]
fn one_look_does_what_is_due_and_ends_while_the_job_goes_on() {
    let mut place = weaver::project("knobs: { threads: 2 }");
    place.set("WEAVER", "wait");
    place.run(&["submit", "--backend", "local"]).ends(0);
    place.wait_for("the trainer", || place.has("argv.1"));
    let once = ["watch", "--once", "weaver-1"];
    place.run(&once).ends(0);
    place.write("go", "");
    place.wait_for("the end of the job", || place.has(".oomctl/local/1/exit"));
    place.run(&once).ends(0);
    let status = place.run(&["status", "weaver-1", "--json"]).ends(0);
    let document: serde_json::Value = serde_json::from_str(&status.out).unwrap();
    assert_eq!(document["runs"][0]["state"], "succeeded");
}

#[test]
fn without_slurm_there_are_no_watch_jobs_and_no_run_is_left_behind() {
    let place = weaver::project("knobs: { threads: 2 }");
    let words = ["submit", "--backend", "local", "--supervise", "job"];
    place.says(&words, 2, &["--watch"]);
    assert!(!place.has(".oomctl"));
}
