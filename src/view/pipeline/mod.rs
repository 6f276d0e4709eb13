//! What CI systems read of runs: workflow commands, a JUnit report, a code quality report, variables.
//!
//! Rule: data in, text out; who writes it where is `cli/pipeline`.

pub mod commands;
pub mod junit;
pub mod quality;
pub mod summary;
pub mod variables;

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
        let change = |c: &crate::core::ladder::Change| format!("{} {}", c.knob, c.values("->"));
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

#[cfg(test)]
mod tests;
