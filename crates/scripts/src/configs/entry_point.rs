//! What a Python file says of the configuration that it is run with.
//!
//! Source: `hydra.main(config_path, config_name, version_base)` of hydra-core 1.3.

use crate::Literal;
use crate::python::{PythonToken, TokenKind, arguments, tokens};

/// The arguments of `hydra.main`, in their order.
const ARGUMENTS: [&str; 3] = ["config_path", "config_name", "version_base"];

/// What the decorator of a program's main function says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct EntryPoint {
    /// The folder of the configuration, relative to that of the file.
    pub folder: Literal<String>,
    /// Name of the configuration.
    pub name: Literal<String>,
    /// Whether it asks for the rules of before version 1.2 (`version_base`), where that is known.
    pub old: Option<bool>,
    /// It takes folder and name from options of its own parser.
    pub by_options: bool,
}

/// The decorator of a file; None where it has none, or several.
pub(super) fn entry_point(text: &str) -> Option<EntryPoint> {
    if !text.contains("hydra.main") {
        let composes = ["initialize(config_path=args.", "compose(config_name=args."];
        let by_options = composes.iter().all(|call| text.contains(call));
        return by_options.then_some(EntryPoint {
            folder: Literal::Unknown,
            name: Literal::Unknown,
            old: Some(true),
            by_options,
        });
    }
    let all = tokens(text);
    let is_main =
        |w: &[PythonToken<'_>]| w[0].is("hydra") && w[1].is(".") && w[2].is("main") && w[3].is("(");
    let mut found = all.windows(4).enumerate().filter(|(_, w)| is_main(w));
    let (at, _) = found.next()?;
    if found.next().is_some() {
        return None;
    }
    Some(read(&all[at + 4..]))
}

/// The arguments up to the closing parenthesis.
fn read(all: &[PythonToken<'_>]) -> EntryPoint {
    let mut entry = EntryPoint {
        old: Some(true),
        ..EntryPoint::default()
    };
    for (number, argument) in arguments(all).into_iter().enumerate() {
        let (name, value) = match argument {
            [name, equals, value @ ..] if name.kind == TokenKind::Name && equals.is("=") => {
                (name.text, value)
            }
            value => (ARGUMENTS.get(number).copied().unwrap_or_default(), value),
        };
        let said = match value {
            [one] if one.kind == TokenKind::Text && !one.text.contains('\\') => {
                Literal::Known(one.text.to_owned())
            }
            [one] if one.is("None") => Literal::Absent,
            _ => Literal::Unknown,
        };
        match name {
            "config_path" => entry.folder = said,
            "config_name" => entry.name = said,
            "version_base" => {
                entry.old = match &said {
                    Literal::Absent => Some(false),
                    Literal::Known(version) => Some(["1.0", "1.1"].contains(&version.as_str())),
                    Literal::Unknown => None,
                }
            }
            _ => {}
        }
    }
    // Before version 1.2 the file's own folder was meant.
    if entry.old != Some(false) && entry.folder == Literal::Absent {
        entry.folder = Literal::Unknown;
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_of_the_decorator_are_read_and_expressions_are_not() {
        let text = |s: &str| Literal::Known(s.to_owned());
        let entry = |folder, name, old| {
            Some(EntryPoint {
                folder,
                name,
                old: Some(old),
                by_options: false,
            })
        };
        let cases = [
            (
                "@hydra.main(version_base=None, config_path=\"conf\", config_name='config')",
                entry(text("conf"), text("config"), false),
            ),
            (
                "@hydra.main('conf', 'a.yaml', '1.1')\ndef f(c): pass",
                entry(text("conf"), text("a.yaml"), true),
            ),
            (
                "@hydra.main(config_path=str(Path(__file__).parent), config_name=\"a\", version_base=\"1.3\")",
                entry(Literal::Unknown, text("a"), false),
            ),
            (
                "@hydra.main(version_base=None, config_name=\"a\")",
                entry(Literal::Absent, text("a"), false),
            ),
            (
                "@hydra.main()",
                entry(Literal::Unknown, Literal::Absent, true),
            ),
            ("# @hydra.main(config_name='a')\n'hydra.main('", None),
            ("hydra.main('a', 'b')\nhydra.main('c', 'd')", None),
            ("import hydra", None),
        ];
        for (source, expected) in cases {
            assert_eq!(entry_point(source), expected, "{source}");
        }
        let own =
            "initialize(config_path=args.config_path)\ncfg = compose(config_name=args.config_name)";
        assert!(entry_point(own).unwrap().by_options);
        assert_eq!(entry_point("compose(config_name=args.name)"), None);
    }
}
