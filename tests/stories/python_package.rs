//! The Python package beside the program: its own tests, with and without the stand-in for NVML.
//! Without python3 they are skipped, with a word; in CI that fails.

use std::process::Command;

use crate::nvml::Gpus;

fn unittest(python: &str) -> Option<Command> {
    let version = Command::new(python).arg("--version").output();
    if !version.is_ok_and(|output| output.status.success()) {
        assert!(std::env::var_os("CI").is_none(), "no {python}");
        eprintln!("skipped: no {python}");
        return None;
    }
    let mut command = Command::new(python);
    command
        .args(["-B", "-m", "unittest", "--quiet"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/python"))
        .env("OOMCTL_PROGRAM", env!("CARGO_BIN_EXE_oomctl"))
        .env_remove("CUDA_VISIBLE_DEVICES")
        .env_remove("CUDA_DEVICE_ORDER");
    Some(command)
}

fn passes(mut command: Command) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let ran = said.lines().find_map(|line| {
        let count = line.strip_prefix("Ran ")?.split(' ').next()?;
        count.parse::<u32>().ok()
    });
    assert!(ran.is_some_and(|count| count > 30), "{said}");
}

#[test]
fn its_tests_pass_without_a_driver() {
    if let Some(command) = unittest("python3") {
        passes(command);
    }
}

/// mypy is in the checkers' environment, which `tests/verl/setup` makes.
#[test]
fn its_types_are_strict() {
    let target = std::env::var("CARGO_TARGET_DIR")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/target").to_owned());
    let python = std::path::Path::new(&target).join("verl/venv/bin/python");
    let cache = tempfile::tempdir().unwrap();
    let output = Command::new(python)
        .args(["-m", "mypy", "--strict", "--cache-dir"])
        .arg(cache.path())
        .arg("oomctl")
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/python"))
        .output();
    let said = output.map(|o| {
        (
            o.status.success(),
            String::from_utf8_lossy(&o.stdout).into_owned(),
        )
    });
    let missing = said
        .as_ref()
        .map_or(true, |(passed, out)| !passed && out.is_empty());
    if missing && std::env::var_os("CI").is_none() {
        eprintln!("skipped: no mypy (tests/verl/setup installs it)");
        return;
    }
    let (passed, out) = said.unwrap();
    assert!(passed, "{out}");
}

#[test]
fn it_asks_the_driver_and_passes_over_a_gpu_that_cannot_be_opened() {
    let gpus = Gpus::new(&[
        "gpu uuid=GPU-a name=H100 total_mib=81920 used_mib=81000",
        "gpu uuid=GPU-b name=H100 total_mib=81920 used_mib=0 error=4",
        "gpu uuid=GPU-c name=H100 total_mib=81920 used_mib=1024",
    ]);
    if let Some(mut command) = unittest("python3") {
        command.envs(gpus.variables());
        passes(command);
    }
}

/// The script that measures on a GPU has none here: that it can be read and says what it would measure is all
/// that is known of it.
#[test]
fn what_would_be_measured_on_a_gpu_is_told_without_one() {
    let Some(_) = unittest("python3") else {
        return;
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/gpu/measure.py");
    let folder = tempfile::tempdir().unwrap();
    let python = |arguments: &[&str]| {
        let mut command = Command::new("python3");
        command
            .args(arguments)
            .env("PYTHONPYCACHEPREFIX", folder.path());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        String::from_utf8(output.stdout).unwrap()
    };
    python(&["-m", "py_compile", script]);
    let grid = python(&[script, "--dry-run"]);
    let rows: Vec<serde_json::Value> = grid
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let ids: std::collections::BTreeSet<&str> =
        rows.iter().filter_map(|r| r["id"].as_str()).collect();
    assert!(
        rows.len() > 100 && ids.len() == rows.len(),
        "{} rows",
        rows.len()
    );
    // They are bare specifications as they stand.
    let table = folder.path().join("grid.jsonl");
    std::fs::write(&table, &grid).unwrap();
    let mut oomctl = Command::new(env!("CARGO_BIN_EXE_oomctl"));
    let told = oomctl
        .arg("estimate")
        .arg("--jsonl")
        .arg(&table)
        .output()
        .unwrap();
    assert!(told.status.success());
    assert_eq!(told.stdout.split(|b| *b == b'\n').count() - 1, rows.len());
    let first: serde_json::Value =
        serde_json::from_slice(told.stdout.split(|b| *b == b'\n').next().unwrap()).unwrap();
    assert!(
        first["predicted_peak_gib"]
            .as_f64()
            .is_some_and(|gib| gib > 0.0)
    );
}
