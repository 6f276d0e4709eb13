//! Configurations of several files; the expected values are what Hydra 1.3 composes of the same.

use std::collections::{BTreeMap, BTreeSet};

use super::compose;
use crate::walk::{Reading, Submission, follow};
use crate::{Launchers, Traced};

/// A program with a decorator.
const PROGRAM: &str = "@hydra.main(version_base=None, config_path=\"conf\", config_name=\"config\")\ndef main(c): pass\n";

fn read(line: &str, files: &[(&str, &str)]) -> Reading {
    let text = include_str!("../../../../presets/launchers/known.yaml");
    let launchers: Launchers = serde_yaml::from_str(text).unwrap();
    let submission = Submission {
        script: "a.sh".to_owned(),
        ..Submission::default()
    };
    let all = [("a.sh", line), ("train.py", PROGRAM)];
    let all = all.into_iter().chain(files.iter().copied());
    let files: BTreeMap<String, String> = all
        .map(|(path, text)| (path.to_owned(), text.to_owned()))
        .collect();
    let mut reading = follow(&submission, &files, &launchers, &BTreeSet::new());
    compose(&mut reading, &files);
    reading
}

/// The value of each key that counts, `?` behind one that something unread may hide; then what is not read.
fn check(line: &str, files: &[(&str, &str)], expected: &[(&str, &str)], unread: &[&str]) {
    let reading = read(line, files);
    let call = &reading.calls[0];
    for (key, value) in expected {
        let found = call.settings.iter().rev().find_map(|file| {
            let entry = file.find(key)?;
            let hidden = if file.hidden { "?" } else { "" };
            Some(format!(
                "{}{hidden}",
                entry.text.clone().unwrap_or_default()
            ))
        });
        assert_eq!(found.as_deref().unwrap_or("-"), *value, "{line}: {key}");
    }
    assert_eq!(call.all_unread().collect::<Vec<_>>(), unread, "{line}");
}

const CONFIG: (&str, &str) = (
    "conf/config.yaml",
    "defaults:\n  - model: small\n  - data: a\n  - optional local: mine\n  - _self_\n  - exp: null\n  - override hydra/launcher: submitit\nmodel:\n  depth: 9\nseed: 1\n",
);
const SMALL: (&str, &str) = ("conf/model/small.yaml", "depth: 2\nwidth: 8\n");
const LARGE: (&str, &str) = (
    "conf/model/large.yaml",
    "defaults:\n  - small\n  - /data@extra: b\nwidth: 64\n",
);
const A: (&str, &str) = ("conf/data/a.yaml", "batch: 4\n");
const B: (&str, &str) = ("conf/data/b.yaml", "batch: 8\n");
const EXP: (&str, &str) = (
    "conf/exp/long.yaml",
    "# @package _global_\ndefaults:\n  - override /data: b\n  - override /model: large\nseed: 7\nmodel:\n  depth: 5\n",
);

#[test]
fn files_are_composed_in_the_order_of_their_lists() {
    let plain = ("conf/exp/plain.yaml", "defaults:\n  - /data: a\nseed: 5\n");
    let list = (
        "conf/list.yaml",
        "defaults:\n  - data: [a, b]\n  - data@z: a\n",
    );
    let all = [CONFIG, SMALL, LARGE, A, B, EXP, plain, list];
    let of = |args: &str, expected: &[(&str, &str)]| {
        check(&format!("python train.py {args}"), &all, expected, &[]);
    };
    of(
        "",
        &[
            ("model.depth", "9"),
            ("model.width", "8"),
            ("data.batch", "4"),
            ("seed", "1"),
        ],
    );
    of(
        "model=large",
        &[
            ("model.width", "64"),
            ("model.depth", "9"),
            ("model.extra.batch", "8"),
        ],
    );
    of("data=b", &[("data.batch", "8")]);
    of("~data", &[("data.batch", "-")]);
    of(
        "exp=long",
        &[
            ("data.batch", "8"),
            ("model.width", "64"),
            ("model.depth", "5"),
            ("seed", "7"),
        ],
    );
    of("exp=long data=a", &[("data.batch", "4"), ("seed", "7")]);
    of("+data@more=b", &[("more.batch", "8"), ("data.batch", "4")]);
    of(
        "-cn exp/plain",
        &[("exp.seed", "5"), ("exp.data.batch", "4"), ("seed", "-")],
    );
    of(
        "-cn list data=[b,a]",
        &[("data.batch", "4"), ("z.batch", "4")],
    );
    of(
        "-cn list data@z=b",
        &[("data.batch", "8"), ("z.batch", "8")],
    );
}

#[test]
fn what_is_not_read_hides_what_stands_before_it_and_nothing_else() {
    check(
        "python train.py model=huge",
        &[CONFIG, SMALL, A],
        &[("data.batch", "4"), ("model.depth", "9")],
        &["model/huge"],
    );
    check(
        "python train.py exp=$EXP",
        &[CONFIG, SMALL, A],
        &[("data.batch", "4?"), ("seed", "1?")],
        &["exp"],
    );
    check(
        "python train.py +exp=$EXP",
        &[CONFIG, SMALL, A],
        &[("data.batch", "4?")],
        &["exp"],
    );
    check(
        "python other.py a.b=1 --config-name mine",
        &[],
        &[],
        &["mine"],
    );
    check("python other.py --config-name mine", &[], &[], &[]);
}

#[test]
fn a_header_counts_from_the_root_and_one_of_old_is_not_guessed() {
    let config = ("conf/config.yaml", "defaults: [{m: a}, _self_]\nx: 1\n");
    let outer = ("conf/m/a.yaml", "defaults: [b, c]\n");
    let header = ("conf/m/b.yaml", "# @package other.place\ny: 2\n");
    let group = ("conf/m/c.yaml", "# @package _group_\nz: 3\n");
    let all = [config, outer, header, group];
    let expected = [("other.place.y", "2"), ("m.z", "-"), ("_group_.z", "3")];
    check("python train.py", &all, &expected, &[]);
    let main = |version: &str| format!("@hydra.main('conf', 'config', {version})\ndef f(c): ...\n");
    let of = |version: &str, expected: &[(&str, &str)], unread: &[&str]| {
        let main = main(version);
        let program = ("train.py", main.as_str());
        check(
            "python train.py",
            &[&all[..], &[program]].concat(),
            expected,
            unread,
        );
    };
    of(
        "'1.1'",
        &[("m.z", "3"), ("other.place.y", "2"), ("x", "1")],
        &[],
    );
    of(
        "VERSION",
        &[("m.z", "-"), ("other.place.y", "2?"), ("x", "1")],
        &["conf/m/c.yaml"],
    );
}

#[test]
fn folders_are_those_of_the_options() {
    let more = ("more/config.yaml", "seed: 3\n");
    check(
        "python train.py --config-path ../more",
        &[("../more/config.yaml", "seed: 3\n")],
        &[("seed", "3")],
        &[],
    );
    check(
        "python train.py --config-path=$PWD/more",
        &[more],
        &[("seed", "3")],
        &[],
    );
    check(
        "python train.py -cd more -cn two",
        &[("more/two.yaml", "seed: 2\n")],
        &[("seed", "2")],
        &[],
    );
    let search = (
        "conf/config.yaml",
        "hydra:\n  searchpath: [file://more]\ndefaults: [base, _self_]\nx: 1\n",
    );
    let base = ("more/base.yaml", "seed: 3\nx: 2\n");
    check(
        "python train.py",
        &[search, base],
        &[("seed", "3"), ("x", "1")],
        &[],
    );
}

#[test]
fn a_configuration_that_names_itself_is_read_to_an_end() {
    let own = (
        "conf/config.yaml",
        "defaults: [config, /config, ../conf/config, _self_]\nx: 1\n",
    );
    let reading = read("python train.py", &[own]);
    assert!(reading.cut);
    assert!(reading.calls[0].settings.len() <= super::MAX_PARTS + super::MAX_DEPTH);
    let place = reading.calls[0]
        .settings
        .last()
        .and_then(|f| Traced::place(&f.content));
    assert!(place.is_some());
}
