//! Disks that are full or closed, ledgers that are torn, damaged, newer or somebody else's.

use std::fs;
use std::process::Command;

use super::place::{Done, Place, at_once};
use super::weaver;

const LEDGER: &str = ".oomctl/runs/weaver-1/ledger.jsonl";

/// A run whose first attempt is over, unwatched.
fn begun() -> Place {
    let place = weaver::project("");
    place.run(&["submit", "--backend", "local"]).ends(0);
    place.wait_for("the end of the job", || place.has(".oomctl/local/1/exit"));
    place
}

#[test]
fn a_torn_last_record_is_healed_and_the_run_goes_on() {
    let place = begun();
    let whole = place.read(LEDGER);
    let last = whole.trim_end().lines().last().unwrap().len();
    for cut in [1, last / 2, last] {
        let place = begun();
        let text = place.read(LEDGER);
        fs::write(place.path(LEDGER), &text[..text.len() - cut]).unwrap();
        place.run(&["status", "weaver-1"]).ends(0);
        place.run(&["watch", "weaver-1"]).ends(0);
        assert_eq!(weaver::words(&place, 3)[1], "2");
        // The job that ran was found again by its token, not submitted twice.
        assert!(
            place.has(".oomctl/local/3") && !place.has(".oomctl/local/4"),
            "cut {cut}"
        );
    }
}

#[test]
fn a_ledger_damaged_in_the_middle_is_7_and_left_as_it_is() {
    let place = begun();
    let text = place.read(LEDGER);
    let mut lines: Vec<&str> = text.lines().collect();
    lines[1] = "{\"v\":1,\"seq\":2,\"at";
    let damaged = lines.join("\n") + "\n";
    fs::write(place.path(LEDGER), &damaged).unwrap();
    for command in ["watch", "status", "cancel"] {
        let done = place.run(&[command, "weaver-1"]).ends(7);
        done.says(&["ledger.jsonl", "ledger.jsonl:2"]);
    }
    assert_eq!(place.read(LEDGER), damaged);
}

#[test]
fn a_run_of_a_backend_that_is_not_known_is_never_looked_for_in_slurm() {
    let place = begun();
    let inputs = ".oomctl/runs/weaver-1/inputs.json";
    let lsf = place.read(inputs).replace("\"local\"", "\"lsf\"");
    assert!(lsf.contains("\"lsf\""), "{lsf}");
    place.write(inputs, &lsf);
    for command in [["watch", "weaver-1"], ["cancel", "weaver-1"]] {
        let done = place.run(&command).ends(7);
        done.says(&["unknown backend \"lsf\"", "newer oomctl"]);
    }
}

#[test]
fn a_newer_ledger_is_7_for_whoever_would_write_and_left_as_it_is() {
    let place = begun();
    let text = place.read(LEDGER)
        + "{\"v\":2,\"seq\":99,\"at\":\"2026-11-21T08:00:00Z\",\"epoch\":1,\"fact\":\"sung\"}\n";
    fs::write(place.path(LEDGER), &text).unwrap();
    let done = place.run(&["watch", "weaver-1"]).ends(7);
    done.says(&["newer"]);
    place.run(&["status", "weaver-1"]).ends(0);
    assert_eq!(place.read(LEDGER), text);
}

#[test]
fn a_run_that_a_living_process_watches_is_7_and_names_it() {
    let mut place = weaver::project("");
    place.set("WEAVER", "wait");
    let watch = place.start(&["submit", "--backend", "local", "--watch"]);
    place.wait_for_fact("weaver-1", "submitted");
    let done = place.run(&["watch", "weaver-1"]).ends(7);
    done.says(&[&watch.pid().to_string()]);
    place.write("go", "");
    watch.kill();
    // Dead without a word: it can be taken over at once on the same machine.
    place.run(&["watch", "weaver-1"]).ends(0);
}

#[test]
fn a_run_folder_that_cannot_be_made_is_a_clear_error() {
    let place = weaver::project("");
    place.write(".oomctl", "a file in the way");
    let done = place.run(&["submit", "--backend", "local"]).ends(7);
    done.says(&[".oomctl"]);
    assert!(!place.has("argv.1"));
    assert_eq!(place.read(".oomctl"), "a file in the way");
}

#[test]
fn a_full_disk_is_a_clear_error_and_the_run_goes_on_when_there_is_room() {
    // With SIGXFSZ ignored a write past the limit fails with EFBIG, as on a full disk with ENOSPC.
    at_once(&[700, 2_000, 3_500], |limit| {
        let place = begun();
        let mut watch = Command::new("bash");
        watch.args([
            "-c",
            "trap '' XFSZ; exec prlimit --fsize=\"$1\":unlimited \"$2\" watch weaver-1",
            "-",
            &limit.to_string(),
            env!("CARGO_BIN_EXE_oomctl"),
        ]);
        place.at_home(&mut watch);
        let done: Done = watch.output().unwrap().into();
        assert_eq!(done.code, 7, "at {limit}: {}", done.told());
        let why = ["no storage space", "File too large"];
        assert!(
            why.iter().any(|w| done.err.contains(w)),
            "at {limit}: {}",
            done.told()
        );
        place.run(&["watch", "weaver-1"]).ends(0);
        assert_eq!(weaver::words(&place, 3)[1], "2", "at {limit}");
        assert!(!place.has(".oomctl/local/4"), "at {limit}");
    });
}

#[test]
fn a_tiny_disk_that_is_full_refuses_the_submission_and_runs_nothing() {
    let place = weaver::project("");
    let Some(_mount) = Tmpfs::on(&place, "8k") else {
        println!("skipped: mounting a tmpfs is not allowed here");
        return;
    };
    let done = place.run(&["submit", "--backend", "local"]);
    assert!(matches!(done.code, 5 | 7), "{}", done.told());
    done.says(&["No space left on device"]);
    assert!(!place.has("argv.1"));
}

#[test]
fn a_read_only_run_folder_is_a_clear_error_and_status_still_reads_it() {
    let place = begun();
    let bind = |option: &str| {
        Command::new("mount")
            .args(option.split(' '))
            .arg(place.path(".oomctl"))
            .args((!option.contains("remount")).then(|| place.path(".oomctl")))
            .output()
            .is_ok_and(|o| o.status.success())
    };
    if !bind("--bind") {
        println!("skipped: mounting is not allowed here");
        return;
    }
    let _mount = Tmpfs(place.path(".oomctl"));
    assert!(bind("-o remount,bind,ro"));
    let done = place.run(&["watch", "weaver-1"]).ends(7);
    done.says(&["Read-only file system"]);
    place.run(&["status", "weaver-1"]).ends(0);
}

/// Something mounted, until dropped.
struct Tmpfs(std::path::PathBuf);

impl Tmpfs {
    fn on(place: &Place, size: &str) -> Option<Self> {
        let at = place.path(".oomctl");
        fs::create_dir(&at).unwrap();
        fs::set_permissions(&at, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let done = Command::new("mount")
            .args(["-t", "tmpfs", "-o"])
            .arg(format!("size={size},mode=700"))
            .arg("none")
            .arg(&at)
            .output();
        done.is_ok_and(|o| o.status.success()).then_some(Self(at))
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn links_in_the_place_of_a_run_are_not_followed() {
    let place = weaver::project("knobs: { threads: 2 }");
    place.run(&["submit", "--backend", "local"]).ends(0);
    place.wait_for("the end of the job", || place.has(".oomctl/local/1/exit"));
    let run = place.path(".oomctl/runs/weaver-1");
    let elsewhere = place.path("elsewhere");
    for name in ["ledger.jsonl", "inputs.json"] {
        std::fs::rename(run.join(name), &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, run.join(name)).unwrap();
        let before = std::fs::read(&elsewhere).unwrap();
        place.says("watch weaver-1", 7, &[name]);
        assert_eq!(std::fs::read(&elsewhere).unwrap(), before);
        std::fs::rename(&elsewhere, run.join(name)).unwrap();
    }
    std::fs::rename(&run, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &run).unwrap();
    place.says("watch weaver-1", 7, &["is not a folder"]);
    std::fs::remove_file(&run).unwrap();
    std::fs::rename(&elsewhere, &run).unwrap();
    place.run(&["watch", "weaver-1"]).ends(0);
}
