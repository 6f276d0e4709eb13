//! `oomctl` dies between submission and answer, or Flux's answer is lost: the job is found again by its token.

use super::instance::Instance;
use super::place::{LARGE_CARD, Place};

/// `flux batch` really submits; then whoever called it dies.
const KILLS: &str = "#!/bin/bash
if [[ $1 == batch && ! -e killed ]]; then
  touch killed
  real \"$@\" >/dev/null
  kill -9 $PPID
  exit 1
fi
exec real \"$@\"
";
/// `flux batch` really submits; then its answer is lost.
const LOSES: &str = "#!/bin/bash
if [[ $1 == batch && ! -e lost ]]; then
  touch lost
  real \"$@\" >/dev/null
  echo 'flux-batch: ERROR: Connection reset by peer' >&2
  exit 1
fi
exec real \"$@\"
";

#[test]
fn a_watch_that_is_killed_between_submission_and_answer_loses_nothing_and_submits_nothing_twice() {
    let Some(flux) = Instance::shared() else {
        return;
    };
    let place = Place::beside(flux, "killed")
        .with(&[LARGE_CARD])
        .wrapping("flux", KILLS);
    place.submit(&["--watch"]).expect_code(-1);
    assert!(place.view()["attempts"][0]["job"].is_null());
    // Whoever goes on may sit in another instance, or in none: the job is looked for where it was submitted.
    let place = place.with(&[("FLUX_URI", "local:///nowhere/local-0")]);
    place
        .oomctl(&["watch", place.run()])
        .expect_code(0)
        .says("succeeded");
    assert_eq!(place.one_job_per_attempt().len(), 1);
}

#[test]
fn a_lost_answer_is_looked_up_and_not_repeated() {
    let Some(flux) = Instance::shared() else {
        return;
    };
    let place = Place::beside(flux, "lost")
        .with(&[LARGE_CARD])
        .wrapping("flux", LOSES);
    place.submit(&["--watch"]).expect_code(0).says("succeeded");
    assert_eq!(place.one_job_per_attempt().len(), 1);
}

#[test]
fn without_an_instance_nothing_is_submitted_until_there_is_one() {
    let Some(flux) = Instance::shared() else {
        return;
    };
    let place = Place::beside(flux, "absent").with(&[("FLUX_URI", "local:///nowhere/local-0")]);
    let told = place.submit(&[]).expect_code(4);
    told.says("refused for now: Unable to connect to Flux");
    let hint = place.view()["hint"].as_str().unwrap().to_owned();
    assert!(hint.contains("flux resource list"), "{hint}");
}
