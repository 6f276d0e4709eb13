//! oomctl killed with SIGKILL, anywhere: the next watch goes on, and every attempt has exactly one job.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::place::{Place, at_once};
use super::slurm::Slurm;
use super::weaver;

/// Attempts of the story: 8, 4 and 2 threads.
const ATTEMPTS: [u32; 3] = [1, 2, 3];
/// More than the ledger of the story has lines.
const MOST_LINES: usize = 40;

fn cluster() -> (Place, Slurm) {
    let mut place = weaver::project("backend: slurm");
    let slurm = Slurm::before(&mut place);
    (place, slurm)
}

/// Goes on with what a killed oomctl left, to the end.
#[track_caller]
fn go_on(place: &Place, slurm: &Slurm, after: &str) {
    let known = place.has(".oomctl/runs/weaver-1/inputs.json");
    let done = if known {
        place.run(&["watch", "weaver-1"])
    } else {
        place.run(&["submit", "--watch", "--run", "weaver-1"])
    };
    assert_eq!(done.code, 0, "after {after}: {}", done.told());
    assert_eq!(slurm.accepted(), ATTEMPTS, "after {after}: {}", done.told());
    assert_eq!(weaver::words(place, 3)[1], "2", "after {after}");
    let taken = taken_rungs(place);
    assert_eq!(taken, ["thin", "thin"], "after {after}");
}

/// The rungs of all decisions.
fn taken_rungs(place: &Place) -> Vec<String> {
    let facts = place.facts("weaver-1");
    let climbs = facts
        .iter()
        .filter_map(|f| f["verdict"]["climb"]["steps"].as_array());
    climbs
        .flatten()
        .map(|s| s["rung"].as_str().unwrap().to_owned())
        .collect()
}

/// Runs until the ledger has so many lines and kills then; false when the story ends before.
fn kill_at(lines: usize, place: &Place) -> bool {
    let watch = place.start(&["submit", "--watch"]);
    let ledger = place.path(".oomctl/runs/weaver-1/ledger.jsonl");
    let newlines = |text: Vec<u8>| text.iter().filter(|b| **b == b'\n').count();
    let written = || std::fs::read(&ledger).map_or(0, newlines);
    let over = || {
        place
            .facts("weaver-1")
            .iter()
            .any(|f| f["fact"] == "finished")
    };
    place.wait_for("so many lines", || written() >= lines || over());
    if written() < lines {
        watch.end().ends(0);
        return false;
    }
    watch.kill();
    true
}

#[test]
fn killed_when_the_ledger_has_n_lines_for_every_n() {
    let killed = AtomicUsize::new(0);
    let every: Vec<usize> = (1..MOST_LINES).collect();
    at_once(&every, |lines| {
        let (place, slurm) = cluster();
        if kill_at(*lines, &place) {
            go_on(&place, &slurm, &format!("{lines} lines"));
            killed.fetch_add(1, Ordering::Relaxed);
        }
    });
    let killed = killed.into_inner();
    assert!(
        killed > 15 && killed + 1 < every.len(),
        "killed {killed} times"
    );
}

#[test]
fn killed_inside_sbatch_before_and_after_it_accepts() {
    let mut cases = Vec::new();
    for moment in ["before", "after"] {
        cases.extend(ATTEMPTS.map(|attempt| format!("{moment}.{attempt}")));
    }
    at_once(&cases, |case| {
        let (place, slurm) = cluster();
        slurm.tell(case, "");
        let mut watch = place.start(&["submit", "--watch"]);
        slurm.tell("victim", &watch.pid().to_string());
        watch.child.wait().unwrap();
        assert!(
            slurm.path(&format!("{case}.done")).exists(),
            "{case}: it was not killed"
        );
        go_on(&place, &slurm, case);
    });
}

#[test]
fn killed_by_the_kernel_at_any_byte_that_it_writes() {
    // A limit on the size of files kills with SIGXFSZ in the middle of a write: torn records, torn
    // files, and every state in between. The commands of the scripted Slurm lift it for themselves.
    let killed = AtomicUsize::new(0);
    let limits: Vec<usize> = (150..=9_000).step_by(450).collect();
    at_once(&limits, |limit| {
        let (place, slurm) = cluster();
        place.run(&["submit"]).ends(0);
        let mut watch = Command::new("prlimit");
        watch
            .arg(format!("--fsize={limit}:unlimited"))
            .arg("--core=0")
            .arg(env!("CARGO_BIN_EXE_oomctl"))
            .args(["watch", "weaver-1"]);
        place.at_home(&mut watch);
        let first = watch.process_group(0).output().unwrap();
        if !first.status.success() {
            killed.fetch_add(1, Ordering::Relaxed);
            go_on(&place, &slurm, &format!("a write past byte {limit}"));
        }
    });
    assert!(killed.into_inner() > 5);
}

#[test]
fn a_submission_killed_before_its_first_fact_is_taken_up_and_disturbs_no_other_run() {
    let place = weaver::project("knobs: { threads: 2 }");
    place.run(&["submit", "--backend", "local"]).ends(0);
    let killed = place.path(".oomctl/runs/weaver-2");
    std::fs::create_dir(&killed).unwrap();
    std::fs::set_permissions(&killed, PermissionsExt::from_mode(0o700)).unwrap();
    let of = |name: &str| place.read(&format!(".oomctl/runs/weaver-1/{name}"));
    // Killed with the ledger made and nothing else: there is no run yet, and its name is free.
    std::fs::write(killed.join("ledger.jsonl"), "").unwrap();
    std::fs::write(killed.join("environment.json"), of("environment.json")).unwrap();
    let listed = place.run(&["status"]).ends(0).out;
    assert!(!listed.contains("weaver-2"), "{listed}");
    let again = ["submit", "--backend", "local", "--run", "weaver-2"];
    place.run(&again).ends(0);
    // Killed with the request there: a run without a fact.
    let third = place.path(".oomctl/runs/weaver-3");
    std::fs::rename(&killed, &third).unwrap();
    for entry in std::fs::read_dir(&third).unwrap() {
        let path = entry.unwrap().path();
        let kept = path.ends_with("inputs.json") || path.ends_with("environment.json");
        if path.is_dir() {
            std::fs::remove_dir_all(path).unwrap();
        } else if !kept {
            std::fs::remove_file(path).unwrap();
        }
    }
    let inputs = std::fs::read_to_string(third.join("inputs.json")).unwrap();
    std::fs::write(
        third.join("inputs.json"),
        inputs.replace("weaver-2", "weaver-3"),
    )
    .unwrap();
    std::fs::write(third.join("ledger.jsonl"), "").unwrap();
    place.run(&["status"]).ends(0);
    place.run(&["watch", "weaver-3"]).ends(0);
}
