//! Files of YAML that Python reads: what it will make of them is told before a GPU is asked for.

use std::process::Command;

use oomctl_scripts::yaml::Yaml;

use super::place::Place;
use oomctl_base::word_list;

#[test]
fn a_sweep_and_a_copied_file_are_told_of_with_place_and_what_to_write() {
    let place = Place::example_named("path-star");
    let sweep = place.read("sweep.yaml");
    place.run(&["sweep", "check", "sweep.yaml"]).ends(3);
    assert!(
        !place
            .run(&["sweep", "check", "sweep.yaml"])
            .err
            .contains("warning")
    );
    place.write(
        "sweep.yaml",
        &format!("{sweep}  learning_rate: {{value: 1e-4}}\n"),
    );
    let line = sweep.lines().count() + 1;
    let told = format!(
        "warning: sweep.yaml:{line}:26: `1e-4` is text to PyYAML, not a number; write 1.0e-4"
    );
    place.run(&["sweep", "check", "sweep.yaml"]).says(&[&told]);

    let place = Place::example_named("swarm");
    let file = "rgym_exp/config/rg-swarm.yaml";
    let text = place.read(file);
    assert!(!place.run(&["plan"]).ends(0).err.contains("warning"));
    place.write(file, &format!("{text}\nstart: 12:00:00\n"));
    let told = format!(
        "{file}:{}:8: `12:00:00` is the number 43200 to Python, in base 60; write '12:00:00'",
        text.lines().count() + 2
    );
    place.says("plan", 0, &[&told]);
    place.run(&["submit", "--dry-run"]).ends(0);
}

/// The warnings against PyYAML itself: a scalar is told of exactly where PyYAML reads something else than YAML 1.2.
#[test]
fn pyyaml_reads_what_the_warnings_say() {
    let program = "import sys, yaml\nfor line in sys.argv[1:]:\n    print(type(yaml.safe_load('a: ' + line)['a']).__name__)";
    let scalars = [
        ("1e-6", "str"),
        ("-1E5", "str"),
        ("1.5e6", "str"),
        ("no", "bool"),
        ("Off", "bool"),
        ("12:00:00", "int"),
        ("010", "int"),
        ("0_7", "int"),
        ("0o17", "str"),
        ("1_000", "int"),
        ("2024-01-01", "date"),
    ];
    let instead =
        word_list::<11>("1.0e-6 -1.0e+5 1.5e+6 false false '12:00:00' 10 7 15 1000 '2024-01-01'");
    let words = scalars.iter().map(|(s, _)| *s).chain(instead);
    let Ok(out) = Command::new("python3")
        .arg("-c")
        .arg(program)
        .args(words)
        .output()
    else {
        eprintln!("no python3 here: nothing was compared");
        return;
    };
    if !out.status.success() {
        eprintln!("no PyYAML here: nothing was compared");
        return;
    }
    let types = String::from_utf8(out.stdout).unwrap();
    let types: Vec<&str> = types.lines().collect();
    let meant = [
        "float", "float", "float", "bool", "bool", "str", "int", "int", "int", "int", "str",
    ];
    for (i, (scalar, is)) in scalars.iter().enumerate() {
        assert_eq!(types[i], *is, "{scalar}");
        assert_eq!(types[scalars.len() + i], meant[i], "{scalar}");
        let misread = Yaml::parse("f", &format!("a: {scalar}\n"))
            .unwrap()
            .misread();
        assert_eq!(misread.len(), 1, "{scalar}");
        assert!(misread[0].instead.starts_with(instead[i]), "{misread:?}");
    }
}
