//! Logs and what must be said about them. Each file in `tests/diagnosis` is one case: what is expected
//! stands in its first lines (`#: kind cuda_oom`), the log behind `#: log`. The logs are written for these
//! tests, in the formats that `#: source` names. A new case is a new file.

#![allow(clippy::disallowed_methods, reason = "tests touch files")]

use std::fs;
use std::path::Path;

use oomctl_base::job::{ExitStatus, JobId, JobState, JobStatus};
use oomctl_diagnose::{Incident, Scanner};

struct Case {
    name: String,
    expected: Vec<(String, String)>,
    log: Vec<u8>,
}

fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/diagnosis");
    let mut cases: Vec<Case> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| case(&entry.unwrap().path()))
        .collect();
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    cases
}

fn case(path: &Path) -> Case {
    const LOG: &[u8] = b"#: log\n";
    let bytes = fs::read(path).unwrap();
    let at = bytes.windows(LOG.len()).position(|w| w == LOG).unwrap();
    let head = std::str::from_utf8(&bytes[..at]).unwrap();
    let expected = head.lines().map(|line| {
        let (key, value) = line.strip_prefix("#: ").unwrap().split_once(' ').unwrap();
        (key.to_owned(), value.to_owned())
    });
    Case {
        name: path.file_stem().unwrap().to_string_lossy().into(),
        expected: expected.collect(),
        log: bytes[at + LOG.len()..].to_vec(),
    }
}

/// `FAILED 1:0 restarts=1`
fn job(text: &str) -> JobStatus {
    let mut words = text.split(' ');
    let state = match words.next() {
        Some("COMPLETED") => JobState::Completed,
        Some("FAILED") => JobState::Failed,
        Some("TIMEOUT") => JobState::Timeout,
        other => panic!("{other:?}"),
    };
    let (code, signal) = words.next().unwrap().split_once(':').unwrap();
    let mut job = JobStatus::bare(JobId("4711".into()), state);
    job.exit = Some(ExitStatus {
        code: code.parse().unwrap(),
        signal: signal.parse().unwrap(),
    });
    if let Some(restarts) = words.next() {
        job.restarts = restarts.strip_prefix("restarts=").unwrap().parse().unwrap();
    }
    job
}

fn diagnose(case: &Case, piece: usize) -> Incident {
    let mut scanner = Scanner::new(&[]);
    let source = scanner.source("job.log");
    for (i, bytes) in case.log.chunks(piece).enumerate() {
        scanner.feed(source, (i * piece) as u64, bytes);
    }
    scanner.finish_source(source);
    let job = case.expected.iter().find(|(key, _)| key == "job");
    scanner.verdict(job.map(|(_, value)| self::job(value)).as_ref())
}

/// One fact of an incident, as a case writes it down.
fn shown(incident: &Incident, key: &str) -> String {
    let json = serde_json::to_value(incident).unwrap();
    let plain = |field: &str| json[field].to_string().trim_matches('"').to_owned();
    let bytes = |b: Option<oomctl_base::units::Bytes>| b.map_or("null".into(), |b| b.to_string());
    match key {
        "gpu" => plain("is_gpu_oom"),
        "host" => plain("is_host_oom"),
        "device" => plain("device_index"),
        "requested" => bytes(incident.requested_bytes),
        "others" => bytes(incident.co_tenant_bytes),
        "where" => incident.frame.as_ref().map_or("null".into(), |frame| {
            format!("{}:{}", frame.file, frame.line.unwrap_or(0))
        }),
        field => plain(field),
    }
}

#[test]
fn every_log_is_judged_as_its_file_says() {
    let cases = cases();
    assert!(cases.len() >= 40, "{}", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        let incident = diagnose(case, 64 * 1024);
        for (key, value) in &case.expected {
            if matches!(key.as_str(), "source" | "job") {
                continue;
            }
            let said = shown(&incident, key);
            if said != *value {
                let headline = incident.headline();
                wrong.push(format!(
                    "{}: {key} {said}, not {value} ({headline})",
                    case.name
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn it_makes_no_difference_how_a_log_is_cut() {
    for case in cases() {
        let whole = diagnose(&case, usize::MAX);
        for piece in [1, 7, 100] {
            assert_eq!(diagnose(&case, piece), whole, "{} by {piece}", case.name);
        }
    }
}

#[test]
fn every_lack_of_memory_says_what_helps() {
    for case in cases() {
        let incident = diagnose(&case, 64 * 1024);
        if incident.kind.ends_with("_oom") || incident.kind.contains("memory") {
            assert!(!incident.helps.is_empty(), "{}", case.name);
        }
    }
}
