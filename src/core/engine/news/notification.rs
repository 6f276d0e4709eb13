//! A notice as it is given: JSON for programs, a title and lines for people.

use std::path::Path;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::News;
use crate::core::engine::outcome::Outcome;
use crate::core::engine::state::{Attempt, History};
use crate::core::ladder::Change;
use crate::core::request::NewsKind;
use oomctl_diagnose::{Incident, Link};

/// The version of the document that this program gives.
const SCHEMA_VERSION: u32 = 1;
/// News that one notice tells singly; of the rest it has the number.
const TOLD_MAX: usize = 20;
/// Shortest value that is taken for a secret: a shorter one stands in too much else.
const SECRET_MIN: usize = 6;
/// What stands where a secret was.
const MASK: &str = "***";

/// A notice. It has no evidence, no environment and no paths but the project's: what a log says may be anything, and
/// this leaves the cluster.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Notification {
    /// Version of this document.
    pub schema_version: u32,
    /// What happened, in one line.
    pub title: String,
    /// The same, a line for each thing that happened.
    pub text: String,
    /// Folder of the project.
    pub project: String,
    /// What happened, oldest first, at most 20.
    pub events: Vec<NotifiedEvent>,
    /// How much more happened.
    pub more: usize,
}

/// Something that happened, with what belongs to it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NotifiedEvent {
    /// `escalated`, `hung`, `stalled`, `succeeded`, `gave_up`.
    pub event: NewsKind,
    /// Name of the run.
    pub run: String,
    /// When.
    pub at: Timestamp,
    /// The attempt that it is about, the last one at the end of a run.
    pub attempt: Option<u32>,
    /// How many there were.
    pub attempts: usize,
    /// The job of that attempt.
    pub job: Option<String>,
    /// How the run ended, where it is over.
    pub outcome: Option<String>,
    /// The exit code that stands for that.
    pub exit_code: Option<u8>,
    /// Why the attempt failed, in one line.
    pub headline: Option<String>,
    /// The rungs that are climbed.
    pub rungs: Vec<String>,
    /// What they change.
    pub changes: Vec<Change>,
    /// Seconds without progress.
    pub quiet_s: Option<u64>,
    /// Pages of trackers that the logs of the attempt name.
    pub links: Vec<Link>,
}

impl NotifiedEvent {
    /// What happened to a run, as its history has it.
    pub fn new(history: &History, news: &News) -> Self {
        let number = news.attempt;
        let is_it = |a: &&Attempt| number.is_none_or(|number| a.number == number);
        let attempt = history.attempts.iter().rev().find(is_it);
        let outcome = history.outcome.as_ref().filter(|_| news.kind.is_end());
        let incident = attempt.and_then(|a| a.incident.as_ref());
        let steps = attempt.map(Attempt::steps).unwrap_or_default();
        Self {
            event: news.kind,
            run: history.run.clone(),
            at: news.at,
            attempt: attempt.map(|a| a.number),
            attempts: history.attempts.len(),
            job: attempt
                .and_then(|a| a.job.as_ref())
                .map(|j| j.id.to_string()),
            outcome: outcome.map(|o| o.word().to_owned()),
            exit_code: outcome.map(Outcome::exit_code),
            headline: incident.filter(|i| i.fatal).map(Incident::headline),
            rungs: steps.iter().map(|s| s.rung.clone()).collect(),
            changes: steps.iter().flat_map(|s| s.changes.clone()).collect(),
            quiet_s: news.quiet_s,
            links: attempt.map(|a| a.links.clone()).unwrap_or_default(),
        }
    }

    /// It in one line.
    pub fn line(&self) -> String {
        let run = &self.run;
        let number = self.attempt.unwrap_or(1);
        let why = self.headline.as_ref().map(|h| format!(": {h}"));
        let why = why.unwrap_or_default();
        let attempts = match self.attempts {
            1 => "1 attempt".to_owned(),
            n => format!("{n} attempts"),
        };
        let quiet_s = self.quiet_s.unwrap_or(0);
        match self.event {
            NewsKind::Escalated => {
                let change = |c: &Change| format!("{} {}", c.knob, c.values("->"));
                let changes: Vec<String> = self.changes.iter().map(change).collect();
                let (rungs, changes) = (self.rungs.join(", "), changes.join(", "));
                format!("{run}: attempt {number} failed{why}. Next: {rungs} ({changes})")
            }
            NewsKind::Hung => {
                format!(
                    "{run}: attempt {number} hangs (no sign of life for {quiet_s} s); its job is cancelled"
                )
            }
            NewsKind::Stalled => {
                format!("{run}: attempt {number} has shown no progress for {quiet_s} s")
            }
            NewsKind::Succeeded => format!("{run}: succeeded after {attempts}"),
            NewsKind::GaveUp => {
                let outcome = self.outcome.as_deref().unwrap_or("failed");
                format!("{run}: gave up after {attempts}, {outcome}{why}")
            }
        }
    }
}

/// A notice of what happened.
pub fn notification(project: &Path, mut told: Vec<NotifiedEvent>) -> Notification {
    told.sort_by_key(|t| t.at);
    let title = match told.as_slice() {
        [one] => one.line(),
        all => digest(all),
    };
    let more = told.len().saturating_sub(TOLD_MAX);
    // What happened last says most of where things stand.
    let events = told.split_off(more);
    let mut lines: Vec<String> = events.iter().map(NotifiedEvent::line).collect();
    if more > 0 {
        lines.insert(
            0,
            format!("{more} before these: `oomctl status` lists all runs"),
        );
    }
    Notification {
        schema_version: SCHEMA_VERSION,
        title,
        text: lines.join("\n"),
        project: project.display().to_string(),
        events,
        more,
    }
}

fn digest(all: &[NotifiedEvent]) -> String {
    let mut runs: Vec<&str> = all.iter().map(|t| t.run.as_str()).collect();
    runs.sort_unstable();
    runs.dedup();
    let count = |kind: NewsKind| all.iter().filter(|t| t.event == kind).count();
    let named = [
        (NewsKind::GaveUp, "gave up"),
        (NewsKind::Hung, "hung"),
        (NewsKind::Stalled, "stalled"),
        (NewsKind::Escalated, "escalated"),
        (NewsKind::Succeeded, "succeeded"),
    ];
    let counts = named.into_iter().map(|(kind, word)| (count(kind), word));
    let counts: Vec<String> = counts
        .filter(|(n, _)| *n > 0)
        .map(|(n, word)| format!("{n} {word}"))
        .collect();
    match runs.as_slice() {
        [run] => format!("{run}: {}", counts.join(", ")),
        runs => format!("{} runs: {}", runs.len(), counts.join(", ")),
    }
}

/// Takes the values of secrets out of every text of a document.
pub fn mask(document: &mut Value, secrets: &[String]) {
    match document {
        Value::String(text) => {
            for secret in secrets.iter().filter(|s| s.len() >= SECRET_MIN) {
                if text.contains(secret.as_str()) {
                    *text = text.replace(secret.as_str(), MASK);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| mask(item, secrets)),
        Value::Object(fields) => fields.values_mut().for_each(|field| mask(field, secrets)),
        _ => {}
    }
}
