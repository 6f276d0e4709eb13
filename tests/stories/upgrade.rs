//! A run that oomctl 0.1.0 began, and this version goes on with.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::place::Place;

const RUN: &str = "diamonds-seed0-1";

/// The example with the state that 0.1.0 left: submitted without a watch, and its first job died of memory.
/// `tests/fixtures/begun-by-0.1.0` is that program's `.oomctl`, with names in place of what differs between
/// machines and days.
fn begun() -> Place {
    let place = Place::example();
    let root = place.root.display().to_string();
    let path = std::env::var("PATH").unwrap();
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let now = jiff::Timestamp::now().to_string();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/begun-by-0.1.0");
    put(&fixture, &place, ".oomctl", &|text| {
        let text = text.replace("@PROJECT@", &root).replace("@PATH@", &path);
        text.replace("@HOST@", host.trim()).replace("@NOW@", &now)
    });
    place
}

fn put(from: &Path, place: &Place, to: &str, name: &dyn Fn(&str) -> String) {
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let to = format!("{to}/{}", path.file_name().unwrap().to_str().unwrap());
        if path.is_dir() {
            put(&path, place, &to, name);
        } else {
            place.write(&to, &name(&fs::read_to_string(path).unwrap()));
        }
    }
}

#[test]
fn a_run_begun_by_the_version_before_is_watched_to_its_end() {
    let place = begun();
    let status = place.run(&["status", RUN]).ends(0);
    insta::assert_snapshot!(place.steady(&status.told()));
    let done = place.run(&["watch", RUN]).ends(0);
    insta::assert_snapshot!(place.steady(&done.told()));
    // The first attempt was not submitted again, and the ladder is the one that the run began with.
    let submitted: Vec<Value> = place
        .facts(RUN)
        .into_iter()
        .filter(|fact| fact["fact"] == "submitted")
        .collect();
    let attempts: Vec<u64> = submitted
        .iter()
        .map(|fact| fact["attempt"].as_u64().unwrap())
        .collect();
    assert_eq!(attempts, [1, 2, 3]);
    place
        .run(&["explain", "train_batch_size", "--run", RUN])
        .ends(0);
    place.run(&["report", RUN]).ends(0);
    place.run(&["history"]).ends(0);
}
