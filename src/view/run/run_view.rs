//! A run as text and as JSON, from one view.

use crate::core::engine::{
    Attempt, ChangedFile, Foreseen, History, Outcome, PhantomCheck, RunPhase,
};
use std::fmt::Write as _;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::figures::{duration, gpu_hours};
use super::outcome::{hint, reason_of, skipped, word};
use super::passed_over::reasons_here;
use super::remarks::remarks;
use super::spool::without_spool;
use super::style::{BAD, GOOD, NAME, Paint, WARN};
use super::waiting;
use crate::core::exit::Exit;
use crate::core::ladder::{Change, Skipped};
use crate::core::learn::BadNode;
use crate::core::measure::Measured;
use oomctl_base::job::{HostUse, JobState, Stage};
use oomctl_diagnose::{Incident, Link, Progress};

/// Version of the JSON documents about runs.
const SCHEMA_VERSION: u32 = 1;

/// A run.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RunView {
    /// Name.
    pub run: String,
    /// `waiting`, `submitting`, `pending`, `running`, … or how it ended.
    pub state: String,
    /// The word for its end in texts.
    #[serde(skip)]
    pub ended: Option<&'static str>,
    /// Exit code, when it is over.
    pub exit_code: Option<Exit>,
    /// Why it ended, in one line.
    pub reason: Option<String>,
    /// What to do next.
    pub hint: Option<String>,
    /// What speaks against its success.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Seconds since then, or until its end, less those for which it was over before a retry.
    pub elapsed_s: i64,
    /// GPU-hours so far.
    pub gpu_hours: f64,
    /// The same in seconds, not rounded.
    #[serde(skip)]
    pub gpu_seconds: f64,
    /// Attempts, in order.
    pub attempts: Vec<AttemptView>,
    /// Rungs that were looked at last and not taken.
    pub skipped: Vec<Skipped>,
}

/// An attempt.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AttemptView {
    /// Number, from 1.
    pub attempt: u32,
    /// Job id.
    pub job: Option<String>,
    /// True when the answer to its submission was lost and it was found by its token.
    pub adopted: bool,
    /// The scheduler's word.
    pub state: Option<String>,
    /// Its reason.
    pub reason: Option<String>,
    /// Seconds until it starts, as the scheduler expects of a job that waits.
    pub starts_in_s: Option<i64>,
    /// Exit as `code:signal`.
    pub exit: Option<String>,
    /// Nodes.
    pub nodes: Vec<String>,
    /// GPUs of the whole job.
    pub gpus: u64,
    /// When it was written down.
    pub intended: Timestamp,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// Seconds that its job ran.
    #[serde(skip)]
    pub ran_s: Option<i64>,
    /// Last training step.
    pub progress: Option<Progress>,
    /// What was measured on phantom GPUs before it, and the rungs that it took for that.
    pub phantom: Vec<PhantomCheck>,
    /// Files that changed between the run's submission and this attempt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<ChangedFile>,
    /// Nodes that were excluded before it, because they failed other jobs.
    pub excluded: Vec<BadNode>,
    /// An end of memory that was seen coming.
    pub foreseen: Option<Foreseen>,
    /// Pages of trackers that its logs name.
    pub links: Vec<Link>,
    /// What it was measured to need.
    pub measured: Option<Measured>,
    /// What it used of its nodes, as the scheduler's accounting says.
    pub host: Option<HostUse>,
    /// Why it ended, in one line.
    pub headline: Option<String>,
    /// Why it ended.
    pub incident: Option<Incident>,
    /// Rungs that are taken back after it, because its program did not start with them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub withdrawn: Vec<String>,
    /// The rungs taken after it.
    pub rungs: Vec<String>,
    /// What the rungs changed.
    pub changes: Vec<Change>,
    /// Remarks of the rungs.
    pub notes: Vec<String>,
}

/// Runs, and the exit code of the command that waited for them.
#[derive(Serialize, JsonSchema)]
pub struct RunsDocument<'a> {
    schema_version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<Exit>,
    runs: &'a [RunView],
}

/// The JSON document of some runs, and the exit code of the command that waited for them.
pub fn document(runs: &[RunView], exit_code: Option<Exit>) -> RunsDocument<'_> {
    RunsDocument {
        schema_version: SCHEMA_VERSION,
        exit_code,
        runs,
    }
}

/// A run, as its facts tell.
pub fn run_view(history: &History, now: Timestamp) -> RunView {
    let attempts: Vec<AttemptView> = history
        .attempts
        .iter()
        .map(|a| attempt_view(history, a, now))
        .collect();
    let last = history.attempts.last();
    // The scheduler may know of an end that nobody has written down.
    let told = history.attempt().filter(|_| is_over(history));
    let until = history
        .over_at()
        .or_else(|| last.and_then(Attempt::over_at))
        .or_else(|| told?.status.as_ref()?.ended);
    let until = until.unwrap_or(now);
    let created = history.created.unwrap_or(until).min(began(history, until));
    let gpu_seconds = history.gpu_seconds(until);
    let refused = last.and_then(Attempt::refusal);
    RunView {
        run: history.run.clone(),
        state: state(history),
        ended: history.outcome.as_ref().map(word),
        exit_code: history.outcome.as_ref().map(Outcome::exit),
        reason: match (&history.outcome, refused) {
            (Some(outcome), _) => reason_of(outcome, history),
            (None, Some(refused)) => Some(refused.reason.clone()),
            (None, None) => next(history),
        },
        hint: match (&history.outcome, refused) {
            (Some(outcome), _) => hint(outcome, history),
            (None, refused) => refused
                .and_then(|r| r.hint.clone())
                .or_else(|| history.attempt().and_then(waits)),
        },
        remarks: remarks(history),
        created: history.created,
        elapsed_s: history.open_s(created, until),
        gpu_hours: gpu_hours(gpu_seconds),
        gpu_seconds,
        attempts,
        skipped: skipped(history),
    }
}

/// When its first job started, which is before the run where the job was taken over.
fn began(history: &History, now: Timestamp) -> Timestamp {
    let first = history.attempts.first().and_then(|a| a.status.as_ref());
    first.and_then(|status| status.started).unwrap_or(now)
}

fn attempt_view(history: &History, a: &Attempt, now: Timestamp) -> AttemptView {
    // What was decided after the last attempt of a run that is over was not submitted.
    let dropped = history.outcome.is_some() && history.attempts.last() == Some(a);
    let steps = if dropped { &[] } else { a.steps() };
    let status = a.status.as_ref();
    AttemptView {
        attempt: a.number,
        job: a.job.as_ref().map(|j| j.id.to_string()),
        adopted: a.adopted,
        state: status.map(|s| s.state.word().to_owned()),
        reason: status.and_then(|s| s.reason.clone()),
        starts_in_s: status
            .and_then(|s| s.expected_start)
            .map(|start| start.duration_since(now).as_secs())
            .filter(|seconds| *seconds > 0),
        exit: status.and_then(|s| s.exit).map(|e| e.to_string()),
        nodes: status.map(|s| s.nodes.clone()).unwrap_or_default(),
        gpus: a.gpus,
        intended: a.intended_at,
        ended: a.over_at(),
        ran_s: a.ended_at.and_then(|_| a.ran_s(now)),
        progress: a.progress.clone(),
        phantom: history.phantoms(a.number).cloned().collect(),
        changed: history.changed(a.number).to_vec(),
        excluded: history
            .excluded_before(a.number)
            .flat_map(|e| e.nodes.clone())
            .collect(),
        foreseen: a.foreseen.clone(),
        links: a.links.clone(),
        measured: Some(a.measured.clone()).filter(|m| !m.is_empty()),
        host: status.and_then(|s| s.host.as_deref().copied()),
        headline: a.incident.as_ref().map(|i| without_spool(&i.headline())),
        incident: a.incident.clone(),
        withdrawn: a.withdrawn().map_or_else(Vec::new, |w| w.rungs.clone()),
        rungs: steps.iter().map(|s| s.rung.clone()).collect(),
        changes: steps.iter().flat_map(|s| s.changes.clone()).collect(),
        notes: steps.iter().flat_map(|s| s.notes.clone()).collect(),
    }
}

/// The word for where a run stands.
pub fn state(history: &History) -> String {
    if let Some(outcome) = &history.outcome {
        return outcome.word().to_owned();
    }
    let word = history
        .attempt()
        .and_then(|a| a.status.as_ref())
        .map(|s| s.state.word().to_lowercase());
    match history.phase() {
        // Before its first attempt: others of its sweep go first.
        RunPhase::Preparing(1) => "waiting".to_owned(),
        RunPhase::Live if is_over(history) => "ended".to_owned(),
        RunPhase::Live => word.unwrap_or_else(|| "submitted".to_owned()),
        RunPhase::Searching => "unclear".to_owned(),
        RunPhase::Refused => "refused_for_now".to_owned(),
        RunPhase::Draining | RunPhase::Judging | RunPhase::Closing => "ended".to_owned(),
        _ => "submitting".to_owned(),
    }
}

/// Is the job over, as far as the scheduler says, and nobody has decided what follows?
fn is_over(history: &History) -> bool {
    let status = history.attempt().and_then(|a| a.status.as_ref());
    status.is_some_and(|s| s.state.stage() == Stage::Ended)
}

/// What to do about a job that waits for what time does not bring.
fn waits(attempt: &Attempt) -> Option<String> {
    let status = attempt.status.as_ref()?;
    let reason = status.reason.as_deref()?;
    let is_waiting = status.state == JobState::Pending;
    is_waiting.then(|| waiting::watched(reason, &status.id.0))?
}

/// What a run waits for whose job is over.
fn next(history: &History) -> Option<String> {
    match history.phase() {
        RunPhase::Live if is_over(history) => Some("its logs are read next".to_owned()),
        RunPhase::Judging => {
            let status = history.attempt().and_then(|a| a.status.as_ref());
            let run = &history.run;
            Some(
                match status.is_some_and(|s| s.state == JobState::Completed) {
                    true => format!(
                        "its job completed; `oomctl watch {run}` checks its log and ends the run"
                    ),
                    false => format!("to go on: `oomctl watch {run}`"),
                },
            )
        }
        _ => None,
    }
}

impl RunView {
    /// The run and its attempts.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for attempt in &self.attempts {
            out.push_str(&attempt.text());
        }
        let _ = writeln!(out, "{}", self.last_line());
        for remark in &self.remarks {
            let _ = writeln!(out, "{} {remark}", Paint(WARN, "note:"));
        }
        if let Some(hint) = &self.hint {
            let _ = writeln!(out, "{} {hint}", Paint(WARN, "hint:"));
        }
        if matches!(self.exit_code, Some(Exit::Failed | Exit::StillOutOfMemory)) {
            for reason in reasons_here(&self.skipped) {
                let _ = writeln!(out, "  skipped: {reason}");
            }
        }
        out
    }

    fn last_line(&self) -> String {
        let style = match self.exit_code {
            Some(Exit::Success) => GOOD,
            Some(_) => BAD,
            None => WARN,
        };
        let attempts = match self.attempts.len() {
            1 => "1 attempt".to_owned(),
            n => format!("{n} attempts"),
        };
        let reason = self
            .reason
            .as_ref()
            .map(|r| format!(": {r}"))
            .unwrap_or_default();
        format!(
            "{} {}{reason} ({attempts}, {}, {:.2} GPU-hours)",
            Paint(NAME, &self.run),
            Paint(style, self.ended.unwrap_or(&self.state)),
            duration(self.elapsed_s),
            self.gpu_hours,
        )
    }
}

/// Steps in all, as ` of 60`.
pub fn total(progress: &Progress) -> String {
    progress
        .total
        .map(|t| format!(" of {t}"))
        .unwrap_or_default()
}
