//! Reports: a page, Markdown, text for a mail.

use serde_json::json;

use super::place::{Place, install};
use super::weaver;

const GIB: u64 = 1 << 30;

/// A run that ran out of memory twice and then fitted.
fn climbed() -> Place {
    let place = weaver::project("knobs: {}");
    place
        .run(&["submit", "--backend", "local", "--watch"])
        .ends(0);
    place
}

/// What a sampler on node `n1` would have written beside an attempt.
fn sampled(place: &Place, attempt: u32) {
    let line = |second: u64, used: u64, peak: u64| {
        let gpu = |gpu: u64| {
            json!({
                "gpu": gpu, "uuid": format!("GPU-{gpu}"), "name": "H100", "total_bytes": 80 * GIB,
                "used_bytes": (used - gpu) * GIB, "peak_bytes": (peak - gpu) * GIB,
            })
        };
        let at = format!("2026-11-21T10:00:{second:02}Z");
        json!({ "v": 1, "at": at, "gpus": [gpu(0), gpu(1)] }).to_string() + "\n"
    };
    let text = line(0, 10, 10) + &line(20, 40, 78) + &line(40, 60, 78);
    let dir = place.run_dir("weaver-1");
    place.write(&format!("{dir}/attempt-{attempt}/samples-n1.jsonl"), &text);
}

/// The text without what varies from call to call.
fn steady(place: &Place, text: &str) -> String {
    let text = place.steady(text);
    let rules = [
        (r"\b\d+s\b", "[N]s"),
        (r"\b\d+\.\d\d in attempts", "[N] in attempts"),
        (r"Made .* by", "Made [TIME] by"),
    ];
    rules.iter().fold(text, |text, (from, to)| {
        let rule = regex::Regex::new(from).unwrap();
        rule.replace_all(&text, *to).into_owned()
    })
}

#[test]
fn a_run_is_told_in_three_sentences_with_its_attempts_and_the_way_back() {
    let place = climbed();
    let text = place.run(&["report", "--format", "text"]).ends(0);
    text.says(&[
        "Attempts 1 and 2 ran out of GPU memory.",
        "      threads 8 -> 4 (same math)",
        "Attempt 3: job 3, COMPLETED",
    ]);
    let told = text.told();
    let mut lines = told.lines().filter(|l| !l.contains("oomctl submit"));
    assert!(
        lines.all(|l| l.chars().count() <= 78),
        "fit for a mail: {told}"
    );
    let markdown = place.run(&["report", "weaver-1", "--format", "markdown"]);
    insta::assert_snapshot!(
        "report_as_markdown",
        steady(&place, &markdown.ends(0).told())
    );
}

#[test]
fn the_command_of_a_report_starts_with_what_the_run_ended_with() {
    let place = climbed();
    let report = place.json("report --json");
    let command = report["runs"][0]["reproduce"].as_str().unwrap().to_owned();
    let words: Vec<String> = shlex::split(&command).unwrap();
    let words: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
    place.run(&words).ends(0);
    assert_eq!(place.count("weaver-2", "intended"), 1, "it fits at once");
}

#[test]
fn the_page_is_complete_in_itself_and_draws_what_the_samplers_saw() {
    let place = climbed();
    sampled(&place, 1);
    let done = place.run(&["report", "weaver-1"]).ends(0);
    done.says(&["report.html"]);
    let dir = place.run_dir("weaver-1");
    let page = place.read(&format!("{dir}/report.html"));
    for outside in ["http:", "https:", "src=", "@import", "<script", "url("] {
        assert!(!page.contains(outside), "{outside} in the page");
    }
    for part in [
        "<title>weaver-1 · oomctl</title>",
        "attempt 1 failed for",
        "GPU 0 on n1: peak 78.0 GiB",
        "GPU 1 on n1: peak 77.0 GiB",
        "capacity 80.0 GiB",
        "Tried to allocate 20.00 GiB",
        "<code>threads</code>",
    ] {
        assert!(page.contains(part), "{part} is not in\n{page}");
    }
    let opened = page.matches("<section>").count();
    assert_eq!((opened, page.matches("</section>").count()), (3, 3));
}

#[test]
fn what_a_log_or_a_value_says_is_no_markup() {
    let place = weaver::project("knobs: { motto: '<script>alert(1)</script> | **x**' }");
    install(
        &place.path("trainer.sh"),
        "#!/bin/bash\necho 'RuntimeError: </pre><script>steal()</script> @everyone' >&2; exit 1\n",
    );
    let flags = ["submit", "--backend", "local", "--watch"];
    place
        .run(&[&flags[..], &["--set", "dye=<b>&\"'"]].concat())
        .ends(1);
    let page = place
        .run(&["report", "--to", "-", "--format", "html"])
        .ends(0)
        .told();
    for live in ["<script", "</pre><s", "<b>&"] {
        assert!(!page.contains(live), "{live} in\n{page}");
    }
    assert!(page.contains("&lt;script&gt;steal()"), "{page}");
    let markdown = place
        .run(&["report", "--format", "markdown"])
        .ends(0)
        .told();
    let outside_code: String = markdown.split("```").step_by(2).collect();
    for live in ["<script", "@everyone"] {
        assert!(!outside_code.contains(live), "{live} in\n{markdown}");
    }
}

#[test]
fn several_runs_are_an_overview_and_a_file_is_written_where_it_is_wanted() {
    let mut place = climbed();
    place.set("WEAVER", "fail");
    place
        .run(&["submit", "--backend", "local", "--watch", "--fresh"])
        .ends(1);
    place.run(&["report", "--all", "--to", "all.md"]).ends(0);
    let all = place.read("all.md");
    for part in [
        "1 failed, 1 succeeded",
        "| weaver-1 | succeeded | 3 |",
        " | 0.00 |",
        "## weaver-2",
    ] {
        assert!(all.contains(part), "{part} is not in\n{all}");
    }
    let done = place.run(&["report", "--to", "no/such/folder/report.html"]);
    let done = done.ends(4);
    done.says(&[
        "cannot write no/such/folder/report.html: No such file or directory (os error 2)\n",
    ]);
    place.says("report weaver-9", 2, &["weaver-9"]);
    assert!(!place.has("no"));
}

#[test]
fn a_project_without_runs_says_so() {
    let place = weaver::project("knobs: {}");
    place.says("report", 2, &["no runs here", "oomctl submit"]);
}

/// A run of three attempts that is over, with its ledger changed.
fn kept(changed: impl Fn(&str) -> String) -> Place {
    let place = Place::bare();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    place.copy_project(&root.join("tests/fixtures/picture"));
    std::fs::create_dir_all(place.path(".oomctl")).unwrap();
    std::fs::rename(place.path("runs"), place.path(".oomctl/runs")).unwrap();
    let ledger = format!("{}/ledger.jsonl", place.run_dir("diamonds-seed0-1"));
    place.write(&ledger, &changed(&place.read(&ledger)));
    place
}

#[test]
fn a_log_that_tells_no_total_is_reported_all_the_same() {
    let place = kept(|text| text.replace(",\"total\":12", ""));
    for format in ["html", "svg", "markdown", "text"] {
        let done = place.run(&["report", "--to", "-", "--format", format]);
        done.ends(0);
    }
}

#[test]
fn what_is_no_format_is_refused_with_what_to_do() {
    let place = kept(str::to_owned);
    for name in ["r.pdf", "r.docx"] {
        let done = place.run(&["report", "--to", name]).ends(2);
        done.says(&["cannot write a report as ", ".html", "--format"]);
        assert!(!place.has(name));
    }
    place
        .run(&["report", "--to", "r", "--format", "text"])
        .ends(0);
}

/// Nobody watched as the last job ended: that was noticed 410 s later. It ran for 36 s, from 06:01:48 to 06:02:24.
#[test]
fn a_job_that_ended_unwatched_ran_as_long_as_its_scheduler_says_wherever_that_is_told() {
    let late =
        |line: &str| line.replace("\"at\":\"2026-11-22T06:02:2", "\"at\":\"2026-11-22T06:09:1");
    let place = kept(|text| text.lines().map(|line| late(line) + "\n").collect());
    let status = place.run(&["status", "diamonds-seed0-1"]).ends(0);
    status.says(&["COMPLETED after 36s", "3 attempts, 54s, 0.06 GPU-hours"]);
    let columns = "elapsed,gpu-hours,ended";
    let history = place.run(&["history", "-P", "--columns", columns]).ends(0);
    history.says(&["\n36s|0.04|2026-11-22T06:02:24Z\n"]);
    let history = place.run(&["history"]).ends(0);
    history.says(&["3 attempts of 1 run, 0.06 GPU-hours"]);
    let report = place.run(&["report", "--format", "text"]).ends(0);
    report.says(&["ran 36s", "3 attempts in 54s", "0.06 GPU-hours"]);
}
