//! Runs of somebody else: a colleague is told that they may not be read, and root reads them.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;

use super::place::{Done, Place};
use super::weaver;

/// Who owns nothing.
const NOBODY: u32 = 65_534;
/// Somebody without a name.
const THEIRS: u32 = 4_242;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A run of ours that is over, in a folder that everybody may enter.
fn ran() -> Place {
    let mut place = weaver::project("");
    place.set("WEAVER", "fits 9");
    let words = ["submit", "--backend", "local", "--watch", "--run", "w"];
    place.run(&words).ends(0);
    for folder in [place.root.parent().unwrap(), &place.root] {
        fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    }
    place
}

/// The command as somebody who may not read what is closed.
fn as_colleague(place: &Place, words: &[&str]) -> Done {
    let mut command = place.command(words);
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.output().unwrap().into()
}

#[test]
fn where_permission_is_missing_that_is_said_and_not_that_there_are_no_runs() {
    let place = ran();
    for closed in [".oomctl", ".oomctl/runs", ".oomctl/runs/w"] {
        let path = place.path(closed);
        for folder in [".oomctl", ".oomctl/runs"] {
            fs::set_permissions(place.path(folder), Permissions::from_mode(0o755)).unwrap();
        }
        fs::set_permissions(
            &path,
            Permissions::from_mode(if is_root() { 0o700 } else { 0 }),
        )
        .unwrap();
        let root = place.root.display().to_string();
        for words in [
            &["status"][..],
            &["status", "w"],
            &["history"],
            &["history", &root],
            &["report", "--to", "-"],
        ] {
            let done = as_colleague(&place, words);
            assert_ne!(done.code, 0, "{closed}, {words:?}: {}", done.told());
            assert!(!done.told().contains("no runs here"), "{}", done.told());
            assert!(
                !done.told().contains("no attempt matches"),
                "{}",
                done.told()
            );
            let why = ["Permission denied", "belongs to another user"];
            assert!(
                why.iter().any(|w| done.err.contains(w)),
                "{closed}, {words:?}: {}",
                done.told()
            );
        }
        fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
    }
}

#[test]
fn root_reads_the_runs_of_others_and_changes_none() {
    if !is_root() {
        return;
    }
    let place = ran();
    for path in [".oomctl", ".oomctl/runs", ".oomctl/runs/w"] {
        chown(place.path(path), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    place.says("status", 0, &["succeeded"]);
    place.says("status w", 0, &["COMPLETED"]);
    place.says("history", 0, &["COMPLETED"]);
    for words in [["cancel", "w"], ["watch", "w"]] {
        let done = place.run(&words);
        assert_ne!(done.code, 0, "{}", done.told());
        done.says(&["belongs to another user"]);
    }
}

/// A lab's folder: `init --group` opens new runs to the group, and to nobody else.
#[test]
fn runs_of_a_shared_project_can_be_read_by_the_group_alone() {
    if !is_root() {
        return;
    }
    let mut place = weaver::project("");
    place.set("WEAVER", "fits 9");
    let words = ["submit", "--backend", "local", "--watch", "--run"];
    place.run(&[&words[..], &["before"]].concat()).ends(0);
    place.says("init --group", 0, &["chmod -R g+rX"]);
    place.run(&[&words[..], &["after"]].concat()).ends(0);
    for folder in [place.root.parent().unwrap(), &place.root] {
        fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    }
    let as_one_of = |group: u32, words: &[&str]| -> Done {
        let mut command = place.command(words);
        command.uid(NOBODY).gid(group);
        command.output().unwrap().into()
    };
    let ours = rustix::process::getegid().as_raw();
    as_one_of(ours, &["status", "after"])
        .ends(0)
        .says(&["after succeeded"]);
    as_one_of(ours, &["report", "after", "--format", "text"]).ends(0);
    as_one_of(ours, &["report", "after"])
        .ends(4)
        .says(&["`--to report.html` writes it here"]);
    as_one_of(ours, &["cancel", "after"])
        .ends(7)
        .says(&["only the owner of a run acts on it"]);
    as_one_of(ours, &["status", "before"])
        .ends(7)
        .says(&["Permission denied"]);
    let stranger = as_one_of(NOBODY, &["status", "after"]).ends(5);
    stranger.says(&["Permission denied", "`oomctl init --group`"]);
    let mode = |path: &str| fs::metadata(place.path(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(".oomctl/runs/after"), 0o750);
    assert_eq!(mode(".oomctl/runs/after/ledger.jsonl"), 0o640);
}

/// Two people's projects in one folder, of which the second lets its group read, and one run of theirs is closed.
#[test]
fn runs_of_everybody_below_a_folder_are_shown_with_their_owners_as_far_as_they_may_be_read() {
    if !is_root() {
        return;
    }
    let place = ran();
    let theirs = place.path("theirs");
    for run in ["open", "closed"] {
        let folder = theirs.join(".oomctl/runs").join(run);
        fs::create_dir_all(&folder).unwrap();
        for file in ["inputs.json", "ledger.jsonl"] {
            let text = place.read(&format!("{}/{file}", place.run_dir("w")));
            fs::write(
                folder.join(file),
                text.replace("\"w\"", &format!("\"{run}\"")),
            )
            .unwrap();
        }
        let mode = if run == "open" { 0o755 } else { 0o700 };
        fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
    }
    for path in [
        "",
        ".oomctl",
        ".oomctl/runs",
        ".oomctl/runs/open",
        ".oomctl/runs/closed",
    ] {
        chown(theirs.join(path), Some(THEIRS), Some(THEIRS)).unwrap();
    }
    let shown = |words: &[&str]| {
        let done = place.run(&[&["status", "-o", "user,run,state"], words].concat());
        let done = done.ends(0).out;
        let rows = done
            .lines()
            .map(|row| row.split_whitespace().collect::<Vec<_>>().join(" "));
        rows.collect::<Vec<_>>()
    };
    let ours = "root w succeeded";
    let all = ["4242 closed succeeded", "4242 open succeeded", ours];
    assert_eq!(shown(&["--all", "--noheader"]), all);
    assert_eq!(shown(&["--user", "root", "--noheader"]), [ours]);
    // Who may read neither the closed run nor ours.
    let done = as_colleague(&place, &["status", "--all"]).ends(0);
    done.says(&[
        "4242  open",
        "1 run: 1 succeeded",
        "not read",
        "theirs: a run of 4242 is private; there `oomctl init --group` opens",
        "the runs of root are private",
    ]);
    let json = as_colleague(&place, &["status", "--user", "4242", "--json"]);
    let json = json.ends(0).json();
    assert_eq!(
        (
            json["runs"].as_array().unwrap().len(),
            &json["runs"][0]["user"]
        ),
        (1, &"4242".into())
    );
    let unread = json["unread"].as_array().unwrap();
    assert_eq!(unread.len(), 1, "{json:#}");
    place.says("status --user 4343", 0, &["no runs that you may read"]);
    place.run(&["status", "--all", "w"]).ends(2);
}

/// Who may read a script plans it, also where the project's runs are closed.
#[test]
fn a_script_is_planned_by_whoever_may_read_it() {
    let place = ran();
    let script = "#!/bin/bash\n#SBATCH --gres=gpu:1\ntorchrun train.py --batch_size 32\n";
    fs::create_dir(place.path("jobs")).unwrap();
    place.write("jobs/job.slurm", script);
    fs::set_permissions(place.path("jobs"), Permissions::from_mode(0o755)).unwrap();
    let mode = if is_root() { 0o700 } else { 0 };
    fs::set_permissions(place.path(".oomctl"), Permissions::from_mode(mode)).unwrap();
    let done = as_colleague(&place, &["plan", "jobs/job.slurm"]).ends(0);
    done.says(&[
        "Permission denied",
        "starting without what earlier runs needed",
    ]);
    fs::set_permissions(place.path(".oomctl"), Permissions::from_mode(0o700)).unwrap();
}
