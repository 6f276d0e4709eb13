//! One row of the tables, as `presets/signatures` has it (docs/signatures.md).

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use crate::class::{Class, Tri};
use crate::kind;
use crate::tables::read;

/// What a matching line is to the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LineRole {
    /// A failure that can be the root; the heaviest that was not survived wins, among equals the first.
    #[default]
    Cause,
    /// Follows from another failure; is the root only when nothing heavier is there. The process group
    /// is dying from here on.
    Consequence,
    /// The program says that it goes on after the memory failure before it.
    Handled,
    /// The run came to its end: whatever failed before was survived.
    Success,
    /// Speaks of memory without a failure.
    Advice,
}

/// One message.
#[derive(Debug, Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct Signature {
    /// Name, as evidence shows it.
    pub id: String,
    /// Kind of the incident when this is the root.
    pub kind: String,
    /// What it is to the run.
    #[serde(default)]
    pub role: LineRole,
    /// Which of several candidates is the root; see [`LineRole::Cause`]. Of [`weight`], by role and kind, where it is not given.
    #[serde(default)]
    pub weight: u8,
    /// One of these stands in the line.
    #[serde(deserialize_with = "one_or_more")]
    pub contains: Vec<String>,
    /// Must match the message as well. May span the lines that follow when `wraps` is set.
    pub pattern: Option<String>,
    /// Must not match the line.
    pub unless: Option<String>,
    /// Stands in the innermost frame's function or source line: another message where it does not.
    pub innermost: Option<String>,
    /// The message is long and often wrapped: the next lines belong to it.
    #[serde(default)]
    pub wraps: bool,
    /// When false, the program goes on after it unless what follows shows otherwise.
    #[serde(default = "yes")]
    pub fatal: bool,
    /// A warning level in the prefix does not make it milder, as it never does a consequence.
    #[serde(default)]
    pub any_level: bool,
    /// People and samples quote it: it counts only where a program would print it, or with its figures.
    #[serde(default)]
    pub quotable: bool,
    /// Overrides the kind's answer.
    pub is_gpu_oom: Option<Tri>,
    /// Overrides the kind's answer.
    pub is_host_oom: Option<Tri>,
    /// Overrides the kind's answer.
    pub retryable_unchanged: Option<bool>,
    /// Phase when no frame tells it; overrides the kind's.
    pub phase: Option<String>,
    /// A signal handler raises it wherever the process stands: its frames tell no phase.
    #[serde(default)]
    pub interrupts: bool,
    /// Which memory it is about, for readers of the table.
    #[serde(default)]
    #[expect(dead_code, reason = "for readers of the table")]
    pub pool: IgnoredAny,
    /// Program, source file, versions.
    #[cfg_attr(not(test), expect(dead_code, reason = "for readers of the table"))]
    pub source: String,
    /// An excerpt in the real format, written for this table.
    pub example: String,
}

impl Signature {
    /// A failure of which only the kind is known.
    pub(super) fn bare(id: &str, kind: &str) -> Self {
        Self {
            id: id.to_owned(),
            kind: kind.to_owned(),
            role: LineRole::Cause,
            weight: weight::of(LineRole::Cause, kind),
            fatal: true,
            ..Self::default()
        }
    }
}

/// The rows of a table.
pub(crate) fn rows(table: &str) -> Vec<Signature> {
    let mut rows: Vec<Signature> = read(table);
    for row in &mut rows {
        if row.weight == 0 {
            row.weight = weight::of(row.role, &row.kind);
        }
        row.any_level |= row.role == LineRole::Consequence;
    }
    rows
}

/// Weights. The order is the argument: what ends a process by itself beats what a scheduler says, that
/// beats a signal without a sender, that an exception of unknown meaning, that a mere consequence.
pub(crate) mod weight {
    use super::{Class, LineRole, kind};

    pub(crate) const CAUSE: u8 = 40;
    /// Names a cause without its figures; the message proper is near.
    pub(crate) const NAMED: u8 = 38;
    pub(crate) const SPECIFIC: u8 = 35;
    pub(crate) const SCHEDULER: u8 = 30;
    pub(crate) const KILLED: u8 = 25;
    pub(crate) const EXCEPTION: u8 = 20;
    pub(crate) const CONSEQUENCE: u8 = 10;
    /// Of a success that anybody may have said.
    pub(crate) const SAID: u8 = 1;

    /// The usual weight.
    pub(super) fn of(role: LineRole, of_kind: &str) -> u8 {
        match role {
            LineRole::Cause if kind::row(of_kind).class == Class::NotOom => SPECIFIC,
            LineRole::Cause => CAUSE,
            LineRole::Consequence => CONSEQUENCE,
            LineRole::Handled | LineRole::Success | LineRole::Advice => 0,
        }
    }
}

fn yes() -> bool {
    true
}

/// A text, or several.
fn one_or_more<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMoreTexts {
        One(String),
        More(Vec<String>),
    }
    Ok(match OneOrMoreTexts::deserialize(from)? {
        OneOrMoreTexts::One(text) => vec![text],
        OneOrMoreTexts::More(texts) => texts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UserSignature;

    #[test]
    fn a_projects_signature_is_a_row_but_for_its_class_and_what_helps() {
        let project = UserSignature {
            id: "reactor_full".to_owned(),
            kind: "cuda_oom".to_owned(),
            contains: "reactor: no room".to_owned(),
            pattern: Some("no room".to_owned()),
            retryable_unchanged: Some(true),
            phase: Some("rollout".to_owned()),
            ..UserSignature::default()
        };
        let text = serde_json::to_string(&project).expect("plain data");
        let ours = "\"source\": \"trainer 1.0\", \"example\": \"reactor: no room\"}";
        let text = format!("[{}, {ours}]", text.trim_end_matches('}'));
        let row = rows(&text).remove(0);
        assert_eq!((row.id, row.contains), (project.id, vec![project.contains]));
        assert_eq!((row.fatal, row.weight), (false, weight::CAUSE));
        assert_eq!((row.pattern, row.phase), (project.pattern, project.phase));
        assert_eq!(row.retryable_unchanged, project.retryable_unchanged);
    }
}
