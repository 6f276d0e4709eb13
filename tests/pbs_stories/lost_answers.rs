//! `oomctl` dies between submission and answer, or PBS's answer is lost: the job is found again by its token.

use super::place::{LARGE_CARD, Place};
use super::server::Server;

/// `qsub` really submits; then whoever called it dies.
const KILLS: &str = "#!/bin/bash
if [ ! -e killed ]; then
  touch killed
  real \"$@\" >/dev/null
  kill -9 $PPID
  exit 1
fi
exec real \"$@\"
";
/// `qsub` really submits; then its answer is lost.
const LOSES: &str = "#!/bin/bash
if [ ! -e lost ]; then
  touch lost
  real \"$@\" >/dev/null
  echo 'qsub: Error (15031) submitting job' >&2
  exit 183
fi
exec real \"$@\"
";

#[test]
fn a_watch_that_is_killed_between_submission_and_answer_loses_nothing_and_submits_nothing_twice() {
    let Some(server) = Server::here() else { return };
    let place = Place::beside(&server, "killed")
        .with(&[LARGE_CARD])
        .wrapping("qsub", KILLS);
    place.submit(&["--watch"]).expect_code(-1);
    assert!(place.view()["attempts"][0]["job"].is_null());
    place
        .oomctl(&["watch", place.run()])
        .expect_code(0)
        .says("succeeded");
    assert_eq!(place.one_job_per_attempt().len(), 1);
}

#[test]
fn a_lost_answer_is_looked_up_and_not_repeated() {
    let Some(server) = Server::here() else { return };
    let place = Place::beside(&server, "lost")
        .with(&[LARGE_CARD])
        .wrapping("qsub", LOSES);
    place.submit(&["--watch"]).expect_code(0).says("succeeded");
    assert_eq!(place.one_job_per_attempt().len(), 1);
}

#[test]
fn without_a_server_nothing_is_submitted_until_there_is_one() {
    let Some(server) = Server::here() else { return };
    let place = Place::beside(&server, "absent")
        .with(&[("PBS_SERVER", "localhost"), ("PBS_BATCH_SERVICE_PORT", "1")]);
    let told = place.submit(&[]).expect_code(4);
    told.says("refused for now: cannot connect to server");
    let hint = place.view()["hint"].as_str().unwrap().to_owned();
    assert!(hint.contains("qstat -B"), "{hint}");
}
