use jiff::Timestamp;
use serde_json::json;

use super::commands::{annotations, defused, defused_json};
use super::junit::junit;
use super::*;
use oomctl_diagnose::Incident;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

/// An incident whose evidence is this line of a log, or the scheduler's word.
fn incident(file: &str, text: &str) -> Incident {
    let evidence = json!({
        "signature": "torch_cuda_oom", "role": "root", "file": file, "line": 33, "offset": 900, "text": text,
    });
    serde_json::from_value(json!({
        "kind": "cuda_oom", "class": "gpu_oom", "is_gpu_oom": true, "is_host_oom": false, "fatal": true,
        "retryable_unchanged": false, "phase": "backward", "fragmentation": false, "data_parallel": false,
        "co_tenant": null, "helps": [], "worse": [], "evidence": [evidence], "consequences": [], "notes": [],
    }))
    .unwrap()
}

fn attempt(number: u32, incident: Option<Incident>) -> AttemptView {
    AttemptView {
        attempt: number,
        job: Some(format!("41{number}")),
        adopted: false,
        state: Some("FAILED".to_owned()),
        reason: None,
        starts_in_s: None,
        exit: None,
        nodes: Vec::new(),
        gpus: 4,
        intended: at(0),
        ended: Some(at(i64::from(number) * 60)),
        progress: None,
        phantom: Vec::new(),
        changed: Vec::new(),
        excluded: Vec::new(),
        foreseen: None,
        links: Vec::new(),
        measured: None,
        host: None,
        headline: incident.as_ref().map(|_| "GPU 0: out of memory".to_owned()),
        incident,
        withdrawn: Vec::new(),
        rungs: Vec::new(),
        changes: Vec::new(),
        notes: Vec::new(),
        ran_s: Some(60),
    }
}

/// A run whose attempts failed with these incidents and that ended with this code; no code where it is not over.
fn told(exit_code: Option<Exit>, incidents: Vec<Option<Incident>>) -> PipelineRun {
    let logs = incidents.iter().enumerate().map(|(i, incident)| {
        let evidence = incident.as_ref()?.evidence.first()?;
        let file = &evidence.file;
        (!file.is_empty()).then(|| format!(".oomctl/runs/r-1/attempt-{}/{file}", i + 1))
    });
    let logs = logs.collect();
    let attempts = (1..).zip(incidents).map(|(n, i)| attempt(n, i));
    let state = match exit_code {
        Some(Exit::Success) => "succeeded",
        Some(_) => "exhausted",
        None => "running",
    };
    let view = RunView {
        run: "r-1".to_owned(),
        state: state.to_owned(),
        ended: None,
        exit_code,
        reason: exit_code
            .filter(|exit| *exit != Exit::Success)
            .map(|_| "no rung of the ladder is left".to_owned()),
        hint: None,
        remarks: Vec::new(),
        created: Some(at(0)),
        elapsed_s: 120,
        gpu_hours: 0.0,
        gpu_seconds: 0.0,
        attempts: attempts.collect(),
        skipped: Vec::new(),
    };
    PipelineRun { view, logs }
}

/// What a log may say to whoever shows it.
const HOSTILE: &str = "out of memory]]> <&\"'\u{1}\u{fffe} 100%, a:b\n::error::forged";

#[test]
fn annotations_stand_at_the_evidence_and_are_warnings_where_the_run_went_on() {
    let failed = told(
        Some(Exit::StillOutOfMemory),
        vec![Some(incident("slurm.err", "CUDA out of memory, 50%"))],
    );
    assert_eq!(
        annotations(&[failed]),
        [
            "::error title=r-1 exhausted::no rung of the ladder is left",
            "::error file=.oomctl/runs/r-1/attempt-1/slurm.err,line=33,title=r-1 attempt 1::GPU 0: out of \
             memory%0Aslurm.err:33: CUDA out of memory, 50%25",
        ]
    );
    let healed = told(
        Some(Exit::Success),
        vec![Some(incident("slurm.err", "x")), None],
    );
    let lines = annotations(&[healed]);
    assert_eq!(lines.len(), 1);
    assert!(lines[0].starts_with("::warning file="), "{lines:?}");
    // The scheduler's word has no line.
    let host = told(
        Some(Exit::Failed),
        vec![Some(incident("", "job 1: OUT_OF_MEMORY"))],
    );
    assert!(annotations(&[host])[1].starts_with("::error title=r-1 attempt 1::"));
}

#[test]
fn what_a_log_says_ends_no_property_and_starts_no_command() {
    let mut run = told(
        Some(Exit::Failed),
        vec![Some(incident("a,b:c%.err", HOSTILE))],
    );
    run.view.reason = Some("reason\n::error::forged\r\n::add-mask::a".to_owned());
    for line in annotations(&[run]) {
        assert!(!line.contains(['\n', '\r']), "{line}");
        let body = line.strip_prefix("::").unwrap();
        let (properties, _) = body.split_once("::").unwrap();
        for pair in properties.split_once(' ').unwrap().1.split(',') {
            let (name, value) = pair.split_once('=').unwrap();
            assert!(["file", "line", "title"].contains(&name), "{line}");
            assert!(!value.contains(':'), "{line}");
        }
    }
}

#[test]
fn a_level_has_ten_annotations_and_they_are_of_the_last_attempts() {
    let incidents = (0..30).map(|_| Some(incident("slurm.err", "x"))).collect();
    let lines = annotations(&[told(Some(Exit::StillOutOfMemory), incidents)]);
    assert_eq!(lines.len(), 10);
    assert!(lines[1].contains("title=r-1 attempt 30::"), "{lines:?}");
}

#[test]
fn no_line_of_ours_is_a_command() {
    for (text, safe) in [
        ("fine: a::b", "fine: a::b"),
        (
            "::error::x\n  ::stop-commands::y\n",
            ": :error::x\n  : :stop-commands::y\n",
        ),
        ("\u{1b}[1m::error::x\u{1b}[0m", ": :error::x"),
        ("\u{1b}[1m:\u{1b}[0m:error::x", ": :error::x"),
        ("\u{a0}::error::x", "\u{a0}: :error::x"),
        ("step ##[error]x ##[group]", "step ## [error]x ## [group]"),
        ("::##[error]x", ": :## [error]x"),
    ] {
        assert_eq!(defused(text), safe);
    }
    let json = defused_json(r###"{"text":"##[error]x"}"###);
    assert!(!json.contains("##["));
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["text"], "##[error]x");
}

#[test]
fn a_junit_report_agrees_with_the_exit_code_and_is_read_back_as_it_was_meant() {
    for (exit_code, failures, skipped) in [
        (Some(Exit::StillOutOfMemory), 3, 0),
        (Some(Exit::Success), 0, 2),
        (None, 0, 3),
    ] {
        let incident = || Some(incident("slurm.err", HOSTILE));
        let text = junit(&[told(exit_code, vec![incident(), incident(), None])]);
        let document = roxmltree::Document::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let suite = document.descendants().find(|n| n.has_tag_name("testsuite"));
        let suite = suite.unwrap();
        let number = |name: &str| suite.attribute(name).unwrap().parse::<f64>().unwrap();
        let count = |tag: &str| suite.descendants().filter(|n| n.has_tag_name(tag)).count();
        assert_eq!(number("tests"), 4.0);
        assert_eq!(number("time"), 120.0);
        assert_eq!((count("failure"), count("skipped")), (failures, skipped));
        assert_eq!(count("testcase"), 4);
        assert_eq!(number("failures"), failures as f64);
        assert_eq!(number("skipped"), skipped as f64);
        let told = ["failure", "system-out"];
        let first = suite
            .descendants()
            .find(|n| told.contains(&n.tag_name().name()));
        let first = first.unwrap().text().unwrap();
        assert!(
            first.contains("slurm.err:33: out of memory]]> <&\"'"),
            "{first}"
        );
        for case in suite.children().filter(|n| n.has_tag_name("testcase")) {
            assert_eq!(case.attribute("classname"), Some("r-1"));
            case.attribute("time").unwrap().parse::<f64>().unwrap();
        }
    }
    insta::assert_snapshot!(junit(&[told(
        Some(Exit::StillOutOfMemory),
        vec![Some(incident("slurm.err", "CUDA out of memory"))]
    )]));
}

#[test]
fn a_code_quality_report_has_an_issue_for_each_failure_each_known_by_a_fingerprint() {
    let incidents = vec![
        Some(incident("slurm.err", "CUDA out of memory")),
        Some(incident("", "job 2: OUT_OF_MEMORY")),
        None,
    ];
    let text = quality(&[told(Some(Exit::Success), incidents)]);
    let issues: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(issues.as_array().unwrap().len(), 2);
    assert_ne!(issues[0]["fingerprint"], issues[1]["fingerprint"]);
    assert_eq!(
        issues[1]["location"]["path"],
        ".oomctl/runs/r-1/attempt-2/verdict.json"
    );
    insta::assert_snapshot!(text);
}

#[test]
fn a_summary_keeps_to_its_size_and_closes_what_it_opened() {
    let markdown = format!(
        "# Title\n\n````text\n{}````\n\nend\n",
        "```\nline\n".repeat(100)
    );
    assert_eq!(summary_within(&markdown, markdown.len()), markdown);
    for most in [0, 10, 90, 200, 400] {
        let text = summary_within(&markdown, most);
        assert!(text.len() <= most, "{most}: {text}");
        let fences = text
            .lines()
            .filter(|line| *line == "````text" || *line == "````");
        assert_eq!(fences.count() % 2, 0, "{most}: {text}");
        assert!(most < 200 || text.contains("cut here"), "{text}");
    }
}

#[test]
fn variables_are_one_line_each_and_empty_of_what_could_make_another() {
    let one = [told(Some(Exit::Success), vec![None]).view];
    let variables = Variables::new("r-1", &one, Some(Exit::Success));
    assert_eq!(
        variables.dotenv(),
        "OOMCTL_RUN=r-1\nOOMCTL_JOB=411\nOOMCTL_STATE=succeeded\nOOMCTL_ATTEMPTS=1\nOOMCTL_EXIT_CODE=0\n"
    );
    assert_eq!(
        variables.outputs(),
        "run=r-1\njob=411\nstate=succeeded\nattempts=1\nexit-code=0\n"
    );
    let forged = Variables::new("a\nLD_PRELOAD=x", &[], None);
    assert_eq!(forged.dotenv(), "OOMCTL_RUN=aLD_PRELOAD=x\n");
}
