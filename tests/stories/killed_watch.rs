//! `oomctl watch` killed with SIGKILL between two lines of a log, and started again: it says what one that
//! was never killed says, and says nothing twice.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::ChildStderr;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::place::{Place, Started};
use super::weaver;

/// Dies of memory at the first attempt, in the middle of whose traceback much happens; each `go` is waited
/// for.
const TRAINER: &str = r#"#!/bin/bash
turn() { for ((i = 0; i < 1200; i++)); do [ -e "go$1" ] && return; sleep 0.05; done; exit 9; }
if ((OOMCTL_ATTEMPT == 1)); then
  echo "Traceback (most recent call last):" >&2
  echo '  File "/opt/weaver/loom.py", line 12, in weave' >&2
  echo "woven 10 of 100"
  turn 1
  echo "woven 30 of 100"
  turn 2
  echo "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.18 GiB of which 1.00 GiB is free. Including non-PyTorch memory, this process has 78.18 GiB memory in use. Of the allocated memory 77.00 GiB is allocated by PyTorch, and 512.00 MiB is reserved by PyTorch but unallocated." >&2
  exit 1
fi
echo "woven 100 of 100"
"#;

/// A watch, and what it has said so far.
struct Watch {
    started: Started,
    said: Arc<Mutex<Vec<String>>>,
    listener: std::thread::JoinHandle<()>,
}

fn listen(stderr: ChildStderr, said: Arc<Mutex<Vec<String>>>) {
    for line in BufReader::new(stderr).lines().map_while(Result::ok) {
        said.lock().unwrap().push(line);
    }
}

impl Watch {
    fn start(place: &Place, arguments: &[&str]) -> Self {
        let mut started = place.start(arguments);
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let (stderr, to) = (started.child.stderr.take().unwrap(), Arc::clone(&said));
        Self {
            started,
            said,
            listener: std::thread::spawn(move || listen(stderr, to)),
        }
    }

    fn waits_until_it_says(&self, place: &Place, what: &str) {
        place.wait_for(what, || {
            let said = self.said.lock().unwrap();
            said.iter().any(|line| line.contains(what))
        });
    }

    fn killed(self) -> Vec<String> {
        self.started.kill();
        self.listener.join().unwrap();
        Arc::try_unwrap(self.said).unwrap().into_inner().unwrap()
    }

    fn ends_well(mut self) -> Vec<String> {
        assert!(self.started.child.wait().unwrap().success());
        self.listener.join().unwrap();
        Arc::try_unwrap(self.said).unwrap().into_inner().unwrap()
    }
}

/// The log of standard error is rotated, in the middle of a traceback.
fn rotate(place: &Place) {
    let log = place.path(".oomctl/runs/weaver-1/attempt-1/slurm.err");
    fs::rename(&log, log.with_extension("err.1")).unwrap();
    fs::write(&log, "weaver: the log goes on here\n").unwrap();
}

/// What the first attempt died of, and the lines about its progress.
fn outcome(place: &Place, said: &[String]) -> (Value, Vec<String>) {
    let facts = place.facts("weaver-1");
    let mut diagnosed = facts.iter().filter(|f| f["fact"] == "diagnosed");
    let incident = diagnosed.next().unwrap()["incident"].clone();
    let steps = said.iter().map(|line| line.trim());
    let steps = steps.filter(|l| l.starts_with("step ") && !l.contains("step 100 "));
    (incident, steps.map(str::to_owned).collect())
}

#[test]
fn a_watch_that_is_killed_between_two_lines_says_what_one_that_lives_says() {
    let begin = ["submit", "--backend", "local", "--watch"];
    let again = ["watch", "weaver-1"];
    let prepared = || {
        let place = weaver::project("");
        place.write("trainer.sh", TRAINER);
        place
    };

    let place = prepared();
    let watch = Watch::start(&place, &begin);
    watch.waits_until_it_says(&place, "step 10 of 100");
    rotate(&place);
    place.write("go1", "");
    watch.waits_until_it_says(&place, "step 30 of 100");
    place.write("go2", "");
    let lived = outcome(&place, &watch.ends_well());

    let place = prepared();
    let watch = Watch::start(&place, &begin);
    watch.waits_until_it_says(&place, "step 10 of 100");
    let mut said = watch.killed();
    rotate(&place);
    place.write("go1", "");
    let watch = Watch::start(&place, &again);
    watch.waits_until_it_says(&place, "step 30 of 100");
    said.extend(watch.killed());
    place.write("go2", "");
    let attempt = place.path(".oomctl/local/1/exit");
    place.wait_for("the end of the job", || attempt.exists());
    said.extend(Watch::start(&place, &again).ends_well());
    let died = outcome(&place, &said);

    assert_eq!(died, lived);
    assert_eq!(lived.0["kind"], "cuda_oom");
    assert_eq!(lived.0["frame"]["function"], "weave");
    assert_eq!(lived.1, ["step 10 of 100", "step 30 of 100"]);
}
