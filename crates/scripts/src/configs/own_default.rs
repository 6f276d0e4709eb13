//! The file of settings that a program takes where no option names one.
//!
//! Source: the entry programs of NeMo-RL (`os.path.join(os.path.dirname(__file__), "configs", "grpo.yaml")`), and argparse.

use crate::python::{PythonToken, TokenKind, arguments, tokens};
use crate::settings::SettingsFormat;

/// The option that names the file.
const OPTION: &str = "--config";

/// Most tokens from the beginning of an expression for a folder to `__file__`.
const BEFORE: usize = 16;

/// A path as a program's text says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OwnDefault {
    /// Relative to the folder of the program's file.
    Beside(String),
    /// Relative to where the program runs.
    Here(String),
}

/// The file that a text names as the default of `--config`; None where it names none, or several.
pub(super) fn own_default(text: &str) -> Option<OwnDefault> {
    if !text.contains(OPTION) {
        return None;
    }
    let all = tokens(text);
    let option = |t: &PythonToken<'_>| t.kind == TokenKind::Text && t.text == OPTION;
    let option = all.iter().position(option)?;
    if let Some(path) = declared(&all[option..]) {
        return Some(OwnDefault::Here(path));
    }
    let places = (0..all.len()).filter(|at| all[*at].is("__file__"));
    let mut found = places.filter_map(|at| {
        let (levels, rest) = folder(&all, at)?;
        let path = format!("{}{}", "../".repeat(levels - 1), below(rest)?);
        SettingsFormat::of(&path).is_some().then_some(path)
    });
    let first = found.next()?;
    found
        .all(|other| other == first)
        .then_some(OwnDefault::Beside(first))
}

/// The literal default of the option whose name stands first.
fn declared(all: &[PythonToken<'_>]) -> Option<String> {
    let mut arguments = arguments(all).into_iter();
    let default = arguments.find_map(|argument| match argument {
        [name, sign, value] if name.is("default") && sign.is("=") => Some(*value),
        _ => None,
    })?;
    let literal = default.kind == TokenKind::Text && SettingsFormat::of(default.text).is_some();
    literal.then(|| default.text.to_owned())
}

/// How many folders above `__file__` an expression goes, and what stands behind it: `os.path.dirname(__file__)` and
/// `Path(__file__).parent`.
fn folder<'a, 't>(all: &'a [PythonToken<'t>], at: usize) -> Option<(usize, &'a [PythonToken<'t>])> {
    const AROUND: [&str; 10] = [
        "(", ".", "os", "path", "dirname", "abspath", "realpath", "Path", "pathlib", "str",
    ];
    let before = all[at.saturating_sub(BEFORE)..at].iter().rev();
    let before = before.take_while(|t| AROUND.iter().any(|known| t.is(known)));
    let mut levels = before.filter(|t| t.is("dirname")).count();
    let mut rest = &all[at + 1..];
    loop {
        rest = match rest {
            [dot, name, after @ ..] if dot.is(".") && name.kind == TokenKind::Name => {
                levels += usize::from(name.is("parent"));
                after
            }
            [bracket, after @ ..] if bracket.is(")") || bracket.is("(") => after,
            _ => break,
        };
    }
    (levels > 0).then_some((levels, rest))
}

/// The literals that follow: `, "configs", "a.yaml")` or `/ "configs" / "a.yaml"`.
fn below(rest: &[PythonToken<'_>]) -> Option<String> {
    let sign = rest.first().filter(|t| t.is(",") || t.is("/"))?;
    let parts = rest.chunks(2).map_while(|pair| match pair {
        [between, part] if between.is(sign.text) && part.kind == TokenKind::Text => Some(part.text),
        _ => None,
    });
    let parts: Vec<&str> = parts.collect();
    (!parts.is_empty()).then(|| parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_is_read_in_the_ways_in_which_programs_write_it() {
        let option = "parser.add_argument(\"--config\", type=str, default=None)\n";
        let beside = |path: &str| Some(OwnDefault::Beside(path.to_owned()));
        for (code, expected) in [
            (
                "x = os.path.join(os.path.dirname(__file__), \"configs\", \"a.yaml\")",
                beside("configs/a.yaml"),
            ),
            (
                "x = os.path.join(os.path.dirname(os.path.abspath(__file__)), \"a.yaml\")",
                beside("a.yaml"),
            ),
            (
                "x = os.path.join(os.path.dirname(os.path.dirname(__file__)), \"conf/a.yml\")",
                beside("../conf/a.yml"),
            ),
            (
                "x = Path(__file__).resolve().parent / \"configs\" / \"a.yaml\"",
                beside("configs/a.yaml"),
            ),
            (
                "x = Path(__file__).parent.parent / \"a.json\"",
                beside("../a.json"),
            ),
            ("sys.path.append(os.path.dirname(__file__))", None),
            (
                "x = os.path.join(os.path.dirname(__file__), \"configs\", name)",
                None,
            ),
            (
                "x = Path(__file__).parent / \"a.yaml\"\ny = Path(__file__).parent / \"b.yaml\"",
                None,
            ),
        ] {
            assert_eq!(
                own_default(&format!("{option}{code}\n")),
                expected,
                "{code}"
            );
            assert_eq!(own_default(code), None, "{code}");
        }
        let here = "parser.add_argument(\"--config\", default=\"conf/a.yaml\", help=\"x\")\n";
        assert_eq!(
            own_default(here),
            Some(OwnDefault::Here("conf/a.yaml".to_owned()))
        );
    }
}
