//! No rung of the verl ladder produces a configuration that verl refuses: every configuration from
//! eight starting points to the end of the ladder goes to Hydra with the released packages, to the
//! packages' own validator, and to a transcription of what workers and the first step assert.
//!
//! The checkers need six small Python packages and the released verl packages (`tests/verl/setup`).
//! In CI a missing one fails the test; elsewhere the test says that it was skipped.

#![expect(
    clippy::disallowed_methods,
    reason = "tests read the tree and run what was rendered"
)]

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::harness;
use crate::place::made_by;
use crate::walk::{STARTS, Stand, incident, start, verl, walk};
use oomctl_diagnose::Class;
use serde_json::{Value as Json, json};

/// The folder of the checkers' environment, or `None` where it cannot be had.
fn environment() -> Option<PathBuf> {
    made_by("tests/verl/setup")
}

/// The verdicts of a checker on some cases.
fn ask(folder: &PathBuf, script: &str, cases: &[Json]) -> Vec<Json> {
    let mut child = Command::new(folder.join("venv/bin/python"))
        .args(["-W", "ignore"])
        .arg(harness::root().join("tests/verl").join(script))
        .env("OOMCTL_VERL", folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines: String = cases.iter().map(|c| format!("{c}\n")).collect();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(lines.as_bytes()));
    let out = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(out.status.success(), "{script}: {}", out.status);
    let verdicts: Vec<Json> = String::from_utf8(out.stdout)
        .unwrap()
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    assert_eq!(
        verdicts.len(),
        cases.len(),
        "{script} left cases without a verdict"
    );
    verdicts
}

fn case(version: &str, name: &str, stand: &Stand) -> Json {
    let recipe = stand.shape.recipe();
    let number = |knob: &str| serde_json::to_value(recipe.value(knob)).unwrap();
    json!({
        "version": version,
        "name": name,
        "overrides": stand.overrides,
        "world": {
            "heads": number("model.heads"),
            "kv_heads": number("model.kv_heads"),
            "hidden": number("model.hidden"),
            "vocab": number("model.vocab"),
            "max_position_embeddings": number("model.max_position_embeddings"),
        },
    })
}

/// Configurations by what names them: version, overrides.
type Cases = BTreeMap<(String, Vec<String>), Json>;

fn collect(cases: &mut Cases, version: &str, name: &str, stands: &[Stand]) {
    for (i, stand) in stands.iter().enumerate() {
        let rung = stand.step.as_ref().map_or("start", |s| s.rung.as_str());
        let case = case(version, &format!("{name}, {i}: {rung}"), stand);
        cases.insert((version.to_owned(), stand.overrides.clone()), case);
    }
}

/// From every starting point up the ladder for GPU memory.
fn every_start(version: &str) -> Cases {
    let mut cases = Cases::new();
    let preset = verl(version);
    for (name, assignments) in STARTS {
        let layers = start(&preset, name, assignments);
        collect(&mut cases, version, name, &walk(&preset, &layers, None));
    }
    cases
}

/// From one starting point up the ladder for failures that have rungs of their own.
fn other_failures(version: &str) -> Cases {
    let mut cases = Cases::new();
    let preset = verl(version);
    let (name, assignments) = STARTS[1];
    let layers = start(&preset, name, assignments);
    for other in [
        incident("vllm_kv_cache", Class::EngineMemory, "kv_cache"),
        incident("host_oom", Class::HostOom, "rollout"),
        incident("cuda_driver_oom", Class::GpuOom, "wake_up"),
    ] {
        let stands = walk(&preset, &layers, Some(&other));
        let name = format!("{name}, {}", other.kind);
        collect(&mut cases, version, &name, &stands);
    }
    cases
}

/// Every configuration on the way up.
fn all_cases() -> Vec<Json> {
    std::thread::scope(|scope| {
        let starts = ["0.4.1", "0.5.0", "0.6.1", "0.7.1", "0.8.0", "0.9.1"];
        let others = ["0.4.0", "0.6.0", "0.7.0", "0.9.0"];
        let mut walks: Vec<_> = starts.map(|v| scope.spawn(move || every_start(v))).into();
        walks.extend(others.map(|v| scope.spawn(move || other_failures(v))));
        let done = walks.into_iter().flat_map(|w| w.join().unwrap());
        done.map(|(_, case)| case).collect()
    })
}

/// One case for each version and set of keys, which is all that composing depends on.
fn by_keys(cases: &[Json]) -> Vec<Json> {
    let mut seen = BTreeMap::new();
    for case in cases {
        let words = case["overrides"].as_array().unwrap().iter();
        let keys: Vec<&str> = words
            .map(|w| w.as_str().unwrap().split('=').next().unwrap())
            .collect();
        seen.entry((case["version"].to_string(), keys))
            .or_insert(case);
    }
    seen.into_values().cloned().collect()
}

#[test]
fn no_rung_leads_to_a_configuration_that_verl_refuses() {
    let Some(folder) = environment() else { return };
    let cases = all_cases();
    let keys = by_keys(&cases);
    assert!(cases.len() > 400, "only {} configurations", cases.len());
    let refused: Vec<Json> = std::thread::scope(|scope| {
        let checks = [
            ("compose_check.py", &keys),
            ("driver_check.py", &cases),
            ("legal.py", &cases),
        ]
        .map(|(script, cases)| (script, scope.spawn(|| ask(&folder, script, cases))));
        let verdicts = checks.into_iter().flat_map(|(script, c)| {
            let verdicts = c.join().unwrap();
            eprintln!("{script}: {} configurations", verdicts.len());
            verdicts
        });
        verdicts.filter(|v| v["ok"] != true).collect()
    });
    assert!(
        refused.is_empty(),
        "verl refuses {}: {refused:#?}",
        refused.len()
    );
}

/// Runs a Python test of `tests/verl`.
fn passes(folder: &Path, test: &str) {
    let out = Command::new(folder.join("venv/bin/python"))
        .args(["-W", "ignore"])
        .arg(harness::root().join("tests/verl").join(test))
        .env("OOMCTL_VERL", folder)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}");
    assert!(said.contains("OK"), "{said}");
}

#[test]
fn what_a_command_leaves_out_is_what_verl_takes() {
    let Some(folder) = environment() else { return };
    passes(&folder, "test_defaults.py");
}

#[test]
fn the_checkers_refuse_what_verl_refuses() {
    let Some(folder) = environment() else { return };
    passes(&folder, "test_legal.py");

    // The driver's validator is really run, and halving all batch keys blindly is refused.
    let blind = json!({"version": "0.9.1", "overrides": [
        "actor_rollout_ref.rollout.name=vllm",
        "data.train_batch_size=8",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1",
    ]});
    for script in ["driver_check.py", "legal.py"] {
        let verdict = &ask(&folder, script, std::slice::from_ref(&blind))[0];
        let accepted = verdict["ok"] == true;
        assert_eq!(accepted, script == "legal.py", "{script}: {verdict}");
    }
    let unknown = json!({"version": "0.6.1", "overrides": ["actor_rollout_ref.no_such_key=1"]});
    for script in ["compose_check.py", "driver_check.py", "legal.py"] {
        let verdict = &ask(&folder, script, std::slice::from_ref(&unknown))[0];
        assert_eq!(verdict["ok"], false, "{script}: {verdict}");
    }
}
