//! Failures as GitLab's code quality report: a list of issues, each at a line of a file.
//!
//! Source: docs.gitlab.com, "Code Quality", report format: `description`, `check_name`, `fingerprint`, `severity`,
//! `location.path`, `location.lines.begin`.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{PipelineFailure, PipelineRun};

/// The report of some runs. An attempt that failed in a run that did not is of severity `minor`.
pub fn quality(runs: &[PipelineRun]) -> String {
    let issues: Vec<Value> = runs
        .iter()
        .flat_map(|told| told.findings().map(|finding| issue(&finding)))
        .collect();
    format!("{:#}\n", Value::Array(issues))
}

fn issue(finding: &PipelineFailure<'_>) -> Value {
    let (run, number) = (finding.run, finding.attempt.attempt);
    // What the scheduler alone says stands in no log; its place is the verdict of the attempt.
    let verdict = format!(".oomctl/runs/{run}/attempt-{number}/verdict.json");
    let (path, line) = finding.place.unwrap_or((&verdict, 1));
    let first = finding.evidence().into_iter().next();
    let description = match first {
        Some(proof) => format!("{}: {proof}", finding.headline()),
        None => finding.headline(),
    };
    let fingerprint = Sha256::digest(format!(
        "{run}\0{number}\0{}\0{path}\0{line}",
        finding.kind()
    ));
    json!({
        "description": format!("{run} attempt {number}: {description}"),
        "check_name": format!("oomctl/{}", finding.kind()),
        "fingerprint": format!("{fingerprint:x}"),
        "severity": if finding.healed { "minor" } else { "critical" },
        "location": { "path": path, "lines": { "begin": line } },
    })
}
