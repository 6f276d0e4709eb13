//! All that is known from the text when an attempt is judged.

use std::sync::LazyLock;

use regex::Regex;

use super::ascii::compiled;
use super::class::Class;
use super::course::Records;
use super::event::LogEvent;
use super::events::Events;
use super::evidence::{Evidence, EvidenceRole};
use super::incident::Incident;
use super::kind;
use super::phase::PhaseMention;
use super::reached::Progress;
use super::tail::Tail;
use super::tenants::Ours;

/// Consequences that an incident carries.
pub(super) const CONSEQUENCES: usize = 8;

/// All that is known from the text.
pub(crate) struct Findings<'a> {
    pub events: &'a Events,
    pub files: Vec<&'a str>,
    pub ours: &'a Ours,
    pub progress: Option<Progress>,
    /// A step was finished in this attempt.
    pub moved: bool,
    pub summary_rank: Option<u32>,
    /// A file holds an earlier run as well.
    pub earlier: bool,
    /// Events up to this one belong to an earlier run of the job.
    pub since: u64,
    /// The head of a traceback in whose middle a file ends.
    pub unfinished: Option<&'a LogEvent>,
    /// Lines of each file.
    pub lines: Vec<u64>,
    /// What was going on at the end.
    pub ambient: Option<PhaseMention>,
    /// The latest line that showed progress.
    pub progress_line: Option<String>,
    /// The end of each file.
    pub tails: Vec<&'a Tail>,
    /// Figures step by step, of the log that has most of them.
    pub records: Option<&'a Records>,
}

impl<'a> Findings<'a> {
    /// The events of this run of the job.
    pub(super) fn events(&self) -> impl Iterator<Item = &'a LogEvent> + use<'a> {
        let since = self.since;
        self.events.iter().filter(move |e| e.order > since)
    }

    /// The last lines of the file of an event, or else of one that errors are written to, or of the last.
    pub(super) fn last_lines(&self, root: Option<&LogEvent>) -> Vec<String> {
        let errors = || self.files.iter().rposition(|name| name.ends_with(".err"));
        let first = root.map(|e| e.source).or_else(errors);
        let rest = (0..self.tails.len()).rev();
        let mut lines = first
            .into_iter()
            .chain(rest)
            .map(|at| self.tails[at].lines());
        lines.find(|lines| !lines.is_empty()).unwrap_or_default()
    }

    /// The epoch that the end of a log names last, of so many (`Epoch 111/1000`).
    pub(super) fn epochs(&self) -> Option<u64> {
        static EPOCH: LazyLock<Regex> =
            LazyLock::new(|| compiled(r"(?i)\bepoch:?\s*\[?\s*(\d{1,9})\s*(?:/|of)\s*\d"));
        let lines = self.tails.iter().flat_map(|tail| tail.lines());
        let epoch = |line: String| EPOCH.captures(&line)?[1].parse().ok();
        lines.filter_map(epoch).max()
    }

    pub(super) fn evidence(&self, event: &LogEvent, role: EvidenceRole) -> Evidence {
        event.evidence(
            role,
            self.files.get(event.source).copied().unwrap_or_default(),
        )
    }
}

/// Does it tell of a lack of memory?
pub(super) fn is_memory(event: &LogEvent) -> bool {
    kind::row(&event.signature.kind).class != Class::NotOom
}

/// An incident of a kind, with what follows from the kind alone.
pub(super) fn blank(kind: &str) -> Incident {
    let row = kind::row(kind);
    Incident {
        is_gpu_oom: row.is_gpu_oom(),
        is_host_oom: row.is_host_oom(),
        retryable_unchanged: row.retryable_unchanged,
        phase: row.phase.clone().unwrap_or_else(|| "unknown".to_owned()),
        ..Incident::bare(kind, row.class)
    }
}

pub(super) fn steps(incident: &mut Incident, findings: &Findings<'_>) {
    if let Some(progress) = &findings.progress {
        incident.step = progress.step.checked_add(1);
        incident.first_step = Some(!findings.moved);
    } else if let Some(counted) = findings.tails.iter().filter_map(|t| t.counts_on()).max() {
        incident.step = counted.step.and_then(|step| step.checked_add(1));
        incident.first_step = Some(false);
    }
}
