//! `history`: every attempt as a row, chosen by time, state, cause and dataset; for people and for scripts.

use super::place::Place;
use super::weaver;
use oomctl_base::word_list;

/// Two runs: one that fits at its second attempt, one that fails.
fn two_runs() -> Place {
    let mut place = weaver::project("");
    for (weaver, run, code) in [("fits 4", "loom-a", 0), ("fail", "loom-b", 1)] {
        place.set("WEAVER", weaver);
        place
            .run(&["submit", "--backend", "local", "--run", run, "--watch"])
            .ends(code);
    }
    place
}

/// The rows that `history -P` prints with these arguments, without the names of the columns.
fn rows(place: &Place, arguments: &[&str]) -> Vec<String> {
    let columns = word_list::<4>("history -P --columns run,attempt,state,outcome,cause,preset");
    let done = place.run(&[&columns, arguments].concat()).ends(0);
    let mut lines = done.out.lines().map(str::to_owned);
    assert_eq!(
        lines.next().unwrap(),
        "run|attempt|state|outcome|cause|preset"
    );
    lines.collect()
}

#[test]
fn every_attempt_is_a_row_and_filters_choose_among_them() {
    let place = two_runs();
    let (oom, fits) = (
        "loom-a|1|FAILED||cuda_oom|weaver",
        "loom-a|2|COMPLETED|succeeded||weaver",
    );
    let all = rows(&place, &[]);
    assert_eq!(all[..2], [oom, fits]);
    assert_eq!(all.len(), 3, "{all:?}");
    assert!(all[2].starts_with("loom-b|1|FAILED|failed|"), "{all:?}");
    assert_eq!(rows(&place, &["--cause", "cuda_oom"]), [oom]);
    assert_eq!(rows(&place, &["--cause", "gpu_oom,host_oom"]), [oom]);
    assert_eq!(rows(&place, &["--state", "completed"]), [fits]);
    assert_eq!(
        rows(&place, &["--state", "succeeded", "--state", "failed"]),
        all
    );
    assert_eq!(
        rows(&place, &["--dataset", "diamonds-seed0"]),
        Vec::<String>::new()
    );
    assert_eq!(rows(&place, &["--since", "1h"]), all);
    assert_eq!(
        rows(&place, &["--since", "2199-01-01"]),
        Vec::<String>::new()
    );
    place.says("history --since lately", 2, &["is not a time (7d"]);
    place
        .run("history --columns stat")
        .ends(2)
        .says(&["a similar value exists: 'state'"]);
}

#[test]
fn people_get_a_table_with_a_sum_and_programs_every_column() {
    let place = two_runs();
    let done = place.run(&["history"]).ends(0);
    let first = done.out.lines().next().unwrap();
    assert!(first.starts_with("RUN     ATTEMPT  JOB"), "{first}");
    done.says(&[
        "loom-a",
        "GPU memory",
        "3 attempts of 2 runs, 0.00 GPU-hours",
    ]);
    let json = place.json("history --json");
    assert_eq!(json["schema_version"], 1);
    let attempt = &json["attempts"][0];
    assert_eq!(
        (&attempt["run"], &attempt["class"]),
        (&"loom-a".into(), &"gpu_oom".into())
    );
    assert_eq!(attempt["preset"], "weaver");
    assert!(
        attempt["headline"].as_str().unwrap().contains("20.00 GiB"),
        "{attempt:#}"
    );
}

#[test]
fn prometheus_gets_a_file_with_sums_by_state_and_cause_and_how_much_is_in_none() {
    let place = site();
    place.write("runs.prom", "old");
    let done = place.run(&["history", ".", "--prometheus", "runs.prom"]);
    let done = done.ends(0);
    assert_eq!(done.out, "runs.prom\n");
    done.says(&["not read, and in no sum: ", "loom-z"]);
    let metrics = place.read("runs.prom");
    let printed = place.run(&["history", ".", "--prometheus", "-"]).ends(0);
    assert_eq!(printed.out, metrics);
    insta::assert_snapshot!(metrics);
    let missing = ["history", "--prometheus", "no/folder/runs.prom"];
    place.says(&missing, 4, &["cannot write no/folder/runs.prom"]);
}

#[test]
fn projects_below_a_folder_are_found() {
    let place = two_runs();
    let above = place.root.parent().unwrap().display().to_string();
    let mut elsewhere = place.command(&["history", "-P", "--columns", "run,folder", &above]);
    elsewhere.current_dir("/");
    let done = super::place::Done::from(elsewhere.output().unwrap()).ends(0);
    let row = format!("loom-b|{}", place.root.display());
    assert!(done.out.lines().any(|l| l == row), "{}", done.told());
    place
        .run("history loom-a")
        .ends(2)
        .says(&["loom-a is not a folder", "oomctl status"]);
}

/// The two runs with attempts that held their GPU for hours, a copy of them in a folder with a hostile name, and a ledger that
/// cannot be read.
pub fn site() -> Place {
    let place = two_runs();
    for (run, hours) in [("loom-a", 2), ("loom-b", 5)] {
        let path = format!("{}/ledger.jsonl", place.run_dir(run));
        let ledger = place.read(&path);
        let lines = ledger
            .lines()
            .map(|line| match line.split_once("\"gpu_seconds\":") {
                Some((head, _)) if line.contains("\"ended\"") => {
                    format!("{head}\"gpu_seconds\":{}.0}}\n", hours * 3_600)
                }
                _ => format!("{line}\n"),
            });
        place.write(&path, &lines.collect::<String>());
    }
    let copy = "<i>deep/.oomctl/runs";
    for run in ["loom-a", "loom-z"] {
        let (from, to) = (place.run_dir("loom-a"), format!("{copy}/{run}"));
        std::fs::create_dir_all(place.path(&to)).unwrap();
        for file in ["inputs.json", "ledger.jsonl"] {
            place.write(
                &format!("{to}/{file}"),
                &place.read(&format!("{from}/{file}")),
            );
        }
    }
    let ledger = format!("{copy}/loom-z/ledger.jsonl");
    place.write(
        &ledger,
        &place.read(&ledger).replacen("\"seq\":3", "\"seq\":7", 1),
    );
    place
}

/// What differs between two computers.
fn steady(place: &Place, text: &str) -> String {
    let user = std::process::Command::new("id")
        .arg("-un")
        .output()
        .unwrap();
    let user = String::from_utf8(user.stdout).unwrap();
    let text = text.replace(&place.root.display().to_string(), "[PROJECT]");
    let words = text.split_inclusive(' ').map(|word| match word.trim() {
        "" => String::new(),
        w if w == user.trim() => word.replacen(user.trim(), "[USER]", 1),
        _ => word.to_owned(),
    });
    words.collect()
}

#[test]
fn a_summary_says_what_failed_what_helped_what_was_lost_and_what_could_not_be_read() {
    let place = site();
    let done = place.run(&["history", ".", "--summary"]).ends(0);
    insta::assert_snapshot!(steady(&place, &done.out));
    let json = place.json("history . --summary --json");
    assert_eq!(
        (&json["lost_gpu_hours"], &json["oom_gpu_hours"]),
        (&9.0.into(), &4.0.into())
    );
    let causes = json["causes"].as_array().unwrap();
    let sum: f64 = causes
        .iter()
        .map(|c| c["gpu_hours"].as_f64().unwrap())
        .sum();
    assert!((sum - 9.0).abs() < 1e-9, "{json:#}");
    let filtered = ["history", ".", "--summary", "--cause", "code_bug", "--json"];
    assert_eq!(place.json(&filtered)["runs"], 1);
    let nobody = place.run(&["history", "--user", "nobody-here"]).ends(0);
    assert!(
        nobody.out.contains("no attempt matches"),
        "{}",
        nobody.told()
    );
    let none = Place::bare().run(&["history"]).ends(0).out;
    assert_eq!(none, "no attempts yet\n");
}

#[test]
fn a_summarys_page_asks_nothing_of_a_network_and_a_name_is_no_markup() {
    let place = site();
    let done = place.run(&["history", ".", "--html", "site.html"]).ends(0);
    assert_eq!(done.out, "site.html\n");
    let page = place.read("site.html");
    let printed = place.run(&["history", ".", "--html", "-"]).ends(0).out;
    assert!(printed.starts_with("<!doctype html>") && !place.has("-"));
    for said in [
        "5 attempts of 3 runs in 2 projects took",
        "<strong class=\"bad\">cuda_oom</strong>",
        "<td>thin</td><td>cuda_oom</td><td class=\"n\">2</td>",
        "&lt;i&gt;deep",
        "Not read",
        "default-src 'none'",
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }
    for never in ["http:", "https:", "<i>", "<script"] {
        assert!(!page.contains(never), "{never}: {page}");
    }
    place
        .run("history . --html no/folder/site.html")
        .ends(4)
        .says(&["cannot write no/folder/site.html"]);
    place.run(&["history", "--html", "x", "--json"]).ends(2);
}

#[test]
fn status_says_when_a_job_that_waits_is_expected_to_start_and_nothing_where_slurm_does_not() {
    let mut place = weaver::project("");
    let slurm = super::slurm::Slurm::before(&mut place);
    slurm.tell("state.1", "PENDING 0:0");
    place.run(&["submit", "--run", "loom"]).ends(0);
    for (start, said) in [("4102444800", true), ("N/A", false)] {
        slurm.tell("start", start);
        let out = place.run(&["status", "loom"]).ends(0).out;
        let (first, years) = (out.lines().next().unwrap(), ", expected to start in 2");
        assert_eq!(first.contains(years), said, "{start}: {out}");
        assert!(first.starts_with(" 1  job 101      PENDING"), "{out}");
    }
}

/// A project with this many runs that climbed twice and then fitted.
fn many_runs(count: u32) -> Place {
    let place = weaver::project("knobs: {}");
    place
        .run(&["submit", "--backend", "local", "--watch"])
        .ends(0);
    let ledger = place.read(&format!("{}/ledger.jsonl", place.run_dir("weaver-1")));
    for number in 2..=count {
        let run = format!("weaver-{number}");
        let dir = place.run_dir(&run);
        std::fs::create_dir_all(place.path(&dir)).unwrap();
        place.write(&format!("{dir}/inputs.json"), "{}");
        let ledger = ledger.replace("weaver-1", &run);
        place.write(&format!("{dir}/ledger.jsonl"), &ledger);
    }
    place
}

#[test]
fn a_list_is_the_same_whether_ledgers_are_read_or_not() {
    let place = many_runs(20);
    // Without the newest run in full, which is read from its ledger.
    let list = || {
        let status = place.run(&["status"]).ends(0).out;
        status.split("\n\n").next().unwrap().to_owned()
    };
    let first = list();
    // What is remembered is what is shown, as long as the ledger is the same.
    let index = place.read(".oomctl/index.jsonl");
    let lie = index.replace("succeeded", "vanished");
    assert_ne!(lie, index);
    place.write(".oomctl/index.jsonl", &lie);
    assert_eq!(list(), first.replace("succeeded", "vanished "));
    place.write(".oomctl/index.jsonl", &index);

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
    let of_another = lie.replace(env!("CARGO_PKG_VERSION"), "0.0.0");
    for damaged in ["", "{}\n\0\n", &index[..index.len() / 2], &of_another] {
        place.write(".oomctl/index.jsonl", damaged);
        assert_eq!(list(), first);
    }
}
