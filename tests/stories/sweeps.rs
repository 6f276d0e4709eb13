//! A sweep is judged before its first cell runs, and mended in its own file.

use std::fs;

use super::place::Place;
use oomctl_base::word_list;

/// The example of the case from the field.
pub fn path_star() -> Place {
    let place = Place::bare();
    for name in
        "oomctl.yaml sweep.yaml train.py presets/path-star.yaml templates/path-star/job.sbatch.j2"
            .split_whitespace()
    {
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
    let fixed = place.run("sweep fix sweep.yaml --set graph_vocab_size=10000 -o fixed.yaml");
    let fixed = fixed.ends(0);
    insta::assert_snapshot!(
        "sweep_fix",
        format!("{}\n{}", fixed.err, place.read("fixed.yaml"))
    );
    let checked = place.run(&["sweep", "check", "fixed.yaml"]).ends(0);
    insta::assert_snapshot!("sweep_check_fixed", checked.out);
    place.says("sweep fix fixed.yaml", 0, &["every cell runs as it is"]);
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
    let fixed = place.json("sweep fix sweep.yaml --json");
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
        .run("sweep fix graph_d=250 n_embd=64,4096")
        .ends(0)
        .says(&["note: the effect of n_embd on memory is unknown"]);
    let preset = place.read("presets/path-star.yaml");
    let named = preset.replace("indifferent: [", "indifferent: [n_embd, ");
    assert_ne!(named, preset);
    place.write("presets/path-star.yaml", &named);
    place.says(&grid, 0, &["fits: 2"]);
}

#[test]
fn overrides_are_a_sweep_too_and_faults_have_their_place() {
    let place = path_star();
    let grid = word_list::<4>("sweep check graph_d=250,3000 graph_vocab_size=10000");
    place
        .run(&grid)
        .ends(5)
        .says(&["every-node-has-a-name", "at most 2499", "at least 12001"]);
    place.write(
        "bad.yaml",
        "method: grid\nparameters:\n  graph_d: {values: []}\n",
    );
    place
        .run("sweep check bad.yaml")
        .ends(5)
        .says(&["bad.yaml:3", "`values` is empty"]);
    place.write("bad.yaml", "parameters:\n  graph_d: {values: [many]}\n");
    place.says("sweep check bad.yaml", 5, &["graph_d", "a whole number"]);
    place.says("sweep check nowhere.yaml", 2, &["nowhere.yaml"]);
    place.says("sweep check a=glob(*)", 5, &["list its values instead"]);
    place
        .run("sweep fix sweep.yaml --set embedding_dim=100000000")
        .ends(5)
        .says(&["no change makes every cell run"]);
}

/// A sweep for which nobody chose a preset.
fn plain(program: &str, parameters: &str) -> Place {
    let place = Place::bare();
    place.write("train.py", program);
    place.write(
        "sweep.yaml",
        &format!("program: train.py\nmethod: grid\nparameters:\n{parameters}"),
    );
    place
}

const GPT2: &str = "  batch_size: {values: [1, 1024]}\n  lr: {values: [0.1, 0.2]}\n";
const SAYS: [&str; 10] = word_list(
    "--set gpu_memory=24GiB --set precision=fp32 --set sharding=none --set optimizer=adamw --set
     attention=sdpa",
);

#[test]
fn a_sweep_without_a_preset_is_read_from_its_program() {
    let place = plain(
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--batch_size', type=int, default=8)\n\
         p.add_argument('--lr', type=float, default=0.1)\np.add_argument('--model', default='openai-community/gpt2-xl')\n\
         p.add_argument('--block_size', type=int, default=1024)\np.add_argument('--gradient_checkpointing', action='store_true')\n",
        GPT2,
    );
    // What the program does not say is asked for, whatever the preset's default is.
    let checked = place.run(&["sweep", "check", "sweep.yaml", "--set", "gpu_memory=24GiB"]);
    let text = checked.ends(3).out;
    for word in ["unknown", "train.py does not say", "precision", "attention"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(!text.contains("fits"), "{text}");
    let mut words = vec!["sweep", "check", "sweep.yaml", "--json"];
    words.extend(SAYS);
    words.extend(["--set", "model.gated=false"]);
    let json = place.run(&words).ends(3).json();
    assert_eq!(json["verdicts"]["does_not_fit"], 2, "{json:#}");
    assert_eq!(json["verdicts"].get("fits"), None, "{json:#}");
    let peaks: Vec<f64> = json["judged"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|c| c["peak_gib"].as_f64())
        .collect();
    // 1.6 billion parameters, 16 bytes each.
    assert!(peaks.iter().all(|p| *p > 23.0), "{peaks:?}");
    // A default that is computed is none.
    place.write(
        "train.py",
        "p.add_argument('--model', default='openai-community/gpt2')\np.add_argument('--block_size', default=longest())\n",
    );
    place.says(&words, 3, &["unknown", "max_seq_len"]);
}

#[test]
fn a_sweep_of_a_program_that_nothing_knows_is_unknown_and_no_error_of_another_preset() {
    let place = plain("import argparse\n", "  n_embd: {values: [256, 4096]}\n");
    let checked = place.run(&["sweep", "check", "sweep.yaml", "--set", "gpu_memory=24GiB"]);
    let (out, err) = {
        let c = checked.ends(3);
        (c.out, c.err)
    };
    assert!(out.contains("unknown") && !out.contains("fits"), "{out}");
    assert!(!err.contains("train_files"), "{err}");
    let refused = place
        .run(&["sweep", "submit", "sweep.yaml", "--dry-run"])
        .ends(5);
    assert!(refused.err.contains("--preset"), "{}", refused.err);
}
