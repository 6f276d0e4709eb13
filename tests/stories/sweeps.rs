//! A sweep is judged before its first cell runs, and mended in its own file.

use std::fs;

use super::place::Place;

/// The example of the case from the field.
pub fn path_star() -> Place {
    let place = Place::bare();
    for name in [
        "oomctl.yaml",
        "sweep.yaml",
        "train.py",
        "presets/path-star.yaml",
        "templates/path-star/job.sbatch.j2",
    ] {
        let from = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/path-star/");
        place.write(name, &fs::read_to_string(format!("{from}{name}")).unwrap());
    }
    place
}

#[test]
fn the_sweep_of_the_example_is_judged_and_mended() {
    let place = path_star();
    let checked = place.run(&["sweep", "check", "sweep.yaml", "--requested", "7.45GiB"]);
    insta::assert_snapshot!("sweep_check", checked.ends(3).out);
    let fixed = place.run(&[
        "sweep",
        "fix",
        "sweep.yaml",
        "--set",
        "graph_vocab_size=10000",
        "-o",
        "fixed.yaml",
    ]);
    let fixed = fixed.ends(0);
    insta::assert_snapshot!(
        "sweep_fix",
        format!("{}\n{}", fixed.err, place.read("fixed.yaml"))
    );
    let checked = place.run(&["sweep", "check", "fixed.yaml"]).ends(0);
    insta::assert_snapshot!("sweep_check_fixed", checked.out);
    place
        .run(&["sweep", "fix", "fixed.yaml"])
        .ends(0)
        .says(&["every cell runs as it is"]);
}

#[test]
fn json_has_what_the_text_has() {
    let place = path_star();
    let checked = place
        .run(&["sweep", "check", "sweep.yaml", "--json"])
        .ends(3);
    let json = checked.json();
    assert_eq!(
        (&json["cells"], &json["exit_code"]),
        (&36.into(), &3.into())
    );
    assert_eq!(json["verdicts"]["does_not_fit"], 36);
    assert_eq!(json["findings"][0]["terms"][0]["gib"], 1490.12);
    assert_eq!(
        json["findings"][0]["to_blame"][0]["parameter"],
        "graph_vocab_size"
    );
    let without: Vec<_> = json["without_effect"].as_array().unwrap().clone();
    assert!(without.contains(&"seed".into()), "{without:?}");
    let fixed = place
        .run(&["sweep", "fix", "sweep.yaml", "--json"])
        .ends(0)
        .json();
    assert_eq!(fixed["changes"][0]["change"], "add");
}

#[test]
fn a_parameter_that_no_formula_mentions_makes_the_verdict_unknown() {
    let place = path_star();
    let grid = ["sweep", "check", "graph_d=250", "n_embd=64,4096"];
    let checked = place.run(&grid).ends(3);
    checked.says(&[
        "unknown: 2",
        "the effect of n_embd on memory is unknown",
        "`recognise: indifferent`",
    ]);
    place
        .run(&["sweep", "fix", "graph_d=250", "n_embd=64,4096"])
        .ends(0)
        .says(&["note: the effect of n_embd on memory is unknown"]);
    let preset = place.read("presets/path-star.yaml");
    let named = preset.replace("indifferent: [", "indifferent: [n_embd, ");
    assert_ne!(named, preset);
    place.write("presets/path-star.yaml", &named);
    place.run(&grid).ends(0).says(&["fits: 2"]);
}

#[test]
fn overrides_are_a_sweep_too_and_faults_have_their_place() {
    let place = path_star();
    let grid = [
        "sweep",
        "check",
        "graph_d=250,3000",
        "graph_vocab_size=10000",
    ];
    place
        .run(&grid)
        .ends(5)
        .says(&["every-node-has-a-name", "at most 2499", "at least 12001"]);
    place.write(
        "bad.yaml",
        "method: grid\nparameters:\n  graph_d: {values: []}\n",
    );
    place
        .run(&["sweep", "check", "bad.yaml"])
        .ends(5)
        .says(&["bad.yaml:3", "`values` is empty"]);
    place.write("bad.yaml", "parameters:\n  graph_d: {values: [many]}\n");
    place
        .run(&["sweep", "check", "bad.yaml"])
        .ends(5)
        .says(&["graph_d", "a whole number"]);
    place
        .run(&["sweep", "check", "nowhere.yaml"])
        .ends(2)
        .says(&["nowhere.yaml"]);
    place
        .run(&["sweep", "check", "a=glob(*)"])
        .ends(5)
        .says(&["list its values instead"]);
    let stuck = [
        "sweep",
        "fix",
        "sweep.yaml",
        "--set",
        "embedding_dim=100000000",
    ];
    place
        .run(&stuck)
        .ends(5)
        .says(&["no change makes every cell run"]);
}
