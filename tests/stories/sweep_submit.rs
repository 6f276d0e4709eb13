//! The cells of a sweep, each as a run of its own.

use super::place::{Done, Place};
use super::sweeps::path_star;
use super::weaver;

/// A sweep of the path-star example, smallest first, watched to its end.
fn submit(place: &Place, sweep: &[&str], more: &[&str]) -> Done {
    let words = ["sweep", "submit", "--watch", "--order", "smallest-first"];
    place.run(&[&words, sweep, more].concat())
}

/// How each run of a place ended or stands, by name.
fn states(place: &Place) -> Vec<String> {
    let status = place.run(&["status", "--json"]).ends(0).json();
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
    refused.says(&[
        "not submitted, 36 cells",
        "does not fit",
        "oomctl sweep fix",
    ]);
    assert!(!place.has(".oomctl"), "nothing was begun");
    let fix = [
        "sweep",
        "fix",
        "sweep.yaml",
        "--set",
        "graph_vocab_size=10000",
        "-o",
        "fixed.yaml",
    ];
    place.run(&fix).ends(0);
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
    place
        .run(&["status", "fixed-1"])
        .ends(0)
        .says(&["fixed-1.6", "succeeded"]);
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
    let sweep = [
        "sweep",
        "submit",
        "--backend",
        "local",
        "--watch",
        "threads=2,8",
        "cloth=64,128",
    ];
    let done = place.run(&sweep).ends(0);
    done.says(&["4 runs: 4 succeeded", "climb      thin"]);
    let submitted = |run: &str| {
        let facts = place.facts(run);
        facts.iter().filter(|f| f["fact"] == "submitted").count()
    };
    let counts: Vec<usize> = (1..=4)
        .map(|n| submitted(&format!("sweep-1.{n}")))
        .collect();
    assert_eq!(counts, [1, 1, 3, 3]);
}

#[test]
fn what_must_wait_is_begun_by_whoever_watches_the_sweep() {
    let place = weaver::project("");
    let sweep = [
        "sweep",
        "submit",
        "--backend",
        "local",
        "threads=1,2",
        "dye=red,blue",
        "--run",
        "quilt",
    ];
    let done = place.run(&sweep).ends(0);
    done.says(&["3 of its runs begin as others end, while `oomctl watch quilt` runs"]);
    assert_eq!(place.facts("quilt.2").len(), 1);
    place
        .run(&["watch", "quilt"])
        .ends(0)
        .says(&["4 runs: 4 succeeded"]);
    place.run(&sweep).ends(2).says(&["`quilt` exists already"]);
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
fn a_parameter_that_would_not_get_to_the_program_is_told_before_anything_is_submitted() {
    let place = weaver::project("");
    let sweep = [
        "sweep",
        "submit",
        "--backend",
        "local",
        "threads=2",
        "seed=0,1",
    ];
    place
        .run(&sweep)
        .ends(5)
        .says(&["hands nothing over that it has no knob for: seed"]);
    assert!(!place.has(".oomctl"));
}
