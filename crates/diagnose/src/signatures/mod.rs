//! Signatures: which text means what. Tables of data in `presets/signatures`, one entry a message, each with an excerpt
//! in the real format that is its test; they are read when the first log is.
//!
//! Rule: what an entry `contains` is case-sensitive and stands in every line that it matches, so that a line
//! without any of it is never looked at twice.

mod row;
mod user;

pub(crate) use row::{LineRole, Signature, rows, weight};
pub(crate) use user::UserTable;
pub use user::{SignatureError, UserSignature};

use std::sync::{LazyLock, OnceLock};

use memchr::memmem;
use regex::Regex;

use super::ascii::compiled;
use super::engine_cache::STARTING;
use super::hints::HINTS;
use super::host_use::HOST_USE;
use super::tables::table;
use super::tenants::SPAWNED;

/// The tables in the order in which a line is asked: the first [`LineRole::Cause`] that matches a line
/// takes it.
const TABLES: [&str; 8] = [
    table!("lookalikes"),
    table!("engine"),
    table!("gpu"),
    table!("host"),
    table!("schedulers"),
    table!("starting"),
    table!("transport"),
    table!("infrastructure"),
];

static ROWS: LazyLock<Vec<Signature>> =
    LazyLock::new(|| TABLES.iter().flat_map(|table| rows(table)).collect());

/// Every signature.
pub(crate) fn all() -> impl Iterator<Item = &'static Signature> {
    ROWS.iter()
}

/// The signature of an event that was written down: by its name, and of a project's own by its kind.
pub(crate) fn named(id: &str, kind: &str) -> Option<&'static Signature> {
    let built_in = all().find(|s| s.id == id);
    built_in.or_else(|| user::row_named(id, kind))
}

/// One regular expression a signature: any of its literals. For programs that search as `grep` does; the
/// engine itself asks more of a line.
pub fn patterns() -> Vec<String> {
    all()
        .map(|signature| {
            let literals: Vec<String> = signature
                .contains
                .iter()
                .map(|l| regex::escape(l))
                .collect();
            literals.join("|")
        })
        .collect()
}

/// Each signature's id with a line that it is found in.
pub fn examples() -> impl Iterator<Item = (&'static str, &'static str)> {
    all().map(|signature| (signature.id.as_str(), signature.example.as_str()))
}

/// A signature with its patterns.
pub(crate) struct CompiledSignature {
    pub signature: &'static Signature,
    pattern: Option<LazyPattern>,
    unless: Option<LazyPattern>,
}

/// A pattern that is compiled when the first line asks for it: most logs ask for a few of all.
struct LazyPattern {
    text: &'static str,
    regex: OnceLock<Regex>,
}

impl LazyPattern {
    fn new(text: &'static str) -> Self {
        Self {
            text,
            regex: OnceLock::new(),
        }
    }

    fn is_match(&self, text: &str) -> bool {
        let regex = self.regex.get_or_init(|| compiled(self.text));
        regex.is_match(text)
    }
}

/// Where in a text a signature matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Match {
    /// Byte of the literal.
    pub at: usize,
}

impl CompiledSignature {
    /// Matches a text that may hold no literal.
    pub(crate) fn find_anywhere(&self, text: &str) -> Option<Match> {
        let place = |literal: &String| memmem::find(text.as_bytes(), literal.as_bytes());
        let at = self.signature.contains.iter().filter_map(place).min()?;
        self.find(text, at, 0, text.len())
    }

    /// Matches a cleaned line whose first literal stands at `at`. `owned` is the part of it in which a
    /// match may start.
    pub(crate) fn find(
        &self,
        text: &str,
        at: usize,
        body_at: usize,
        owned: usize,
    ) -> Option<Match> {
        if at >= owned || (self.signature.quotable && quoted(text, at)) {
            return None;
        }
        let body = &text[body_at.min(at)..];
        let fits = self.pattern.as_ref().is_none_or(|p| p.is_match(body));
        let barred = fits && self.unless.as_ref().is_some_and(|p| p.is_match(body));
        (fits && !barred).then_some(Match { at })
    }

    /// A wrapped message whose first line holds a literal, the first at `at`, but not the pattern.
    pub(crate) fn may_continue(&self, text: &str, at: usize) -> bool {
        self.signature.wraps
            && self.pattern.is_some()
            && !(self.signature.quotable && closed(text, at))
            && self.unless.as_ref().is_none_or(|p| !p.is_match(text))
    }
}

/// Is the message at byte `at` only spoken of: in quotes or within a sentence, and without figures?
fn quoted(text: &str, at: usize) -> bool {
    const FIGURES: [&str; 4] = [
        "total capac",
        "already allocated",
        "memory in use",
        " is free",
    ];
    let (head, message) = (head_of(text, at), &text[at..]);
    let in_quotes = opening(head).is_some();
    let prose = || {
        let word = head.trim_end().rsplit(char::is_whitespace).next();
        let word = word.map_or("", |w| w.strip_suffix(',').unwrap_or(w));
        head.ends_with(' ') && word.len() > 1 && word.bytes().all(|b| b.is_ascii_lowercase())
    };
    (in_quotes || prose()) && !FIGURES.iter().any(|f| message.contains(f))
}

/// Does the message at byte `at` stand in quotes that end in the same line? Then no other line belongs to it.
fn closed(text: &str, at: usize) -> bool {
    let closing = opening(head_of(text, at)).map(|quote| match quote {
        '“' => '”',
        '‘' => '’',
        '«' => '»',
        same => same,
    });
    closing.is_some_and(|quote| text[at..].contains(quote))
}

/// The quote that opens at the end of a text.
fn opening(head: &str) -> Option<char> {
    let last = head.chars().next_back();
    last.filter(|c| matches!(c, '"' | '\'' | '`' | '“' | '‘' | '«'))
}

/// What stands before the message at byte `at`, of which the name of the exception in front is a part.
fn head_of(text: &str, at: usize) -> &str {
    let mut head = &text[..at];
    while let Some(shorter) = head
        .trim_end()
        .strip_suffix(':')
        .and_then(|h| Some(&h[..h.len() - exception_name(h)?]))
    {
        head = shorter;
    }
    head
}

/// Bytes of the dotted name of an exception at the end of a text.
fn exception_name(text: &str) -> Option<usize> {
    let name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    let length = text.len() - text.trim_end_matches(name).len();
    let named = &text[text.len() - length..];
    ["Error", "Exception"]
        .iter()
        .any(|e| named.ends_with(e))
        .then_some(length)
}

/// All tables, ready to be asked.
pub(crate) static COMPILED: LazyLock<Vec<CompiledSignature>> = LazyLock::new(|| {
    all()
        .map(|signature| CompiledSignature {
            signature,
            pattern: signature.pattern.as_deref().map(LazyPattern::new),
            unless: signature.unless.as_deref().map(LazyPattern::new),
        })
        .collect()
});

/// What is no signature and still of interest: tracebacks, exceptions, methods of Ray actors, figures of an engine and of the host, hints.
pub(crate) const ALSO: &[&str] = &[
    STARTING[0],
    STARTING[1],
    STARTING[2],
    STARTING[3],
    HOST_USE,
    HINTS[0],
    HINTS[1],
    SPAWNED,
    "Traceback (most",
    "File \"",
    "File ~/",
    "File /",
    "Cell In",
    ".py in ",
    "❱ ",
    "│ /",
    "│ C:\\",
    "│ D:\\",
    "--> ",
    "ray::",
    "Error",
    "Exception",
    "ERROR",
    "FATAL",
    "error:",
    "fatal:",
    "above exception",
    "(local_rank:",
    "backward(",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::KINDS;

    #[test]
    fn every_entry_is_complete_and_matches_its_own_example() {
        let mut ids = std::collections::BTreeSet::new();
        for entry in COMPILED.iter() {
            let s = entry.signature;
            assert!(ids.insert(&s.id), "{} twice", s.id);
            assert!(KINDS.iter().any(|k| k.name == s.kind), "{}", s.id);
            assert!(!s.source.is_empty(), "{}", s.id);
            assert!(s.contains.iter().all(|l| l.len() >= 5), "{}", s.id);
            assert!(s.role != LineRole::Cause || s.weight > 0, "{}", s.id);
            let hit = s.example.lines().any(|l| entry.find_anywhere(l).is_some());
            let joined = s.example.replace('\n', " ");
            assert!(
                hit || entry.find_anywhere(&joined).is_some(),
                "{} does not match its own example",
                s.id
            );
        }
    }

    #[test]
    fn a_cause_is_the_first_that_its_example_matches() {
        // One that depends on the traceback, too, takes a line that is another's without it.
        let causes = || {
            COMPILED
                .iter()
                .filter(|e| e.signature.role == LineRole::Cause && e.signature.innermost.is_none())
        };
        let first = |line: &str| causes().find(|e| e.find_anywhere(line).is_some());
        for entry in causes() {
            let s = entry.signature;
            let joined = s.example.replace('\n', " ");
            let mut found = s.example.lines().chain([joined.as_str()]).filter_map(first);
            let found = found.next().map(|e| e.signature.id.as_str());
            assert_eq!(found, Some(s.id.as_str()));
        }
    }

    #[test]
    fn a_quotation_that_ends_in_its_line_does_not_go_on_in_the_next() {
        let entry = COMPILED.iter().find(|e| e.signature.id == "torch_cuda_oom");
        let entry = entry.expect("the table has it");
        let goes_on = |text: &str| {
            let at = text.find("CUDA out").expect("the text quotes it");
            entry.may_continue(text, at)
        };
        let name = "torch.OutOfMemoryError";
        assert!(!goes_on(&format!(
            "it said \"{name}: CUDA out of memory. Tried\" and died"
        )));
        assert!(!goes_on("it said “CUDA out of memory.” and died"));
        assert!(goes_on(&format!(
            "it said \"{name}: CUDA out of memory. Tried"
        )));
        assert!(goes_on(&format!("{name}: CUDA out of memory. Tried")));
    }

    #[test]
    fn the_limits_of_grid_engine_tell_of_what_they_limit() {
        for (limit, kind) in [
            ("h_vmem", "host_oom"),
            ("h_rss", "host_oom"),
            ("h_cpu", "time_limit"),
        ] {
            let line = format!(
                "W|job 4711 exceeds job hard limit \"{limit}\" of queue \"all.q@gpu07\" (2.0 > limit:1.0) - sending SIGKILL"
            );
            let found = COMPILED.iter().find(|e| e.find_anywhere(&line).is_some());
            assert_eq!(
                found.map(|e| e.signature.kind.as_str()),
                Some(kind),
                "{line}"
            );
        }
    }

    #[test]
    fn an_xid_is_hardware_where_the_table_of_devices_says_so() {
        use oomctl_gpu::{LogClock, Xid, XidOrigin};
        let clock = LogClock {
            boot: None,
            now: jiff::Timestamp::UNIX_EPOCH,
            zone: jiff::tz::TimeZone::UTC,
        };
        for code in 0..300 {
            let line = format!("NVRM: Xid (PCI:0000:3b:00): {code}, pid=4711, name=python");
            let expected = match Xid::read(&line, &clock).map(|xid| xid.origin) {
                Some(XidOrigin::Hardware | XidOrigin::Driver) => Some("hw_error"),
                Some(XidOrigin::Program) => Some("code_bug"),
                _ => None,
            };
            let found = COMPILED.iter().find(|e| e.find_anywhere(&line).is_some());
            assert_eq!(found.map(|e| e.signature.kind.as_str()), expected, "{line}");
        }
    }
}
