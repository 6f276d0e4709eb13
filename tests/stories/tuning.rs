//! From a run that fits to the fastest configuration that still does.

use super::place::{Done, Place};
use super::weaver;
use oomctl_base::word_list;

fn submit(place: &Place, more: &[&str]) -> Done {
    let words = ["submit", "--watch", "--backend", "local"];
    place.run(&[&words, more].concat())
}

#[test]
fn what_is_proposed_for_the_example_fits_at_once() {
    let place = Place::example();
    submit(&place, &[]).ends(0);
    let done = place.run(&["tune", "diamonds-seed0-1"]).ends(0);
    done.says(&[
        "From run diamonds-seed0-1, attempt 3, which fitted (peak 65.9 GiB reserved)",
        "keep-weights-on-gpu       param_offload                              true -> false",
        "not taken: keep-activations: would fit with a probability of <0.01 (measured peak and memory model)",
        "oomctl submit --fresh --preset verl-grpo --dataset diamonds-seed0 --backend local --set",
    ]);
    let bold = place
        .run(&["tune", "diamonds-seed0-1", "--min-fit-probability", "0.6"])
        .ends(0);
    bold.says(&["larger-logprob-batch", "probability to fit 0.88"]);
    let view = place.json("tune diamonds-seed0-1 --json");
    assert_eq!(view["schema_version"], 1);
    assert!(view["time_saved"].as_f64().unwrap() > 0.0);
    let steps = view["steps"].as_array().unwrap();
    assert!(
        steps.iter().all(|s| s["effect"] != "changes-training"),
        "{steps:?}"
    );
    let command: Vec<&str> = view["command"]
        .as_array()
        .unwrap()
        .iter()
        .map(|w| w.as_str().unwrap())
        .collect();
    let words = [&command[1..], &["--watch", "--run", "tuned"]].concat();
    place.run(&words).ends(0);
    assert_eq!(place.count("tuned", "submitted"), 1);
}

#[test]
fn a_dataset_starts_from_where_its_next_run_would() {
    let place = Place::example();
    // Nothing is known yet, and what is asked for is not expected to fit.
    place
        .run(&["tune", "diamonds-seed0"])
        .ends(3)
        .says(&["is not expected to fit", "oomctl plan"]);
    submit(&place, &[]).ends(0);
    let of_dataset = place
        .run(&["tune", "diamonds-seed0", "--backend", "local"])
        .ends(0);
    of_dataset.says(&["From run diamonds-seed0-1, attempt 3, which fitted", "-> "]);
}

#[test]
fn what_cannot_be_tuned_is_said_with_the_next_step() {
    let mut place = weaver::project("");
    submit(&place, &[]).ends(0);
    place
        .run("tune weaver-1")
        .ends(5)
        .says(&["no steps that make a job faster", "`tune:`"]);
    place.says("tune weaver-7", 2, &["did you mean weaver-1?"]);
    place.set("WEAVER", "fits 0");
    submit(&place, &["--fresh"]).ends(3);
    place.says("tune weaver-2", 3, &["did not prove that it fits"]);
}

/// The loom with steps that make it faster, and a knob that ends it early.
fn fast_loom() -> Place {
    let place = weaver::project("knobs:\n  threads: 2\n");
    let preset = weaver::PRESET.replace(
        "derived:",
        "  - { name: rows, spelling: { flag: --rows }, type: int, effect: changes-training, doc: Rows. }\n\
         \nderived:",
    );
    let tune = "
tune:
  - gain: 0.2
    because: fewer passes
    step: { rung: thicker, title: twice the threads, moves: [{ knob: threads, times: 2 }], laps: 5 }
probe: { steps: rows }
measures:
  - { measure: step_time, pattern: 'took (?P<value>[0-9]+) ms', unit: ms }
";
    place.write("presets/weaver.yaml", &(preset + tune));
    let trainer = place.read("trainer.sh").replace(
        r#"echo "woven $step of 3""#,
        r#"echo "woven $step of 3, took $((1200 / threads)) ms""#,
    );
    place.write("trainer.sh", &trainer);
    place
}

/// Runs of short jobs, by name.
fn probes(place: &Place) -> Vec<String> {
    let runs = std::fs::read_dir(place.path(".oomctl/runs")).unwrap();
    let names = runs.map(|r| r.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|n| n.contains("-probe-")).collect();
    names.sort();
    names
}

#[test]
fn short_jobs_find_the_fastest_that_fits_and_one_that_dies_is_an_answer() {
    let mut place = fast_loom();
    place.set("WEAVER", "fits 8");
    submit(&place, &[]).ends(0);
    let search = ["tune", "weaver-1", "--probe-steps", "3"];
    place
        .run(&[&search[..], &["--dry-run"]].concat())
        .ends(0)
        .says(&[
            "The next probe is weaver-1-probe-1, 3 training steps with thicker x3",
            "threads  8 -> 16",
            "--rows 3",
            "dry run: nothing was submitted",
        ]);
    assert!(!place.has(".oomctl/runs/weaver-1-probe-1"));
    // 64, 32, 16, 8 or 4 threads, and nothing is known: the middle dies, what lies above it with it.
    let found = place.run(&search).ends(0);
    found.says(&[
        "weaver-1          as it is       fitted         -     0.60",
        "weaver-1-probe-1  thicker x3     out of memory",
        "weaver-1-probe-2  thicker x2     fitted         -     0.15",
        "fastest: weaver-1-probe-2, 75 % less time a step (measured)",
        "threads: 8",
    ]);
    assert_eq!(probes(&place).len(), 2);
    for (probe, end) in [
        ("weaver-1-probe-1", "exhausted"),
        ("weaver-1-probe-2", "succeeded"),
    ] {
        assert_eq!(place.count(probe, "submitted"), 1, "{probe}");
        place.run(&["status", probe]).says(&[end]);
    }
    // The same command asks what is known already.
    let again = place.json(&[&search[..], &["--json"]].concat());
    assert_eq!(probes(&place).len(), 2);
    assert_eq!(again["stopped"], "nothing_to_gain");
    assert_eq!(again["rows"][1]["outcome"], "out_of_memory");
    assert_eq!(again["values"], serde_json::json!({ "threads": 8 }));
    // What a probe died of is learned; that one fitted for three steps is not.
    let learned = place.read(".oomctl/fits.jsonl");
    assert!(learned.contains("weaver-1-probe-1") && !learned.contains("weaver-1-probe-2"));
    place.says("tune weaver-1-probe-2", 2, &["oomctl tune weaver-1"]);

    place.run(&[&search[..], &["--write"]].concat()).ends(0);
    assert!(place.read("oomctl.yaml").contains("knobs:\n  threads: 8\n"));
    submit(&place, &["--run", "tuned"]).ends(0);
    assert!(weaver::words(&place, 1).contains(&"8".to_owned()));
}

#[test]
fn an_interrupted_search_names_its_job_and_goes_on_with_it() {
    let mut place = fast_loom();
    place.set("WEAVER", "wait");
    place.write("go", "");
    submit(&place, &[]).ends(0);
    std::fs::remove_file(place.path("go")).unwrap();
    let search = word_list::<6>("tune weaver-1 --probe-steps 2 --max-probes 1");
    let first = place.start(&search);
    place.wait_for_fact("weaver-1-probe-1", "submitted");
    first.signal(rustix::process::Signal::INT);
    first.end().ends(130).says(&[
        "detached; probe weaver-1-probe-1, job ",
        "`oomctl cancel weaver-1-probe-1` ends it",
    ]);
    place
        .run(&[&search[..], &["--dry-run"]].concat())
        .ends(0)
        .says(&["probe weaver-1-probe-1 has not ended"]);
    place.write("go", "");
    place.says(&search, 0, &["fastest: weaver-1-probe-1"]);
    assert_eq!(probes(&place), ["weaver-1-probe-1"]);
    assert_eq!(place.count("weaver-1-probe-1", "submitted"), 1);
}

#[test]
fn a_probe_that_fails_for_another_reason_ends_the_search_and_is_made_again() {
    let mut place = fast_loom();
    submit(&place, &[]).ends(0);
    place.set("WEAVER", "fail");
    let search = "tune weaver-1 --probe-steps 2 --max-probes 1";
    place.run(search).ends(1).says(&[
        "probe weaver-1-probe-1 proves nothing about its configuration",
        "KeyError: 'shuttle'",
    ]);
    place.set("WEAVER", "fits 64");
    place.says(search, 0, &["fastest: weaver-1-probe-2"]);
}

#[test]
fn what_fitted_on_another_backend_is_named_and_does_not_count() {
    let place = Place::example();
    submit(&place, &[]).ends(0);
    place
        .run("tune diamonds-seed0 --backend slurm")
        .ends(3)
        .says(&["run diamonds-seed0-1, attempt 3 fitted, but with backend local (here slurm)"]);
}

#[test]
fn the_example_is_made_faster_as_measured() {
    let place = Place::example();
    submit(&place, &[]).ends(0);
    let found = place.json("tune diamonds-seed0-1 --probe-steps 3 --json");
    assert_eq!(
        (&found["fastest"], &found["measured"]),
        (&1.into(), &true.into())
    );
    assert!(found["time_saved"].as_f64().unwrap() > 0.05);
    // Neither checkpoint nor validation of the probe, and none in what is proposed.
    let command = found["command"].to_string();
    assert!(!command.contains("total_training_steps") && !command.contains("save_freq"));
    let script = place.read(".oomctl/runs/diamonds-seed0-1-probe-1/attempt-1/run_grpo.sh");
    for word in [
        "trainer.total_training_steps=3",
        "trainer.save_freq=-1",
        "trainer.resume_mode=disable",
    ] {
        assert!(script.contains(word), "{word}\n{script}");
    }
}
