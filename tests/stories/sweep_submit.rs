//! The cells of a sweep, each as a run of its own.

use super::place::{Done, Place};
use super::slurm::Slurm;
use super::sweeps::path_star;
use super::weaver;
use oomctl_base::word_list;

/// A sweep of the path-star example, smallest first, watched to its end.
fn submit(place: &Place, sweep: &[&str], more: &[&str]) -> Done {
    let words = ["sweep", "submit", "--watch", "--order", "smallest-first"];
    place.run(&[&words, sweep, more].concat())
}

/// How each run of a place ended or stands, by name.
fn states(place: &Place) -> Vec<String> {
    let status = place.json("status --json");
    let runs = status["runs"].as_array().unwrap().iter();
    runs.map(|r| {
        format!(
            "{} {}",
            r["run"].as_str().unwrap(),
            r["state"].as_str().unwrap()
        )
    })
    .collect()
}

#[test]
fn the_repaired_example_runs_to_its_end_and_the_unrepaired_one_is_refused() {
    let mut place = path_star();
    place.set("SIM_STEP_S", "0");
    let refused = place.run(&["sweep", "submit", "sweep.yaml"]).ends(3);
    refused.says(&["36 cells not submitted", "does not fit", "oomctl sweep fix"]);
    assert!(!place.has(".oomctl"), "nothing was begun");
    place
        .run("sweep fix sweep.yaml --set graph_vocab_size=10000 -o fixed.yaml")
        .ends(0);
    let dry = place
        .run(&["sweep", "submit", "fixed.yaml", "--dry-run"])
        .ends(0);
    dry.says(&[
        "sweep fixed-1: 18 runs, 1 at a time",
        "train.py --seed=0",
        "nothing was submitted",
    ]);
    assert!(!place.has(".oomctl"));
    let cells = ["--cell", "seed=2", "--max-running", "3"];
    let done = submit(&place, &["fixed.yaml"], &cells).ends(0);
    done.says(&["6 runs, 3 at a time", "6 runs: 6 succeeded"]);
    // What a knob describes and what none does both get to the program.
    let log = place.read("logs/slurm-1.out");
    assert!(log.contains("seed 2, 250 paths of 5 nodes"), "{log}");
    place.says("status fixed-1", 0, &["fixed-1.6", "succeeded"]);
}

#[test]
fn cells_that_need_no_less_than_one_that_failed_are_pruned() {
    let mut place = path_star();
    place.set("SIM_STEP_S", "0");
    place.set("SIM_GPU_GIB", "2.5");
    let sweep = "parameters:\n  graph_vocab_size: {values: [1000000, 10000, 1500000]}\n  eval_batch_size: {value: 256}\n  seed: {values: [0, 1]}\n";
    place.write("sweep.yaml", sweep);
    let done = submit(&place, &["sweep.yaml"], &[]).ends(3);
    done.says(&["6 runs: 1 exhausted, 3 pruned, 2 succeeded"]);
    done.says(&["needs at least as much memory as sweep-1.3, which failed"]);
    let states = states(&place);
    assert_eq!(
        states[..3],
        [
            "sweep-1.1 succeeded",
            "sweep-1.2 succeeded",
            "sweep-1.3 exhausted"
        ]
    );
    assert!(
        states[3..].iter().all(|s| s.ends_with(" pruned")),
        "{states:?}"
    );
    // Of a pruned one nothing was ever submitted, and its ledger says why.
    let facts = place.facts("sweep-1.6");
    let kinds: Vec<&str> = facts.iter().map(|f| f["fact"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["created", "pruned", "finished"]);
    assert_eq!(facts[1]["by"], "sweep-1.3");
    let status = place.run(&["status", "sweep-1.6"]).ends(0);
    status.says(&["pruned", "sweep-1.3", "attempt 1"]);
}

#[test]
fn each_cell_has_a_ladder_of_its_own() {
    let place = weaver::project("");
    let sweep = word_list::<7>("sweep submit --backend local --watch threads=2,8 cloth=64,128");
    let done = place.run(&sweep).ends(0);
    done.says(&["4 runs: 4 succeeded", "climb      thin"]);
    let counts: Vec<usize> = (1..=4)
        .map(|n| place.count(&format!("sweep-1.{n}"), "submitted"))
        .collect();
    assert_eq!(counts, [1, 1, 3, 3]);
}

#[test]
fn what_must_wait_is_begun_by_whoever_watches_the_sweep() {
    let place = weaver::project("");
    let sweep = word_list::<8>("sweep submit --backend local threads=1,2 dye=red,blue --run quilt");
    let done = place.run(&sweep).ends(0);
    done.says(&["3 of its runs wait for others to end; keep `oomctl watch quilt` running"]);
    assert_eq!(place.facts("quilt.2").len(), 1);
    assert!(states(&place).contains(&"quilt.2 waiting".to_owned()));
    place.says("watch quilt", 0, &["4 runs: 4 succeeded"]);
    place.says(&sweep, 2, &["`quilt` already exists"]);
    // All of a sweep is cancelled by its name.
    let mut words = sweep;
    words[7] = "second";
    place.run(&words).ends(0);
    place.run(&["cancel", "second"]).ends(0);
    let states = states(&place);
    let cancelled = states
        .iter()
        .filter(|s| s.starts_with("second.") && s.ends_with(" cancelled"));
    assert!(cancelled.count() >= 3, "{states:?}");
}

#[test]
fn a_range_is_drawn_from_and_json_has_the_cells_that_are_refused() {
    let place = path_star();
    let sweep = "method: bayes\nparameters:\n  graph_d: {min: 100, max: 4000}\n  graph_vocab_size: {value: 10000}\n  eval_batch_size: {value: 256}\n  lr: {distribution: log_uniform_values, min: 0.0001, max: 0.1}\n";
    place.write("sweep.yaml", sweep);
    let submit = |more: &[&str]| place.run(&[&["sweep", "submit", "sweep.yaml"], more].concat());
    submit(&[])
        .ends(5)
        .says(&["needs W&B's service", "--count N"]);
    let drawn = ["--count", "12", "--seed", "4", "--dry-run"];
    let text = submit(&drawn).ends(0);
    text.says(&[
        "12 cells drawn at random, --seed 4",
        "cells that break a rule are never submitted, not even with --force",
    ]);
    let json = submit(&[&drawn[..], &["--json"]].concat()).ends(0).json();
    let (cells, refused) = (json["cells"].as_array(), json["refused"].as_array());
    let (cells, refused) = (cells.unwrap(), refused.unwrap());
    assert_eq!(
        (cells.len() + refused.len(), &json["drawn"]["seed"]),
        (12, &4.into())
    );
    // A graph of d paths of 5 nodes has 4 d + 1 nodes.
    assert!(
        cells
            .iter()
            .all(|c| c["values"]["graph_d"].as_i64().unwrap() <= 2_499)
    );
    assert!(!refused.is_empty(), "{json}");
    for cell in refused {
        assert_eq!(
            (&cell["verdict"], &cell["rule"]),
            (&"breaks_rule".into(), &"every-node-has-a-name".into())
        );
        assert!(cell["why"].as_str().unwrap().contains("10000"), "{cell}");
    }
    let random = sweep.replace("bayes", "random\nrun_cap: 3");
    place.write("sweep.yaml", &random);
    submit(&["--dry-run"])
        .ends(0)
        .says(&["3 cells drawn at random, --seed 0"]);
}

#[test]
fn every_cell_of_a_grid_is_a_run_however_many_arrays_that_takes() {
    let mut place = path_star();
    let slurm = Slurm::before(&mut place);
    slurm.tell("array-size", "1001\n");
    let words = word_list::<7>(
        "sweep submit graph_vocab_size=10000 graph_d=250 eval_batch_size=256 seed=range(0,1200)
         --dry-run",
    );
    let done = place.json(&[&words[..], &["--json"]].concat());
    assert_eq!(done["arrays"], serde_json::json!([1001, 199]));
    assert_eq!(done["cells"][1199]["run"], "sweep-1.1200");
    assert_eq!(done["cells"][1199]["values"]["seed"], 1199);
    place
        .run(&[&words[..5], &["seed=range(0,10001)"]].concat())
        .ends(2)
        .says(&["10001 cells would run; the limit is 10000"]);
}

#[test]
fn cells_start_where_the_runs_of_another_sweep_fitted() {
    let place = weaver::project("");
    let sweep = |name: &str, more: &[&str]| {
        let words = [
            "sweep",
            "submit",
            "--backend",
            "local",
            "--watch",
            "dye=red,blue",
            "--run",
            name,
        ];
        place.run(&[&words, more].concat()).ends(0)
    };
    let attempts = |run: &str| place.count(run, "submitted");
    // The threads of the project are too many, and each cell has to find that out, or asks to.
    sweep("first", &[]).says(&["2 runs: 2 succeeded"]);
    assert_eq!(attempts("first.1"), 3);
    sweep("second", &[]).says(&["2 start with rungs that earlier runs needed: thin, thin"]);
    assert_eq!((attempts("second.1"), attempts("second.2")), (1, 1));
    sweep("third", &["--fresh"]);
    assert_eq!(attempts("third.1"), 3);
}

#[test]
fn several_runs_end_with_the_code_of_the_gravest_whatever_their_order() {
    for dyes in ["red,blue", "blue,red"] {
        let mut place = weaver::project("");
        // Blue fails for a reason of its own, red is out of memory and has no rung left.
        let own = "#!/bin/bash\n[ \"$WEAVER_DYE\" = blue ] && WEAVER=fail";
        let trainer = place.read("trainer.sh").replacen("#!/bin/bash", own, 1);
        place.write("trainer.sh", &trainer);
        place.set("WEAVER", "fits 0");
        let dye = format!("dye={dyes}");
        let words = [
            "sweep",
            "submit",
            "--backend",
            "local",
            "--watch",
            "threads=1",
            "cloth=1",
            &dye,
        ];
        place.says(&words, 1, &["2 runs: 1 exhausted, 1 failed"]);
        let json = place.run(&["watch", "sweep-1", "--json"]).ends(1).json();
        assert_eq!(json["exit_code"], 1);
    }
}

#[test]
fn a_parameter_that_would_not_get_to_the_program_is_told_before_anything_is_submitted() {
    let place = weaver::project("");
    place.says(
        "sweep submit --backend local threads=2 seed=0,1",
        5,
        &["cannot pass on keys without a knob: seed"],
    );
    assert!(!place.has(".oomctl"));
}

/// A loom before a scripted Slurm, and a sweep of six cells: two of each number of threads.
fn looms(place: &mut Place) -> Slurm {
    let sweep =
        "method: grid\nparameters:\n  threads: {values: [1, 2, 8]}\n  dye: {values: [red, blue]}\n";
    place.write("sweep.yaml", sweep);
    Slurm::before(place)
}

/// The jobs of the runs of the sweep, by run: one for each attempt.
fn jobs(place: &Place, runs: usize) -> Vec<Vec<String>> {
    let of = |n: usize| {
        let facts = place.facts(&format!("sweep-1.{n}"));
        let jobs = facts.iter().filter(|f| f["fact"] == "submitted");
        jobs.map(|f| f["job"]["id"].as_str().unwrap().to_owned())
            .collect()
    };
    (1..=runs).map(of).collect()
}

#[test]
fn cells_are_tasks_of_one_array_and_what_dies_of_memory_goes_on_as_a_job_of_its_own() {
    let mut place = weaver::project("");
    let slurm = looms(&mut place);
    let sweep = word_list::<6>("sweep submit sweep.yaml --watch --max-running 2");
    let done = place.run(&sweep).ends(0);
    done.says(&["6 runs in 1 job array, 2 at a time", "6 runs: 6 succeeded"]);
    let calls = slurm.calls("sbatch");
    assert_eq!(
        calls.len(),
        5,
        "one array, and two rungs for each of two cells: {calls:?}"
    );
    assert!(calls[0].contains("--array=0-5%2"), "{}", calls[0]);
    let jobs = jobs(&place, 6);
    assert_eq!(jobs[..4], [["101_0"], ["101_1"], ["101_2"], ["101_3"]]);
    assert_eq!((jobs[4][0].as_str(), jobs[4].len()), ("101_4", 3));
    assert_eq!((jobs[5][0].as_str(), jobs[5].len()), ("101_5", 3));
    assert!(
        jobs.iter()
            .flat_map(|j| &j[1..])
            .all(|id| !id.contains('_')),
        "{jobs:?}"
    );
    // Each task's log is its run's.
    let log = place.read(".oomctl/runs/sweep-1.1/attempt-1/slurm.out");
    assert!(log.contains("woven 3 of 3"), "{log}");
    let evidence = place.read(".oomctl/runs/sweep-1.6/attempt-1/slurm.err");
    assert!(evidence.contains("OutOfMemoryError"), "{evidence}");
}

#[test]
fn more_cells_than_an_array_may_have_are_several_arrays_of_the_same_resources() {
    let mut place = weaver::project("");
    let slurm = looms(&mut place);
    slurm.tell("array-size", "4\n");
    let dry = place
        .run(&["sweep", "submit", "sweep.yaml", "--dry-run"])
        .ends(0);
    dry.says(&[
        "6 runs in 2 job arrays of 4, 2 tasks",
        "SLURM_ARRAY_TASK_ID",
        "sweep-1.6",
    ]);
    assert!(slurm.calls("sbatch").is_empty());
    let done = place
        .run(&["sweep", "submit", "sweep.yaml", "--max-running", "3"])
        .ends(0);
    done.says(&["6 runs in 2 job arrays of 4, 2 tasks, 1 of each at a time"]);
    let calls = slurm.calls("sbatch");
    assert!(
        calls[0].contains("--array=0-3%1") && calls[1].contains("--array=0-1%1"),
        "{calls:?}"
    );
    // What asks for other resources is in another array.
    place
        .run("sweep submit threads=1 mem=4G,8G dye=red,blue --dry-run")
        .ends(0)
        .says(&["4 runs in 2 job arrays of 2, 2 tasks"]);
    // Without arrays each cell is a job.
    slurm.tell("array-size", "0\n");
    let done = place.run("sweep submit sweep.yaml --cell threads=1 --run apart");
    done.ends(0);
    assert!(
        slurm.calls("sbatch")[2..]
            .iter()
            .all(|c| !c.contains("--array"))
    );
    assert_eq!(slurm.calls("sbatch").len(), 4);
}

#[test]
fn an_array_whose_answer_is_lost_is_found_again_and_not_submitted_twice() {
    let mut place = weaver::project("");
    let slurm = looms(&mut place);
    slurm.tell("mute", "");
    let cells = ["--cell", "threads=1,2"];
    let sweep = [&["sweep", "submit", "sweep.yaml", "--watch"][..], &cells].concat();
    let done = place.run(&sweep).ends(0);
    done.says(&[
        "unclear:",
        "found again by its token",
        "4 runs: 4 succeeded",
    ]);
    assert_eq!(slurm.calls("sbatch").len(), 1);
    assert_eq!(
        jobs(&place, 4),
        [["101_0"], ["101_1"], ["101_2"], ["101_3"]]
    );
}

#[test]
fn an_array_that_was_never_accepted_is_submitted_once_more_and_a_refused_one_is_not() {
    let mut place = weaver::project("");
    let slurm = looms(&mut place);
    slurm.tell(
        "refuse",
        "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n",
    );
    let submit = place.start(&word_list::<6>(
        "sweep submit sweep.yaml --cell threads=1 --watch",
    ));
    place.wait_for_fact("sweep-1.2", "submit_unclear");
    slurm.forget("refuse");
    let done = submit.end().ends(0);
    done.says(&["2 runs: 2 succeeded"]);
    let calls = slurm.calls("sbatch");
    assert!(
        calls.len() == 2 && calls.iter().all(|c| c.contains("--array=0-1 ")),
        "{calls:?}"
    );
    slurm.tell("refuse", "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified\n");
    let refused = place.run("sweep submit sweep.yaml --cell threads=1 --run no");
    refused
        .ends(4)
        .says(&["2 runs: 2 refused", "Invalid account"]);
}

#[test]
fn a_submission_that_is_killed_is_taken_up_by_watch_without_a_second_array() {
    for moment in ["before", "after"] {
        let mut place = weaver::project("");
        let slurm = looms(&mut place);
        slurm.tell(&format!("{moment}.1"), "");
        let submit = place.start(&["sweep", "submit", "sweep.yaml", "--cell", "threads=2"]);
        slurm.tell("victim", &submit.pid().to_string());
        let mut child = submit.child;
        child.wait().unwrap();
        let done = place.run(&["watch", "sweep-1"]).ends(0);
        done.says(&["2 runs: 2 succeeded"]);
        let ids = jobs(&place, 2);
        assert_eq!(ids, [["101_0"], ["101_1"]], "{moment}");
        assert_eq!(slurm.calls("sbatch").len(), 1, "{moment}");
    }
}

#[test]
fn a_larger_cell_that_still_waits_is_taken_out_of_the_queue() {
    let mut place = path_star();
    place.set("SIM_STEP_S", "0");
    place.set("SIM_GPU_GIB", "2.5");
    let slurm = Slurm::before(&mut place);
    slurm.tell("state.3", "PENDING 0:0");
    let sweep = [
        "graph_vocab_size=10000,1000000,1500000",
        "eval_batch_size=256",
    ];
    let done = submit(&place, &sweep, &[]).ends(3);
    done.says(&[
        "3 runs in 1 job array",
        "3 runs: 1 exhausted, 1 pruned, 1 succeeded",
    ]);
    let cancelled = slurm.calls("scancel");
    assert!(
        cancelled
            .iter()
            .any(|c| c.ends_with("101_2") && !c.contains("_2 ")),
        "{cancelled:?}"
    );
    let facts = place.facts("sweep-1.3");
    let last = facts.last().unwrap();
    assert_eq!(last["outcome"]["pruned"]["by"], "sweep-1.2", "{last}");
}

#[test]
fn a_cell_that_is_watched_alone_after_a_kill_is_a_job_of_its_own_and_the_others_an_array() {
    let mut place = weaver::project("");
    let slurm = looms(&mut place);
    let lost =
        "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n";
    slurm.tell("refuse", lost);
    let words = ["sweep", "submit", "sweep.yaml", "--cell", "threads=1,2"];
    let submit = place.start(&words);
    place.wait_for_fact("sweep-1.4", "submit_unclear");
    submit.kill();
    slurm.forget("refuse");
    place.says("watch sweep-1.2", 0, &["succeeded"]);
    place.says("watch sweep-1", 0, &["4 runs: 4 succeeded"]);
    let calls = slurm.calls("sbatch");
    assert_eq!(calls.len(), 3, "{calls:?}");
    assert!(
        !calls[1].contains("--array") && calls[2].contains("--array=0,2-3 "),
        "{calls:?}"
    );
    let jobs = jobs(&place, 4);
    assert_eq!(jobs, [["102_0"], ["101"], ["102_2"], ["102_3"]]);
}
