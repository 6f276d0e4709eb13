//! Signatures of a project: messages that only its own program prints.

use std::sync::{Arc, LazyLock};

use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::row::Signature;
use crate::class::Class;
use crate::clean::sanitize;
use crate::kind::{self, KINDS};

/// Fewest characters of [`UserSignature::contains`]: shorter ones stand in too many lines.
const SHORTEST: usize = 4;
/// Most signatures of a project.
const MOST: usize = 200;

/// One message, as a project describes it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UserSignature {
    /// Name, as evidence shows it.
    pub id: String,
    /// Kind of the incident: one of the built-in kinds, or a name of the project's own with `class`.
    pub kind: String,
    /// Class of a kind of the project's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// Stands in the line, case-sensitive.
    pub contains: String,
    /// Regular expression that the line without its prefix must match as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// Does the program die of it? When false it does only if a traceback or a kill follows.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub fatal: bool,
    /// Would the same job, unchanged, have a fair chance?
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retryable_unchanged: Option<bool>,
    /// Phase when no frame tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// What helps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub helps: Vec<String>,
    /// What makes it worse.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub worse: Vec<String>,
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_true(value: &bool) -> bool {
    *value
}

/// Why a signature of a project was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {what}")]
pub struct SignatureError {
    /// The field at fault.
    pub field: &'static str,
    /// What is wrong with it.
    pub what: String,
}

impl UserSignature {
    /// The class that its kind has.
    pub fn class(&self) -> Option<Class> {
        kind::known(&self.kind).map(|row| row.class).or(self.class)
    }

    /// Compiles it.
    ///
    /// # Errors
    /// A kind without class, a text that is too short, a pattern that is no regular expression.
    pub fn check(&self) -> Result<(), SignatureError> {
        CompiledUserSignature::new(self).map(drop)
    }

    /// The texts that are shown to people, with their fields.
    fn shown(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let names = [("id", &self.id), ("kind", &self.kind)].into_iter();
        let phase = self.phase.iter().map(|text| ("phase", text));
        let helps = self.helps.iter().map(|text| ("helps", text));
        let worse = self.worse.iter().map(|text| ("worse", text));
        let all = names.chain(phase).chain(helps).chain(worse);
        all.map(|(field, text)| (field, text.as_str()))
    }
}

/// True for a text that a terminal shows as it stands.
fn is_plain(text: &str) -> bool {
    sanitize(text.as_bytes()) == text
}

/// A project's signature with its pattern compiled.
#[derive(Debug)]
struct CompiledUserSignature {
    signature: Arc<UserSignature>,
    pattern: Option<Regex>,
    row: &'static Signature,
}

impl CompiledUserSignature {
    fn new(given: &UserSignature) -> Result<Self, SignatureError> {
        let fault = |field, what: String| SignatureError { field, what };
        if given.id.is_empty() || given.id.chars().any(char::is_whitespace) {
            return Err(fault("id", "expected a name without spaces".to_owned()));
        }
        if let Some((field, text)) = given.shown().find(|(_, text)| !is_plain(text)) {
            return Err(fault(field, format!("{text:?} holds control characters")));
        }
        if given.contains.len() < SHORTEST {
            let what =
                format!("needs at least {SHORTEST} characters; a shorter one matches every line");
            return Err(fault("contains", what));
        }
        let known = kind::known(&given.kind).map(|row| row.class);
        let class = match (known, given.class) {
            (Some(known), Some(class)) if known != class => {
                let what = format!("the kind `{}` has another class", given.kind);
                return Err(fault("class", what));
            }
            (known, class) => known.or(class).ok_or_else(|| {
                let what = format!(
                    "the kind `{}` is not built in and needs a `class`",
                    given.kind
                );
                fault("kind", what)
            })?,
        };
        let compile = |pattern: &String| {
            regex::RegexBuilder::new(pattern)
                .size_limit(1 << 20)
                .build()
                .map_err(|e| fault("pattern", e.to_string()))
        };
        Ok(Self {
            pattern: given.pattern.as_ref().map(compile).transpose()?,
            row: row(&given.kind, class),
            signature: Arc::new(given.clone()),
        })
    }
}

/// The rows that stand for a project's signatures inside: one a kind.
static ROWS: LazyLock<Vec<Signature>> = LazyLock::new(|| {
    KINDS
        .iter()
        .map(|kind| Signature {
            any_level: true,
            wraps: kind.class == Class::GpuOom,
            ..Signature::bare("user", &kind.name)
        })
        .collect()
});

/// The row of a kind; of one with the same class for a kind of the project's own.
fn row(kind: &str, class: Class) -> &'static Signature {
    let stand_in = match class {
        Class::GpuOom => "device_oom",
        Class::EngineMemory => "sglang_memory",
        Class::HostOom => "host_oom",
        Class::Shm => "shm",
        Class::NotOom => "code_bug",
    };
    let of = |name: &str| ROWS.iter().find(|row| row.kind == name);
    of(kind).or_else(|| of(stand_in)).unwrap_or(&ROWS[0])
}

/// The row that stands for a project's signatures of a kind.
pub(super) fn row_named(id: &str, kind: &str) -> Option<&'static Signature> {
    ROWS.iter().find(|row| row.id == id && row.kind == kind)
}

/// A project's signatures, ready to be asked.
#[derive(Debug, Default)]
pub(crate) struct UserTable {
    entries: Vec<CompiledUserSignature>,
    /// Any of their texts.
    filter: Option<regex::bytes::Regex>,
}

impl UserTable {
    /// Those that can be compiled; at most [`MOST`].
    pub(crate) fn new(given: &[UserSignature]) -> Self {
        let compiled = given.iter().take(MOST).map(CompiledUserSignature::new);
        let entries: Vec<CompiledUserSignature> = compiled.filter_map(Result::ok).collect();
        let words: Vec<String> = entries
            .iter()
            .map(|e| regex::escape(&e.signature.contains))
            .collect();
        let filter = (!words.is_empty())
            .then(|| regex::bytes::Regex::new(&words.join("|")).ok())
            .flatten();
        Self { entries, filter }
    }

    /// Matches wherever a line could matter; none without signatures.
    pub(crate) fn filter(&self) -> Option<&regex::bytes::Regex> {
        self.filter.as_ref()
    }

    /// Could a line of this block matter?
    pub(crate) fn may_match(&self, block: &[u8]) -> bool {
        self.filter.as_ref().is_some_and(|f| f.is_match(block))
    }

    /// The first that matches a line: its row, itself, and where.
    pub(crate) fn find(
        &self,
        text: &str,
        body_at: usize,
    ) -> Option<(&'static Signature, &Arc<UserSignature>, usize)> {
        self.entries.iter().find_map(|entry| {
            let at = text.find(&entry.signature.contains)?;
            let body = &text[body_at.min(at)..];
            let fits = entry.pattern.as_ref().is_none_or(|p| p.is_match(body));
            fits.then_some((entry.row, &entry.signature, at))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(kind: &str, contains: &str) -> UserSignature {
        UserSignature {
            id: "mine".to_owned(),
            kind: kind.to_owned(),
            contains: contains.to_owned(),
            fatal: true,
            ..UserSignature::default()
        }
    }

    #[test]
    fn faults_name_the_field() {
        let field = |s: &UserSignature| s.check().unwrap_err().field;
        assert_eq!(field(&given("my_kind", "reactor overheated")), "kind");
        assert_eq!(field(&given("config", "no")), "contains");
        let mut wrong = given("config", "reactor");
        wrong.pattern = Some("(".to_owned());
        assert_eq!(field(&wrong), "pattern");
        wrong.pattern = None;
        wrong.class = Some(Class::GpuOom);
        assert_eq!(field(&wrong), "class");
        wrong.id = "two words".to_owned();
        assert_eq!(field(&wrong), "id");
        let mut own = given("my_kind", "reactor overheated");
        own.class = Some(Class::GpuOom);
        assert_eq!((own.check(), own.class()), (Ok(()), Some(Class::GpuOom)));
    }

    #[test]
    fn texts_that_drive_a_terminal_are_refused() {
        let mut wrong = given("config", "reactor");
        wrong.worse = vec!["\u{1b}]0;title\u{7}".to_owned()];
        assert_eq!(wrong.check().unwrap_err().field, "worse");
        wrong.helps = vec!["next\u{85}line".to_owned()];
        assert_eq!(wrong.check().unwrap_err().field, "helps");
    }

    #[test]
    fn every_kind_has_a_row() {
        for kind in KINDS.iter() {
            assert_eq!(row(&kind.name, kind.class).kind, kind.name);
        }
        assert_eq!(row("mine", Class::HostOom).kind, "host_oom");
    }
}
