//! Ending runs: by name, by job, by array, several at once, and when the scheduler does not answer.

use std::fs::{self, File};

use rustix::process::{Pid, Signal};

use super::place::{Place, install};
use super::slurm::Slurm;
use super::weaver;

/// A sweep of four cells as the tasks of array 101, of which the last is over, and a run whose job is 105.
fn looms() -> (Place, Slurm) {
    let mut place = weaver::project("");
    let slurm = Slurm::before(&mut place);
    for job in [1, 2, 3, 5] {
        slurm.tell(&format!("state.{job}"), "RUNNING 0:0");
    }
    let cells = ["threads=1,2", "cloth=64,128"];
    let sweep = [&["sweep", "submit"], &cells[..], &["--run", "quilt"]].concat();
    place.run(&sweep).ends(0);
    place.run(&["submit"]).ends(0);
    place.run(&["watch", "quilt.4"]).ends(0);
    (place, slurm)
}

#[test]
fn all_that_is_meant_ends_in_one_call_and_what_is_not_there_keeps_none_of_it() {
    let (place, slurm) = looms();
    let meant = ["101_1", "nope-1", "101_3", "quilt.2", "weaver-1", "999"];
    let done = place.run(&[&["cancel"], &meant[..]].concat()).ends(2);
    done.says(&[
        "quilt.2 is cancelled",
        "weaver-1 is cancelled",
        "quilt.4 has already ended",
        "named \"nope-1\"",
        "named \"999\"",
    ]);
    assert_eq!(done.err.matches("quilt.2").count(), 1, "{}", done.err);
    let calls = slurm.calls("scancel");
    assert!(
        matches!(calls.as_slice(), [one] if one.ends_with("101_1 105")),
        "{calls:?}"
    );
    let state = |run: &str| place.run(&["status", run]).ends(0).out;
    assert!(state("quilt.2").contains("cancelled"));
    assert!(state("quilt.1").contains("running"));
}

#[test]
fn the_id_of_an_array_means_the_runs_of_its_tasks_and_so_does_a_list_of_them() {
    let (place, slurm) = looms();
    let glance = place.run(&["status", "101"]).ends(0);
    glance.says(&["quilt.1", "quilt.4"]);
    let some = place.run(&["status", "101_[0-1%2]"]).ends(0).out;
    assert!(
        some.contains("quilt.2") && !some.contains("quilt.3"),
        "{some}"
    );
    let done = place.run(&["cancel", "101"]).ends(0);
    done.says(&["quilt.1 is cancelled", "quilt.3 is cancelled"]);
    let calls = slurm.calls("scancel");
    assert!(
        matches!(calls.as_slice(), [one] if one.ends_with("101_0 101_1 101_2")),
        "{calls:?}"
    );
}

#[test]
fn an_interrupted_cancel_says_what_it_waits_for_and_claims_nothing_that_it_did_not_do() {
    let (place, slurm) = looms();
    let silent = format!(
        "#!/bin/bash\ncd {}\ntouch asked\nuntil [ -e answer ]; do sleep 0.05; done\n\
         echo 'scancel: error: Unable to contact slurm controller' >&2; exit 1\n",
        slurm.path("bin").display()
    );
    let (scancel, real) = (slurm.path("bin/scancel"), slurm.path("bin/real"));
    fs::rename(&scancel, &real).unwrap();
    install(&scancel, &silent);
    let mut command = place.command(&["cancel", "quilt.1"]);
    let said = File::create(place.path("said")).unwrap();
    let mut child = command.stderr(said).spawn().unwrap();
    place.wait_for("the question", || slurm.path("bin/asked").exists());
    rustix::process::kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    place.wait_for("a word", || {
        place
            .read("said")
            .contains("waiting for the scheduler's answer")
    });
    fs::write(slurm.path("bin/answer"), "").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let said = place.read("said");
    for words in [
        "cancelling quilt.1",
        "the runs are recorded as ended",
        "`oomctl cancel quilt.1`",
    ] {
        assert!(said.contains(words), "{words:?} is not in\n{said}");
    }
    assert!(!said.contains("is cancelled"), "{said}");
    fs::rename(&real, &scancel).unwrap();
    place.says("cancel quilt.1", 0, &["quilt.1 is cancelled"]);
}
