//! Values that would like to be commands, paths or options: never executed, never outside the run
//! folder; handed over as they stand, or refused with a clear error.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicUsize, Ordering};

use oomctl::core::config::from_flags;
use oomctl::core::recipe::{ClusterFacts, Layer, LayerKind, Preset};
use oomctl_base::{ValueKind, word_list};

use super::place::{Done, Place, at_once};
use super::slurm::Slurm;
use super::{harness, weaver};

const HOSTILE: [&str; 28] = [
    "a b",
    " leading and trailing ",
    "it's",
    "say \"x\"",
    "\"",
    "'",
    "$(touch pwned)",
    "`touch pwned`",
    "x;touch pwned;",
    "x && touch pwned",
    "x | touch pwned",
    "x\ntouch pwned\n",
    "'; touch pwned; '",
    "\"; touch pwned; \"",
    "../../../../tmp/pwned",
    "-rf",
    "--help",
    "${HOME}",
    "$HOME \\$HOME",
    "{{ 7 * 7 }} {% raw %}",
    "a\\b\\",
    "*?[x]!! !1 ~",
    "{a,b} [1,2] (3)",
    "key=value,other: 1 # comment",
    "#SBATCH --wrap=touch",
    "tab\there\rreturn",
    "\u{1b}[31mred\u{7}",
    "ünïcödé 🚀 \u{202e}rtl",
];

/// Text knobs of the preset whose value the trainer cannot be asked about: they name programs,
/// containers and shell lines of the user's own.
const NOT_HANDED_ON: [&str; 8] = word_list(
    "launcher setup modules secrets container_image container_runtime container_mounts
     container_args",
);

/// The trainer of these stories: reads verl's overrides as Hydra would and notes them.
const LISTENER: &str = r#"
import json, os, sys
from sim.overrides import parse_value
heard = {}
for word in sys.argv[1:]:
    key, _, text = word.partition("=")
    heard[key.lstrip("+")] = parse_value(text)
json.dump({"words": sys.argv[1:], "heard": heard, "env": dict(os.environ)}, open("heard.json", "w"))
"#;

fn preset() -> Preset {
    harness::preset("verl-grpo", None)
}

/// Why a value cannot be a knob's, if it cannot.
fn refused(preset: &Preset, dataset: &Layer, assignment: &str) -> Option<String> {
    let layer = match from_flags(preset, &[assignment.to_owned()], &[]) {
        Ok(layer) => layer,
        Err(e) => return Some(e.to_string()),
    };
    let layers = [dataset.clone(), layer];
    let shape = harness::shape(preset, &layers, &ClusterFacts::default());
    shape.err().map(|e| e.to_string())
}

fn text_knobs(preset: &Preset) -> Vec<String> {
    let texts = preset.knobs.iter().filter(|k| k.kind == ValueKind::Text);
    texts
        .map(|k| k.name.clone())
        .filter(|n| !NOT_HANDED_ON.contains(&n.as_str()))
        .collect()
}

#[test]
fn every_text_knob_hands_a_hostile_value_over_as_it_stands_or_refuses_it() {
    let preset = preset();
    let dataset = "presets/datasets/diamonds-seed0.yaml";
    let dataset = harness::profile(&preset, dataset, LayerKind::Dataset);
    let knobs = text_knobs(&preset);
    assert!(knobs.len() > 12, "{knobs:?}");
    let handed_over = AtomicUsize::new(0);
    at_once(&HOSTILE, |&hostile| {
        let place = Place::example();
        place.write("listen.py", LISTENER);
        let mut arguments: Vec<String> =
            ["submit", "--backend", "local"].map(str::to_owned).to_vec();
        arguments.extend([
            "--set".to_owned(),
            "launcher=[\"python3\",\"listen.py\"]".to_owned(),
        ]);
        let mut set: BTreeMap<&str, String> = BTreeMap::new();
        for (n, knob) in knobs.iter().enumerate() {
            let value = format!("{hostile}<{n}>");
            let assignment = format!("{knob}={value}");
            match refused(&preset, &dataset, &assignment) {
                Some(why) => assert!(why.contains(knob.as_str()), "{assignment:?}: {why}"),
                None => {
                    arguments.extend(["--set".to_owned(), assignment]);
                    set.insert(knob, value);
                }
            }
        }
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let done = place.run(&words);
        assert_eq!(done.code, 0, "{hostile:?}: {}", done.told());
        place.wait_for("the end of the job", || place.has(".oomctl/local/1/exit"));
        let heard: serde_json::Value = serde_json::from_str(&place.read("heard.json")).unwrap();
        let texts: Vec<&str> = [&heard["heard"], &heard["env"]]
            .into_iter()
            .flat_map(|map| map.as_object().unwrap().values())
            .filter_map(|v| v.as_str())
            .collect();
        for (knob, value) in &set {
            let mark = &value[hostile.len()..];
            for text in texts.iter().filter(|t| t.contains(mark)) {
                let fits = *text == value || text.ends_with(&format!("/{value}"))
                    // The folder of checkpoints is made of project and experiment name.
                    || text.contains(&format!("/{value}/"));
                assert!(fits, "{knob}: {value:?} came as {text:?}");
                handed_over.fetch_add(1, Ordering::Relaxed);
            }
        }
        pristine(&place, hostile);
    });
    let handed_over = handed_over.into_inner();
    assert!(
        handed_over > 100,
        "only {handed_over} values were handed over"
    );
}

/// Nothing was executed and nothing lies where it should not.
#[track_caller]
fn pristine(place: &Place, what: &str) {
    assert!(
        !place.has("pwned") && !place.home.join("pwned").exists(),
        "{what:?} was executed"
    );
    assert!(
        !std::path::Path::new("/tmp/pwned").exists(),
        "{what:?} left the folder"
    );
    let outside: Vec<_> = std::fs::read_dir(place.root.parent().unwrap())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .filter(|n| n != "home" && n != place.root.file_name().unwrap())
        .collect();
    assert!(outside.is_empty(), "{what:?} left {outside:?}");
}

#[test]
fn a_very_long_value_and_a_nul_byte_end_in_an_answer() {
    let place = weaver::project("knobs: { threads: 2 }");
    let long = "x".repeat(100_000);
    let done = place.run(&[
        "submit",
        "--watch",
        "--backend",
        "local",
        "--set",
        &format!("motto={long}"),
    ]);
    match done.code {
        0 => assert!(weaver::words(&place, 1).contains(&format!("--motto={long}"))),
        _ => done.ends(5).says(&["motto"]),
    }
    let place = weaver::project("knobs: { threads: 2, motto: \"a\\0b\" }");
    place.says("submit --backend local", 5, &["motto"]);
    assert!(!place.has("argv.1"));
}

#[test]
fn values_of_a_file_are_no_more_dangerous_than_those_of_a_flag() {
    at_once(&HOSTILE, |&hostile| {
        let quoted = serde_json::to_string(hostile).unwrap();
        let place = weaver::project(&format!(
            "knobs: {{ threads: 2, motto: {quoted}, dye: {quoted}, environment: {{ FIBRE: {quoted} }} }}"
        ));
        let done = place.run(&["submit", "--backend", "local"]);
        assert_eq!(done.code, 0, "{hostile:?}: {}", done.told());
        place.wait_for("the end of the job", || place.has(".oomctl/local/1/exit"));
        let words = weaver::words(&place, 1);
        assert_eq!(
            words.last().unwrap(),
            &format!("--motto={hostile}"),
            "{words:?}"
        );
        let seen = place.read("env.1");
        for name in ["FIBRE", "WEAVER_DYE"] {
            assert!(
                seen.contains(&format!("{name}={hostile}\0")),
                "{name}: {hostile:?}"
            );
        }
        pristine(&place, hostile);
    });
}

#[test]
fn names_of_runs_and_profiles_are_names_or_refused() {
    at_once(&HOSTILE, |&hostile| {
        let place = weaver::project("");
        for flag in ["--run", "--dataset", "--cluster", "--preset"] {
            let argument = format!("{flag}={hostile}");
            let done = place.run(&["submit", "--backend", "local", &argument]);
            assert!(matches!(done.code, 2 | 5), "{argument:?}: {}", done.told());
            let raw = done.err.chars().any(|c| c.is_control() && c != '\n');
            assert!(
                !raw,
                "{argument:?}: control characters reach the terminal: {:?}",
                done.err
            );
        }
        for command in ["watch", "status", "cancel"] {
            let done = place.run(&[command, "--", hostile]);
            assert_eq!(done.code, 2, "{command} {hostile:?}: {}", done.told());
        }
        assert!(!place.has(".oomctl"));
        pristine(&place, hostile);
    });
}

#[test]
fn a_project_folder_may_be_called_anything() {
    let names: [&[u8]; 8] = [
        b"with spaces and 'quotes' \"twice\"",
        b"$(touch pwned)",
        b"`touch pwned`; touch pwned",
        b"-rf",
        b"100%j %u \\backslash",
        "ünïcödé".as_bytes(),
        b"new\nline",
        b"not \xff utf-8",
    ];
    at_once(&names, |name| {
        let place = Place::named(std::ffi::OsStr::from_bytes(name));
        weaver::furnish(&place);
        place.write(
            "oomctl.yaml",
            "preset: weaver\nknobs: { threads: 4 }\nsupervision: { poll: 1s, drain: 0s }\n",
        );
        let done = place.run(&["submit", "--watch", "--backend", "local"]);
        if std::str::from_utf8(name).is_err() {
            done.ends(5).says(&["UTF-8"]);
        } else {
            assert_eq!(done.code, 0, "{:?}: {}", place.root, done.told());
            assert_eq!(
                place.read("pwd.2").trim_end_matches('\n'),
                place.root.to_str().unwrap()
            );
        }
        pristine(&place, &String::from_utf8_lossy(name));
    });
}

#[test]
fn options_for_sbatch_and_overrides_arrive_as_one_word_each() {
    let mut place = weaver::project("knobs: { threads: 2 }");
    let slurm = Slurm::before(&mut place);
    let option = "--mail-user=$(touch pwned) 'x' \"y\"";
    place
        .run(&["submit", "--watch", &format!("--sbatch={option}")])
        .ends(0);
    assert!(
        slurm.calls("sbatch")[0].starts_with(&format!("{option} ")),
        "{:?}",
        slurm.calls("sbatch")
    );
    pristine(&place, option);
    let place = Place::example();
    place.write("listen.py", LISTENER);
    let done: Done = place.run(&[
        "submit",
        "--watch",
        "--backend",
        "local",
        "--set",
        "launcher=[\"python3\",\"listen.py\"]",
        "--override",
        "+trainer.motto='$(touch pwned); `touch pwned`'",
    ]);
    let done = done.ends(0);
    let heard: serde_json::Value = serde_json::from_str(&place.read("heard.json")).unwrap();
    assert_eq!(
        heard["heard"]["trainer.motto"],
        "$(touch pwned); `touch pwned`",
        "{}",
        done.told()
    );
    pristine(&place, "override");
}

#[test]
fn what_a_log_says_never_reaches_the_terminal_as_escape_codes() {
    let place = weaver::project("");
    let trainer = "printf 'torch.OutOfMemoryError: CUDA out of memory. \\033]0;owned\\007\\033[2J Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.18 GiB of which 1.00 GiB is free.\\n' >&2\nexit 1\n";
    place.write("trainer.sh", trainer);
    let done = place
        .run(&["submit", "--watch", "--backend", "local", "--attempts", "1"])
        .ends(8);
    let json = place.run(&["status", "--json"]).ends(0);
    for text in [&done.out, &done.err, &json.out] {
        assert!(
            !text.contains('\u{1b}') && !text.contains('\u{7}'),
            "{text:?}"
        );
    }
}
