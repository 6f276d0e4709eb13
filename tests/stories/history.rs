//! `history` and the list of `status`: many runs, and the file that spares reading all their ledgers.

use std::fs;

use super::place::Place;
use super::weaver;

/// A project with this many runs that climbed twice and then fitted.
fn with_runs(count: u32) -> Place {
    let place = weaver::project("knobs: {}");
    place
        .run(&["submit", "--backend", "local", "--watch"])
        .ends(0);
    let ledger = place.read(&format!("{}/ledger.jsonl", place.run_dir("weaver-1")));
    for number in 2..=count {
        let run = format!("weaver-{number}");
        let dir = place.run_dir(&run);
        fs::create_dir_all(place.path(&dir)).unwrap();
        place.write(&format!("{dir}/inputs.json"), "{}");
        place.write(
            &format!("{dir}/ledger.jsonl"),
            &ledger.replace("weaver-1", &run),
        );
    }
    place
}

#[test]
fn runs_are_listed_by_what_is_asked_for() {
    let place = with_runs(3);
    let columns = "run,state,attempts,cause,rungs";
    let all = place.run(&["history", "--columns", columns]).ends(0);
    insta::assert_snapshot!("history", all.out);
    let folder = place.path("").canonicalize().unwrap();
    let folder = folder.display().to_string();
    let lines = place.run(&[
        "history",
        &folder,
        "--parsable",
        "--columns",
        "run,exit,elapsed",
        "--name",
        "r-2",
    ]);
    let lines = lines.ends(0).out;
    let [title, line] = lines.lines().collect::<Vec<_>>()[..] else {
        panic!("{lines}");
    };
    assert_eq!(title, "PROJECT|RUN|EXIT|ELAPSED");
    let fields: Vec<&str> = line.split('|').collect();
    assert_eq!(fields[1..3], ["weaver-2", "0"], "{line}");
    assert!(fields[3].parse::<u64>().is_ok(), "{line}");

    let count = |arguments: &[&str]| {
        let mut words = vec!["history", "--json"];
        words.extend(arguments);
        let told = place.run(&words).ends(0).json();
        told["projects"][0]["runs"].as_array().unwrap().len()
    };
    assert_eq!(count(&["--since", "1h"]), 3);
    assert_eq!(count(&["--since", "2999-01-01"]), 0);
    assert_eq!(count(&["--state", "exhausted,failed"]), 0);
    assert_eq!(
        count(&[
            "--state",
            "succeeded",
            "--cause",
            "cuda_oom,cuda_driver_oom"
        ]),
        3
    );
    place
        .run(&["history", "--since", "lately"])
        .ends(2)
        .says(&["is neither a duration", "3d, 12h"]);
    place.run(&["history", "docs"]).ends(2).says(&["docs"]);
}

#[test]
fn a_list_is_the_same_whether_ledgers_are_read_or_not() {
    let place = with_runs(20);
    let list = || place.run(&["status"]).ends(0).out;
    let first = list();
    assert!(place.has(".oomctl/index.jsonl"), "{first}");
    assert_eq!(list(), first);

    // A ledger that went on is read again.
    let ledger = format!("{}/ledger.jsonl", place.run_dir("weaver-7"));
    let text = place.read(&ledger);
    let (before, _) = text.trim_end().rsplit_once('\n').unwrap();
    place.write(&ledger, &format!("{before}\n"));
    let line = |list: &str| {
        let found = list.lines().find(|l| l.starts_with("weaver-7 "));
        found.unwrap().to_owned()
    };
    assert!(line(&first).contains("succeeded"), "{first}");
    let now = list();
    assert!(!line(&now).contains("succeeded"), "{now}");
    place.write(&ledger, &text);

    // Whatever became of the file: what counts is in the ledgers.
    let index = place.read(".oomctl/index.jsonl");
    let lie = index.replace("succeeded", "vanished");
    for damaged in [
        "",
        "{}\n\0\n",
        &index[..index.len() / 2],
        &lie.replace(env!("CARGO_PKG_VERSION"), "0.0.0"),
    ] {
        place.write(".oomctl/index.jsonl", damaged);
        assert_eq!(list(), first);
    }
}
