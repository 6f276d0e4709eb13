//! Exceptions of Python that no signature knows: what their name says about the kind of failure.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

use super::ascii::compiled;
use super::signatures::{Signature, rows};
use super::tables::table;

const BUG: &str = "python_exception";
const IMPORT: &str = "python_exception_import";
const PATH: &str = "python_exception_path";
const CONFIG: &str = "python_exception_config";
const NETWORK: &str = "python_exception_network";
const OTHER: &str = "python_exception_other";
const UNFINISHED: &str = "unfinished_traceback";
const SAID: &str = "error_message";

static ROWS: LazyLock<Vec<Signature>> = LazyLock::new(|| rows(table!("exceptions")));

/// The first row of this name of which a text begins as it says.
fn beginning(id: &str, text: &str) -> Option<&'static Signature> {
    let mut of_name = ROWS.iter().filter(|row| row.id == id);
    of_name.find(|row| row.contains.iter().any(|name| text.starts_with(name)))
}

/// The last row of this name, which is for whatever the others are not.
fn row(id: &str) -> &'static Signature {
    let found = ROWS.iter().rfind(|row| row.id == id);
    found.expect("the table has a row for each of the names above, as its test sees")
}

/// The head of a traceback whose end is missing; a notebook names the exception there.
pub(crate) fn unfinished(head: &str) -> &'static Signature {
    beginning(UNFINISHED, head.trim_start()).unwrap_or_else(|| row(UNFINISHED))
}

/// The signature of this name and kind.
pub(crate) fn named(id: &str, kind: &str) -> Option<&'static Signature> {
    ROWS.iter().find(|row| row.id == id && row.kind == kind)
}

/// An exception's last line: dotted name, then a colon or nothing. People put a quote or words of their
/// own language in front.
static LAST_LINE: LazyLock<Regex> = LazyLock::new(|| {
    let name = r#"^\s{0,2}(?:[^\x00-\x7f]+[:：]? ?|["'`>]+ ?)?(?:[A-Za-z_]\w*\.)*([A-Z]\w*(?:Error|Exception|Interrupt|Exit)|Exception)(?:: ?(.*))?$"#;
    compiled(name)
});

/// How the names of exceptions end.
const ENDINGS: [&str; 4] = ["Error", "Exception", "Interrupt", "Exit"];

/// The signature of an exception's last line, if the line is one. `code` is the source line that the
/// traceback shows last.
pub(crate) fn find<'c>(
    body: &str,
    code: impl FnOnce() -> Cow<'c, str>,
) -> Option<&'static Signature> {
    // Asked first, for most lines fail here.
    let begins = body.bytes().find(|b| !matches!(b, b'\t'..=b'\r' | b' '))?;
    let may_begin = begins.is_ascii_alphabetic()
        || matches!(begins, b'_' | b'"' | b'\'' | b'`' | b'>' | 0x80..);
    let named = may_begin && ENDINGS.iter().any(|ending| body.contains(ending));
    let found = named.then(|| LAST_LINE.captures(body))??;
    let name = &found[1];
    if name == "AssertionError" && asserts_configuration(&code()) {
        return Some(row(CONFIG));
    }
    let meaning = [NETWORK, IMPORT, PATH, CONFIG, OTHER]
        .iter()
        .find_map(|id| beginning(id, name));
    // Libraries put their own word in front: `EndpointConnectionError`, `APIConnectionError`.
    let connects = name.contains("ConnectionError");
    Some(meaning.unwrap_or_else(|| row(if connects { NETWORK } else { BUG })))
}

/// Does a program say that something went wrong, in a line that no table knows? The last resort: it is
/// the root only where nothing else is, at the end of a log.
pub(crate) fn said(text: &str, body: &str) -> Option<&'static Signature> {
    static ERROR: LazyLock<Regex> = LazyLock::new(|| {
        compiled(
            r"^(?:[\w./-]+(?:\[\d+\])?: ){0,2}(?i:fatal|error)(?: ?\[[^\]]*\])?: *\S|^Error (?:in|executing|while|during|loading|when|occurred|reading|opening|running|merging)\b|^make(?:\[\d+\])?: \*\*\* ",
        )
    });
    static LEVEL: LazyLock<Regex> = LazyLock::new(|| {
        compiled(r"^.{0,80}?(?:^|[\s\[|(<-])(?:ERROR|CRITICAL|FATAL)[\s\]|):>-]+[^\s\]|):>-]")
    });
    const HARMLESS: [&str; 5] = [
        "dependency resolver does not currently",
        "gnored",
        "gnoring",
        "etrying",
        "will retry",
    ];
    // Asked first, for most lines have none of them.
    static WORDS: LazyLock<Regex> = LazyLock::new(|| compiled("ERROR|CRITICAL|FATAL"));
    let level = || WORDS.is_match(text) && LEVEL.is_match(text);
    let begins = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'/' | b'-');
    let may_begin = body.bytes().next().is_some_and(begins);
    let serious = || !HARMLESS.iter().any(|words| text.contains(words));
    (((may_begin && ERROR.is_match(body)) || level()) && serious()).then(|| row(SAID))
}

/// Is it an exception of which only the name is known?
pub(crate) fn is_unknown(signature: &Signature) -> bool {
    ROWS.iter().any(|row| std::ptr::eq(row, signature))
}

/// Does this line only carry what failed elsewhere?
pub(crate) fn carries_another(signature: &Signature) -> bool {
    signature.id == OTHER
}

fn asserts_configuration(code: &str) -> bool {
    let code = code.trim_start();
    code.starts_with("assert ")
        && ["config.", "cfg.", "args.", "conf[", "config["]
            .iter()
            .any(|word| code.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(line: &str) -> Option<&'static str> {
        find(line, || "".into()).map(|s| s.kind.as_str())
    }

    #[test]
    fn every_row_is_found_by_its_example() {
        for row in ROWS.iter() {
            let line = row.example.as_str();
            let found = match row.id.as_str() {
                UNFINISHED => Some(unfinished(line)),
                SAID => said(line, line),
                _ => find(line, || "".into()),
            };
            assert!(found.is_some_and(|f| std::ptr::eq(f, row)), "{line}");
        }
        for id in [BUG, CONFIG, NETWORK, OTHER, UNFINISHED, SAID] {
            assert_eq!(row(id).id, id);
        }
    }

    #[test]
    fn names_tell_the_kind() {
        assert_eq!(
            kind("ZeroDivisionError: division by zero"),
            Some("code_bug")
        );
        assert_eq!(
            kind("requests.exceptions.ConnectionError: refused"),
            Some("network")
        );
        assert_eq!(
            kind("ModuleNotFoundError: No module named 'verl'"),
            Some("config")
        );
        assert_eq!(
            kind("ray.exceptions.ActorDiedError: The actor died"),
            Some("other")
        );
        assert_eq!(kind("KeyboardInterrupt"), Some("other"));
    }

    #[test]
    fn sentences_are_no_exceptions() {
        assert_eq!(kind("No Errors so far"), None);
        assert_eq!(kind("Error executing job with overrides: []"), None);
        assert_eq!(kind("    raise ValueError(\"x\")"), None);
        assert_eq!(kind("loss Error: 0.3"), None);
    }

    #[test]
    fn programs_say_that_something_went_wrong() {
        for line in [
            "fatal: unable to access the repository",
            "sbatch: error: invalid partition specified: gpuu",
            "[2026-03-02 10:00:00] gpu07 trainer[4711] ERROR the queue is gone",
            "2026-03-02 10:00:00 | CRITICAL | worker - lost the leader",
            "Error executing job with overrides: ['lr=1']",
            "make: *** [Makefile:12: train] Error 1",
        ] {
            assert!(said(line, line).is_some(), "{line}");
        }
        for line in [
            "{'log_level': 'ERROR', 'seed': 1}",
            "+ python train.py --log-level ERROR",
            "Error rate: 0.31",
            "validation error: ",
            "NCCL_DEBUG=ERROR is set",
            "ERROR: ld.so: object 'libx.so' from LD_PRELOAD cannot be preloaded: ignored.",
        ] {
            assert!(said(line, line).is_none(), "{line}");
        }
    }

    #[test]
    fn an_assertion_about_the_configuration_is_one() {
        let code = "    assert config.data.train_batch_size >= config.actor.ppo_mini_batch_size";
        assert_eq!(
            find("AssertionError", || code.into()).map(|s| s.kind.as_str()),
            Some("config")
        );
        assert_eq!(
            find("AssertionError", || "assert x.dim() == 2".into()).map(|s| s.kind.as_str()),
            Some("code_bug")
        );
    }
}
