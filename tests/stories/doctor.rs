//! `doctor` where all is well, and where each thing is not.

use std::path::Path;
use std::time::Instant;

use serde_json::Value;

use super::place::{Done, PATIENCE, Place, install};
use super::slurm::Slurm;

/// The finding of a check.
fn finding(done: &Done, check: &str) -> (String, String, String) {
    let view = done.json();
    let all = view["findings"].as_array().unwrap();
    let found = all.iter().find(|f| f["check"] == check);
    let found = found.unwrap_or_else(|| panic!("{check}: {view:#}"));
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    (text("health"), text("found"), text("advice"))
}

/// A place whose Slurm is scripts: sbatch, scontrol, sacct, squeue.
fn scripted(sbatch: &str, scontrol: &str, sacct: &str, squeue: &str) -> Place {
    let mut place = Place::bare();
    place.write("oomctl.yaml", "preset: torchrun\n");
    let bin = place.root.join("bin");
    std::fs::create_dir(&bin).unwrap();
    let bodies = [
        ("sbatch", sbatch),
        ("scontrol", scontrol),
        ("sacct", sacct),
        ("squeue", squeue),
    ];
    for (name, body) in bodies {
        install(&bin.join(name), &format!("#!/bin/bash\n{body}\n"));
    }
    place.first_on_path = vec![bin];
    place
}

/// A place where only these folders are on PATH.
fn with_path(folders: &[&Path]) -> Place {
    let mut place = Place::bare();
    let folders: Vec<String> = folders.iter().map(|f| f.display().to_string()).collect();
    place.set("PATH", &folders.join(":"));
    place
}

const VERSION: &str = "echo slurm 24.05.3";
const CONTROLLER: &str = r#"
case "$*" in
  ping) echo "Slurmctld(primary) at ctl is UP" ;;
  *partition*) echo "PartitionName=gpu AllowGroups=ALL AllocNodes=ALL Default=YES"; echo "PartitionName=long AllocNodes=login1,login2" ;;
esac"#;
const JSON: &str = r#"echo '{ "jobs": [] }'"#;

#[test]
fn all_is_well_and_each_line_says_so() {
    let place = scripted(VERSION, CONTROLLER, JSON, JSON);
    let done = place.run(&["doctor"]).ends(0);
    done.says(&[
        "slurm 24.05.3",
        "Slurmctld(primary) at ctl is UP",
        "sacct answers",
        "squeue --json works",
        "write, sync, rename and hard link work",
        "this machine and the file server agree",
        "not everywhere: long",
        "no NVIDIA driver on this machine",
        "UTF-8",
        "No problems found",
    ]);
    assert!(!place.has(".oomctl"), "a look leaves nothing behind");
    let left = std::fs::read_dir(&place.root).unwrap().count();
    assert_eq!(left, 2, "oomctl.yaml and bin");
    let json = place.run(&["doctor", "--json"]).ends(0);
    assert_eq!(json.json()["schema_version"], 1);
    assert_eq!(finding(&json, "accounting").0, "good");
}

#[test]
fn a_machine_without_slurm_is_no_fault() {
    let place = with_path(&[]);
    let done = place.run(&["doctor", "--json"]).ends(0);
    let (health, found, advice) = finding(&done, "Slurm");
    assert_eq!(health, "absent");
    assert!(found.contains("no sbatch on PATH"), "{found}");
    assert!(advice.contains("module load slurm"), "{advice}");
    assert!(finding(&done, "project").2.contains("oomctl init"));
}

#[test]
fn commands_that_hang_cost_the_deadline_once() {
    let hang = "exec tail -f /dev/null";
    let place = scripted(hang, hang, hang, hang);
    let start = Instant::now();
    let done = place.run(&["doctor", "--json", "--deadline", "1s"]).ends(1);
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    for check in ["Slurm", "controller"] {
        let (health, found, advice) = finding(&done, check);
        assert_eq!(health, "bad", "{check}");
        assert!(found.contains("no answer before the deadline"), "{found}");
        assert!(!advice.is_empty());
    }
    assert_eq!(finding(&done, "accounting").0, "odd");
}

#[test]
fn what_is_wrong_with_slurm_is_told_with_what_to_do() {
    let down = "echo 'Slurmctld(primary) at ctl is DOWN'; exit 1";
    let off = "echo 'Slurm accounting storage is disabled' >&2; exit 1";
    let old = "echo \"squeue: unrecognized option '--json'\" >&2; exit 1";
    let place = scripted("echo slurm 18.08.8", down, off, old);
    let done = place.run(&["doctor", "--json"]).ends(1);
    let told = |check: &str, health: &str, found: &str, advice: &str| {
        let (is, what, help) = finding(&done, check);
        assert_eq!(is, health, "{check}");
        assert!(what.contains(found), "{check}: {what}");
        assert!(help.contains(advice), "{check}: {help}");
    };
    told("Slurm", "odd", "18.08.8, older", "submit --watch");
    told("controller", "bad", "is DOWN", "oomctl watch");
    told("accounting", "odd", "off on this cluster", "Slurm forgets");
    told(
        "squeue JSON",
        "absent",
        "unrecognized option",
        "oomctl does not need it",
    );
    told("sbatch on nodes", "absent", "DOWN", "--supervise script");
}

/// systemd has a program of our name.
#[test]
fn another_oomctl_on_path_is_recognised_by_what_it_prints() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("oomctl");
    let ours = Path::new(env!("CARGO_BIN_EXE_oomctl")).parent().unwrap();
    let prints = |body: &str| install(&other, &format!("#!/bin/bash\n{body}\n"));
    let told_within = |deadline: &str, folders: &[&Path]| {
        let done = with_path(folders)
            .run(&["doctor", "--json", "--deadline", deadline])
            .ends(0);
        finding(&done, "PATH")
    };
    let told = |folders: &[&Path]| told_within("2m", folders);
    prints("echo 'systemd 252 (252.39-1~deb12u1)'\necho +PAM");
    let (health, found, advice) = told(&[folder.path()]);
    assert_eq!(health, "odd");
    assert!(
        found.contains("the oomctl of systemd-oomd (systemd 252"),
        "{found}"
    );
    assert!(found.contains("comes first on PATH"), "{found}");
    assert!(
        advice.contains("put this program's folder before"),
        "{advice}"
    );
    // Behind us it does no harm.
    assert_eq!(told(&[ours, folder.path()]).0, "absent");
    // An older one of ours, and one that says nothing.
    prints("echo oomctl 0.0.9");
    assert!(told(&[folder.path()]).1.contains("another oomctl 0.0.9"));
    prints("exec /usr/bin/tail -f /dev/null");
    let (_, found, _) = told_within("5s", &[folder.path()]);
    assert!(found.contains("does not print its version"), "{found}");
}

/// Slurm's commands without a slurm.conf, as on a machine where only the package was installed.
#[test]
fn commands_that_know_no_cluster_are_told_apart() {
    let lost = "echo 'sbatch: fatal: Could not establish a configuration source' >&2; exit 1";
    let place = scripted(lost, lost, lost, lost);
    let (health, found, advice) = finding(&place.run(&["doctor", "--json"]).ends(1), "Slurm");
    assert_eq!(health, "bad");
    assert!(found.contains("has no cluster"), "{found}");
    assert!(
        advice.contains("SLURM_CONF") && advice.contains("--backend local"),
        "{advice}"
    );
}

#[test]
fn a_folder_that_cannot_be_written_stands_in_the_way() {
    let place = Place::bare();
    // Root may write anywhere but here.
    let done: Done = place
        .command(&["doctor", "--json", "--config", "/proc/self/oomctl.yaml"])
        .output()
        .unwrap()
        .into();
    assert_ne!(done.code, 0);
    let mut inside = place.command(&["doctor", "--json"]);
    inside.current_dir("/proc/self");
    let done: Done = Done::from(inside.output().unwrap()).ends(1);
    let (health, found, advice) = finding(&done, "files");
    assert_eq!(health, "bad");
    assert!(found.contains("cannot write in"), "{found}");
    assert!(advice.contains("that you can write"), "{advice}");
}

#[test]
fn a_project_file_that_cannot_be_read_is_one_line_among_the_others() {
    let place = Place::bare();
    place.write("oomctl.yaml", "preset: [\n");
    let done = place.run(&["doctor", "--json"]).ends(1);
    let (health, found, _) = finding(&done, "project");
    assert_eq!(health, "bad");
    assert!(found.contains("oomctl.yaml:"), "{found}");
    assert_eq!(finding(&done, "files").0, "good");
}

#[test]
fn the_page_on_the_doctor_has_a_row_for_every_line() {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/doctor.md")).unwrap();
    let done = scripted(VERSION, CONTROLLER, JSON, JSON)
        .run(&["doctor", "--json"])
        .ends(0);
    for finding in done.json()["findings"].as_array().unwrap() {
        let check = finding["check"].as_str().unwrap();
        let row = page
            .lines()
            .any(|l| l.starts_with("| `") && l.contains(&format!("`{check}`")));
        assert!(row, "{check}");
    }
}

/// Every line that is not good says what to do.
#[test]
fn no_finding_is_without_advice() {
    let mut place = Place::bare();
    let _slurm = Slurm::before(&mut place);
    for arguments in [
        &["doctor", "--json"][..],
        &["doctor", "--json", "--config", "missing.yaml"],
    ] {
        let done = place.run(arguments);
        for finding in done.json()["findings"].as_array().unwrap() {
            let is_told = finding["health"] == "good" || finding["advice"] != Value::Null;
            assert!(is_told, "{finding:#}");
        }
    }
}

#[test]
fn those_who_could_not_be_told_are_named() {
    let place = scripted(VERSION, CONTROLLER, JSON, JSON);
    let programs = [
        ("command: [./tell.sh]", "cannot run"),
        ("command: [no-such-program]", "no-such-program not found"),
    ];
    for (channel, fault) in programs {
        place.write(
            "oomctl.yaml",
            &format!("preset: torchrun\nnotices: {{ {channel} }}\n"),
        );
        let done = place.run(&["doctor", "--json"]).ends(1);
        let (health, found, _) = finding(&done, "notices");
        assert!(
            health == "bad" && found.contains(fault),
            "{channel}: {found}"
        );
    }
    place.write(
        "oomctl.yaml",
        "preset: torchrun\nnotices: { command: [bash, -c, 'cat'] }\n",
    );
    let done = place.run(&["doctor", "--json"]);
    assert_eq!(finding(&done, "notices").0, "good", "{}", done.told());
}
