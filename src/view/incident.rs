//! An incident as text and as JSON.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

use super::explanation::explained;
use super::lines::evidence;
use super::memory_bar::memory_bar;
use super::snapshot_view;
use super::style::{BAD, DIM, GOOD, NAME, Paint, WARN};
use crate::core::request::Explanation;
use oomctl_base::job::{ExitStatus, JobState, JobStatus, Stage};
use oomctl_base::units::Bytes;
use oomctl_diagnose::{
    Class, EngineCache, Evidence, EvidenceRole, Frame, Incident, KnownBug, MemoryCourse, Snapshot,
    Tri, sanitize,
};

/// Lines of evidence and of consequences that are shown.
const MOST_LINES: usize = 5;
/// Characters of a line shown around the evidence.
const MOST_CONTEXT: usize = 160;

/// What is said about one log, or about several that were judged together. All fields are always
/// there; what is not known is null.
#[derive(Debug, Serialize, JsonSchema)]
pub struct IncidentView {
    /// The log, or a name for all of them.
    pub file: String,
    /// The logs.
    pub files: Vec<String>,
    /// The scheduler's word.
    pub job: Option<JobStatus>,
    /// The run and the number of the attempt.
    pub run: Option<String>,
    /// Number of the attempt.
    pub attempt: Option<u32>,
    headline: String,
    kind: String,
    class: Class,
    is_gpu_oom: Tri,
    is_host_oom: Tri,
    fatal: bool,
    retryable_unchanged: Option<bool>,
    phase: String,
    device_index: Option<u32>,
    rank: Option<u32>,
    requested_bytes: Option<Bytes>,
    total_bytes: Option<Bytes>,
    free_bytes: Option<Bytes>,
    allocated_bytes: Option<Bytes>,
    reserved_bytes: Option<Bytes>,
    reserved_unallocated_bytes: Option<Bytes>,
    co_tenant: Option<Bytes>,
    fragmentation: bool,
    engine_cache: Option<EngineCache>,
    snapshot: Option<Snapshot>,
    data_parallel: bool,
    step: Option<u64>,
    first_step: Option<bool>,
    course: Option<MemoryCourse>,
    exception: Option<String>,
    frame: Option<Frame>,
    progress_line: Option<String>,
    exit: Option<ExitStatus>,
    last_lines: Vec<String>,
    own_code: Vec<String>,
    known_bugs: Vec<KnownBug>,
    helps: Vec<String>,
    worse: Vec<String>,
    evidence: Vec<Evidence>,
    consequences: Vec<Evidence>,
    notes: Vec<String>,
    /// Lines around the root, with their numbers.
    pub context: Vec<(u64, String)>,
    /// Why one GPU of a process that drives several is full, for attempts of a run.
    pub explanation: Option<Explanation>,
}

impl IncidentView {
    /// A view of an incident of the logs `files`, called `file` together.
    pub fn new(file: String, files: Vec<String>, i: &Incident) -> Self {
        Self {
            file,
            files,
            job: None,
            run: None,
            attempt: None,
            headline: i.headline(),
            kind: i.kind.clone(),
            class: i.class,
            is_gpu_oom: i.is_gpu_oom,
            is_host_oom: i.is_host_oom,
            fatal: i.fatal,
            retryable_unchanged: i.retryable_unchanged,
            phase: i.phase.clone(),
            device_index: i.device_index,
            rank: i.rank,
            requested_bytes: i.requested_bytes,
            total_bytes: i.total_bytes,
            free_bytes: i.free_bytes,
            allocated_bytes: i.allocated_bytes,
            reserved_bytes: i.reserved_bytes,
            reserved_unallocated_bytes: i.reserved_unallocated_bytes,
            co_tenant: i.co_tenant_bytes,
            fragmentation: i.fragmentation,
            engine_cache: i.engine_cache,
            snapshot: i.snapshot.clone(),
            data_parallel: i.data_parallel,
            step: i.step,
            first_step: i.first_step,
            course: i.course.clone(),
            exception: i.exception.clone(),
            frame: i.frame.clone(),
            progress_line: i.progress_line.clone(),
            exit: i.exit,
            last_lines: i.last_lines.clone(),
            own_code: i.own_code.clone(),
            known_bugs: i.known_bugs.clone(),
            helps: i.helps.clone(),
            worse: i.worse.clone(),
            evidence: i.evidence.clone(),
            consequences: i.consequences.clone(),
            notes: i.notes.clone(),
            context: Vec::new(),
            explanation: None,
        }
    }

    /// What the state of the job says where its log says nothing.
    fn by_state(&self) -> Option<&'static str> {
        let job = self.job.as_ref()?;
        match (&job.state, self.kind.as_str()) {
            (JobState::Pending | JobState::Configuring, "no_failure") => {
                Some("the job has not started")
            }
            (state, "no_failure") if state.stage() == Stage::Running => {
                Some("the job is still running; its log shows no failure so far")
            }
            (JobState::Cancelled, "cancelled") if job.nodes.is_empty() => {
                Some("the job was cancelled before it started")
            }
            _ => None,
        }
    }

    /// What it says, line by line.
    pub fn text(&self, incident: &Incident, unicode: bool) -> String {
        let style = match (self.kind.as_str(), self.fatal) {
            ("no_failure", _) => GOOD,
            (_, true) => BAD,
            (_, false) => WARN,
        };
        let mut out = format!(
            "{}: {}\n",
            Paint(
                NAME,
                if self.file == "-" {
                    "standard input"
                } else {
                    &self.file
                }
            ),
            Paint(style, self.by_state().unwrap_or(&self.headline))
        );
        self.facts(&mut out);
        self.memory(&mut out, incident, unicode);
        for (name, text) in self.snapshot.iter().flat_map(snapshot_view::lines) {
            line(&mut out, name, &text);
        }
        self.proof(&mut out);
        for (i, text) in self.last_lines.iter().enumerate() {
            let name = if i == 0 { "ends with" } else { "" };
            line(&mut out, name, &Paint(DIM, &clipped(text)).to_string());
        }
        for bug in &self.known_bugs {
            line(&mut out, "bug", &bug.sentence());
            line(&mut out, "", &bug.remedy());
        }
        for (name, texts) in [
            ("helps", &self.helps),
            ("worse", &self.worse),
            ("note", &self.notes),
        ] {
            for text in texts {
                line(&mut out, name, text);
            }
        }
        if let Some(explanation) = &self.explanation {
            let _ = writeln!(out, "\n{}", explained(explanation));
        }
        out
    }

    fn facts(&self, out: &mut String) {
        line(out, "kind", &self.kind);
        if self.phase != "unknown" {
            line(out, "phase", &self.phase);
        }
        let where_ = [("GPU", self.device_index), ("rank", self.rank)];
        let named = where_
            .iter()
            .filter_map(|(n, i)| Some(format!("{n} {}", (*i)?)));
        let named = named.collect::<Vec<_>>().join(", ");
        if !named.is_empty() {
            line(out, "device", &named);
        }
        if let Some(step) = self.step {
            let first = if self.first_step == Some(true) {
                " (the first)"
            } else {
                ""
            };
            line(out, "step", &format!("{step}{first}"));
        }
        if let Some(course) = &self.course {
            line(out, "course", &course.sentence());
        }
        if self.is_host_oom == Tri::Ambiguous || self.is_gpu_oom == Tri::Ambiguous {
            line(
                out,
                "unsure",
                "it is unclear from the log whether memory ran out",
            );
        }
        if let Some(frame) = &self.frame {
            let code = if frame.code.is_empty() {
                String::new()
            } else {
                format!(": {}", frame.code)
            };
            line(out, "where", &clipped(&format!("{frame}{code}")));
        }
        if matches!(
            self.kind.as_str(),
            "other" | "cancelled" | "killed" | "code_bug" | "config"
        ) && let Some(shown) = &self.progress_line
        {
            line(out, "progress", &clipped(shown));
        }
    }

    fn memory(&self, out: &mut String, incident: &Incident, unicode: bool) {
        if let Some(requested) = self.requested_bytes {
            line(out, "requested", &requested.to_string());
        }
        if let Some([bar, legend]) = memory_bar(incident, unicode) {
            line(out, "memory", &bar);
            line(out, "", &legend);
        } else {
            for (name, bytes) in [
                ("free", self.free_bytes),
                ("total", self.total_bytes),
                ("allocated", self.allocated_bytes),
                ("reserved", self.reserved_bytes),
                ("unused", self.reserved_unallocated_bytes),
            ] {
                if let Some(bytes) = bytes {
                    line(out, name, &bytes.to_string());
                }
            }
        }
        if let Some(held) = self.co_tenant {
            line(out, "others", &format!("other processes hold {held}"));
        }
    }

    fn proof(&self, out: &mut String) {
        for (i, proof) in self.evidence.iter().take(MOST_LINES).enumerate() {
            let name = match proof.role {
                EvidenceRole::Survived => "survived",
                EvidenceRole::Advice => "mentioned",
                _ => "evidence",
            };
            line(out, name, &evidence(proof));
            if i == 0 {
                self.surroundings(out, proof);
            }
        }
        for followed in self.consequences.iter().take(MOST_LINES) {
            line(
                out,
                "followed",
                &Paint(DIM, &evidence(followed)).to_string(),
            );
        }
    }

    /// The lines around the root.
    fn surroundings(&self, out: &mut String, root: &Evidence) {
        for (number, text) in self.context.iter().filter(|(n, _)| *n != root.line) {
            let shown = format!("{number:>8} | {}", clipped(text));
            line(out, "", &Paint(DIM, &shown).to_string());
        }
    }
}

fn line(out: &mut String, name: &str, text: &str) {
    let _ = writeln!(out, "  {name:<10} {text}");
}

fn clipped(text: &str) -> String {
    let text = sanitize(text.as_bytes());
    let mut clipped: String = text.trim_end().chars().take(MOST_CONTEXT).collect();
    if clipped.len() < text.trim_end().len() {
        clipped.push('…');
    }
    clipped
}
