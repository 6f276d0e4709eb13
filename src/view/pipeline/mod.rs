//! What CI systems read of runs: workflow commands, a JUnit report, a code quality report, variables.
//!
//! Rule: data in, text out; who writes it where is `cli/pipeline`.

pub mod commands;
pub mod junit;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::run_view::{AttemptView, RunView};
use crate::core::exit::Exit;
use oomctl_diagnose::{Evidence, sanitize};

/// Lines of evidence that are shown of an attempt.
const EVIDENCE_MAX: usize = 8;

/// A run with the places of its logs, as the pipeline knows them.
pub struct PipelineRun {
    /// The run.
    pub view: RunView,
    /// For each attempt, where the log of its first evidence is; `None` where that is not from a log.
    pub logs: Vec<Option<String>>,
}

/// An attempt that failed.
pub struct PipelineFailure<'a> {
    /// The run.
    pub run: &'a str,
    /// The attempt.
    pub attempt: &'a AttemptView,
    /// True where the run went on, and did not fail in the end.
    pub healed: bool,
    /// The log of the evidence, with its line.
    pub place: Option<(&'a str, u64)>,
}

impl PipelineRun {
    /// The attempts that failed, in order.
    pub fn findings(&self) -> impl Iterator<Item = PipelineFailure<'_>> {
        let healed = self.view.exit_code.is_none_or(|exit| exit == Exit::Success);
        let attempts = self.view.attempts.iter().zip(&self.logs);
        let failed = attempts.filter(|(a, _)| is_failure(a));
        failed.map(move |(attempt, log)| PipelineFailure {
            run: &self.view.run,
            attempt,
            healed,
            place: log.as_deref().zip(line_of(attempt)),
        })
    }
}

impl PipelineFailure<'_> {
    /// Why it failed, in one line.
    pub fn headline(&self) -> String {
        printable(self.attempt.headline.as_deref().unwrap_or("failed"))
    }

    /// What followed, in one line; empty where nothing did.
    pub fn then(&self) -> String {
        let change = |c: &crate::core::ladder::Change| format!("{} {}", c.name(), c.values("->"));
        let changes: Vec<String> = self.attempt.changes.iter().map(change).collect();
        match self.attempt.rungs.as_slice() {
            [] => String::new(),
            rungs => printable(&format!(
                "then {}: {}",
                rungs.join(", "),
                changes.join(", ")
            )),
        }
    }

    /// The name by which CI systems sort failures.
    pub fn kind(&self) -> &str {
        let incident = self.attempt.incident.as_ref();
        incident.map_or("failed", |i| i.kind.as_str())
    }

    /// The lines that prove it, each with its place.
    pub fn evidence(&self) -> Vec<String> {
        let incident = self.attempt.incident.as_ref();
        let evidence = incident.map(|i| i.evidence.as_slice()).unwrap_or_default();
        evidence.iter().take(EVIDENCE_MAX).map(proof).collect()
    }
}

/// Has an attempt ended with a failure that it died of?
pub fn is_failure(attempt: &AttemptView) -> bool {
    attempt.ended.is_some() && attempt.incident.as_ref().is_some_and(|i| i.fatal)
}

/// The first evidence of an attempt that is from a log.
pub fn logged(attempt: &AttemptView) -> Option<&Evidence> {
    let incident = attempt.incident.as_ref()?;
    incident.evidence.iter().find(|e| !e.file.is_empty())
}

fn line_of(attempt: &AttemptView) -> Option<u64> {
    logged(attempt).map(|e| e.line)
}

fn proof(e: &Evidence) -> String {
    let text = printable(e.text.trim());
    match e.file.is_empty() {
        true => text,
        false => format!("{}:{}: {text}", printable(&e.file), e.line),
    }
}

/// Text from logs and schedulers, without what is none.
fn printable(text: &str) -> String {
    sanitize(text.as_bytes())
}

/// Failures as GitLab's code quality report: a list of issues, each at a line of a file. An attempt that failed in a run that did not is of severity `minor`.
///
/// Source: docs.gitlab.com, "Code Quality", report format: `description`, `check_name`, `fingerprint`, `severity`,
/// `location.path`, `location.lines.begin`.
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

/// Bytes that a step may put into its summary.
///
/// Source: docs.github.com, "Workflow commands for GitHub Actions": job summaries are at most 1 MiB a step, and more
/// than that fails the upload of all of it.
pub const SUMMARY_MAX: usize = 1 << 20;

/// Said where something had to be left out.
const SUMMARY_CUT: &str =
    "\n\n… cut here: a job summary has at most 1 MiB; `oomctl report` has all of it.\n";

/// Markdown of at most `most` bytes, cut between lines. A block of code that is open there is closed.
pub fn summary_within(markdown: &str, most: usize) -> String {
    if markdown.len() <= most {
        return markdown.to_owned();
    }
    let mut kept = String::new();
    let mut fence: Option<&str> = None;
    for line in markdown.split_inclusive('\n') {
        let ticks = &line[..line.len() - line.trim_start_matches('`').len()];
        let opened = match fence {
            None if ticks.len() >= 3 => Some(ticks),
            Some(open) if line.trim_end() == open => None,
            as_it_was => as_it_was,
        };
        let close = opened.map_or(0, |open| open.len() + 1);
        if kept.len() + line.len() + close + SUMMARY_CUT.len() > most {
            break;
        }
        kept.push_str(line);
        fence = opened;
    }
    if let Some(open) = fence {
        kept.push_str(open);
        kept.push('\n');
    }
    if kept.len() + SUMMARY_CUT.len() <= most {
        kept.push_str(SUMMARY_CUT);
    }
    kept
}

/// Variables by name, in upper case as GitLab has them.
pub struct Variables(Vec<(&'static str, String)>);

impl Variables {
    /// Of what was asked for by `asked` names: of several runs there is no one job and no one state.
    pub fn new(asked: &str, runs: &[RunView], exit_code: Option<Exit>) -> Self {
        let mut all = vec![("RUN", asked.to_owned())];
        if let [run] = runs {
            let job = run.attempts.iter().rev().find_map(|a| a.job.clone());
            all.push(("JOB", job.unwrap_or_default()));
            all.push(("STATE", run.state.clone()));
            all.push(("ATTEMPTS", run.attempts.len().to_string()));
        }
        all.extend(exit_code.map(|code| ("EXIT_CODE", code.to_string())));
        Self(all)
    }

    /// As a dotenv report of GitLab: `OOMCTL_RUN=name`, no quotes, no empty lines, at most 5 KiB.
    ///
    /// Source: docs.gitlab.com, "GitLab CI/CD artifacts reports types", `artifacts:reports:dotenv`.
    pub fn dotenv(&self) -> String {
        self.lines(|name| format!("OOMCTL_{name}"))
    }

    /// As outputs of a step on GitHub: `run=name`.
    pub fn outputs(&self) -> String {
        self.lines(|name| name.to_lowercase().replace('_', "-"))
    }

    fn lines(&self, key: impl Fn(&str) -> String) -> String {
        let line = |(name, value): &(&str, String)| {
            let value: String = value.chars().filter(|c| !c.is_control()).collect();
            format!("{}={}\n", key(name), value.trim())
        };
        self.0.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests;
