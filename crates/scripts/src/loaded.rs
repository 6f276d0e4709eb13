//! What the code of a program takes from a file of settings that it loads itself: `cfg["training"]["batch"]`, `**cfg["training"]`.

use std::collections::BTreeSet;

use super::code_value::PythonFile;
use super::python::{PythonToken, TokenKind, assigned};
use oomctl_base::only;

/// Calls by which a program loads YAML, JSON or TOML, with what stands before the dot.
const LOADERS: [(&str, &str); 10] = [
    ("yaml", "safe_load"),
    ("yaml", "load"),
    ("yaml", "full_load"),
    ("yaml", "load_all"),
    ("json", "load"),
    ("json", "loads"),
    ("OmegaConf", "load"),
    ("tomllib", "load"),
    ("tomli", "load"),
    ("toml", "load"),
];

/// A map that a class is filled with beside its named arguments (`**…`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unpacked {
    /// As it is written; empty for code that is not read.
    pub text: String,
    /// The keys of a file of settings below which it stands, with dots between them; empty for all of the file, None for
    /// values that are not read.
    pub section: Option<String>,
}

/// The keys of a file of settings, where an expression looks them up in what the program loaded.
pub(super) fn settings_key(files: &[PythonFile<'_>], value: &[PythonToken<'_>]) -> Option<String> {
    let (root, rest) = value.split_first()?;
    let keys = rest.chunks(3).map(|part| match part {
        [open, key, close] if open.is("[") && close.is("]") && key.kind == TokenKind::Text => {
            Some(key.text)
        }
        _ => None,
    });
    let keys: Option<Vec<&str>> = keys.collect();
    let keys = keys.filter(|_| root.kind == TokenKind::Name && load(files))?;
    Some(keys.join("."))
}

/// Most keys of one look-up.
const MAX_KEYS: usize = 8;

/// What code looks up in sections of the settings that it loaded: `cfg["a"]["b"]`, `cfg.a.b` and `cfg["a"].get("b")` are
/// `a.b`, and `**cfg["a"]`, which hands on whatever stands there, is `a.*`, also as `**section` with `section = cfg["a"]`. The object in which settings are kept may have a
/// name of its own, so the ends of a long chain count too.
pub(super) fn lookups(files: &[PythonFile<'_>]) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    if !load(files) {
        return all;
    }
    for file in files {
        for at in 0..file.tokens.len() {
            let follows = at > 0 && file.tokens[at - 1].is(".");
            if file.tokens[at].kind == TokenKind::Name && !follows {
                let mut keys = chain(&file.tokens[at + 1..]);
                let spread = at > 1 && file.tokens[at - 2..at].iter().all(|t| t.is("*"));
                if spread && keys.is_empty() {
                    keys = section(&file.tokens, file.tokens[at].text);
                }
                keys.extend((spread && !keys.is_empty()).then_some("*"));
                all.extend((0..keys.len()).map(|from| keys[from..].join(".")));
            }
        }
    }
    all
}

/// The keys of the one section that a name stands for: `section = cfg["a"]`.
fn section<'t>(tokens: &[PythonToken<'t>], name: &str) -> Vec<&'t str> {
    // Behind the name, the sign and the object.
    let given = only(assigned(tokens, name, false)).and_then(|at| tokens.get(at + 3..));
    given.map(chain).unwrap_or_default()
}

/// The keys and attributes that follow each other.
fn chain<'t>(mut tokens: &[PythonToken<'t>]) -> Vec<&'t str> {
    let mut keys = Vec::new();
    while keys.len() < MAX_KEYS {
        let (key, length) = match tokens {
            [open, key, close, ..] if open.is("[") && close.is("]") && is_text(key) => (key, 3),
            [dot, get, open, key, ..]
                if dot.is(".") && get.is("get") && open.is("(") && is_text(key) =>
            {
                (key, 4)
            }
            [dot, key, ..] if dot.is(".") && key.kind == TokenKind::Name => (key, 2),
            _ => break,
        };
        keys.push(key.text);
        tokens = &tokens[length..];
    }
    keys
}

fn is_text(token: &PythonToken<'_>) -> bool {
    token.kind == TokenKind::Text
}

/// What `**rest` hands on; None for the options of the program's own parser.
pub(super) fn unpacked(files: &[PythonFile<'_>], rest: &[PythonToken<'_>]) -> Option<Unpacked> {
    let parsed = rest.iter().any(|t| t.is("vars") || t.is("__dict__"));
    (!parsed).then(|| Unpacked {
        text: rest.iter().map(|t| t.text).collect(),
        section: settings_key(files, rest),
    })
}

/// Whether a program loads a file of settings.
pub(super) fn load(files: &[PythonFile<'_>]) -> bool {
    let mut all = files.iter().flat_map(|f| f.tokens.windows(3));
    all.any(|w| {
        let mut known = LOADERS.iter();
        w[1].is(".") && known.any(|(module, call)| w[0].is(module) && w[2].is(call))
    })
}
