//! What a Python program hands to the class that configures its framework, and from which of its own options it takes it.
//!
//! Rule: no option of the framework reaches a program that fills this class itself.

use std::collections::{BTreeMap, BTreeSet};

use super::python::{PythonToken, TokenKind, arguments, keyword};
use super::traced::{Quote, Span, Traced, Why};
use crate::Spelling;

/// The classes that are looked for, and the parsers that fill them from the framework's options.
#[derive(Debug, Default)]
pub(super) struct ConfigClasses<'a> {
    pub classes: BTreeSet<&'a str>,
    pub parsers: BTreeSet<&'a str>,
}

/// A class that the program fills itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configured {
    /// Its name.
    pub class: String,
    values: BTreeMap<String, CodeValue>,
}

/// A keyword argument of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeValue {
    /// The value, or that it is computed.
    pub value: Traced,
    /// The option of the program's own parser that gives it.
    pub flag: Option<String>,
}

/// An option of the program's own parser.
struct OwnOption<'t> {
    flag: &'t str,
    default: Option<PythonToken<'t>>,
    takes_value: bool,
}

impl Configured {
    /// What a text fills itself. `file` is its number among the sources.
    pub(super) fn read(
        tokens: &[PythonToken<'_>],
        file: usize,
        wanted: &ConfigClasses<'_>,
    ) -> Option<Self> {
        let is_in = |names: &BTreeSet<&str>, t: &PythonToken<'_>| {
            t.kind == TokenKind::Name && names.contains(t.text)
        };
        if tokens.iter().any(|t| is_in(&wanted.parsers, t)) {
            return None;
        }
        let starts = (0..tokens.len()).filter(|at| {
            let called = tokens.get(at + 1).is_some_and(|t| t.is("("));
            let before = at.checked_sub(1).map(|at| &tokens[at]);
            let declared = before.is_some_and(|t| t.is("class") || t.is("def"));
            is_in(&wanted.classes, &tokens[*at]) && called && !declared
        });
        let starts: Vec<usize> = starts.collect();
        // Of several nobody knows which one counts.
        let [start] = starts[..] else { return None };
        let options = own_options(tokens);
        let mut values = BTreeMap::new();
        for argument in arguments(&tokens[start + 2..]) {
            match argument {
                [star, ..] if star.is("*") => return None,
                [name, equals, value @ ..] if equals.is("=") && !value.is_empty() => {
                    let coded = CodeValue::of(file, value, (tokens, &options));
                    values.extend(coded.map(|coded| (name.text.to_owned(), coded)));
                }
                _ => {}
            }
        }
        Some(Self {
            class: tokens[start].text.to_owned(),
            values,
        })
    }

    /// What it gives the option of this spelling.
    pub(super) fn value(&self, spelling: &Spelling) -> Option<&CodeValue> {
        match spelling {
            Spelling::Flag(flag) | Spelling::Switch(flag) => self
                .values
                .get(&flag.trim_matches(['-', '=']).replace('-', "_")),
            _ => None,
        }
    }
}

impl CodeValue {
    /// Of the tokens of a value; nothing for `None`, which is what the class has anyway.
    fn of(
        file: usize,
        value: &[PythonToken<'_>],
        (tokens, options): (&[PythonToken<'_>], &BTreeMap<String, OwnOption<'_>>),
    ) -> Option<Self> {
        let (first, last) = (value.first()?, value.last()?);
        let span = Span {
            file,
            start: first.from,
            end: last.to,
        };
        let computed = || Traced::computed("", span, Why::Code);
        let plain = |value| Self { value, flag: None };
        if let [name, dot, attribute] = value
            && name.kind == TokenKind::Name
            && dot.is(".")
            && let Some(option) = options.get(attribute.text)
        {
            let default = option.default.filter(is_literal);
            return Some(Self {
                value: default.map_or_else(computed, |d| literal(file, &d)),
                flag: option.takes_value.then(|| option.flag.to_owned()),
            });
        }
        let [one] = value else {
            return Some(plain(computed()));
        };
        match one {
            none if none.is("None") => None,
            known if is_literal(known) => Some(plain(literal(file, known))),
            name => {
                let known = constant(tokens, name.text);
                Some(plain(known.map_or_else(computed, |k| literal(file, &k))))
            }
        }
    }
}

/// A number, a text, or a truth value.
fn is_literal(token: &PythonToken<'_>) -> bool {
    matches!(token.kind, TokenKind::Number | TokenKind::Text)
        || token.is("True")
        || token.is("False")
}

fn literal(file: usize, token: &PythonToken<'_>) -> Traced {
    Traced::literal(file, token.from, token.text, Quote::Raw)
}

/// The value of a name that is assigned once, and a literal.
fn constant<'t>(tokens: &[PythonToken<'t>], name: &str) -> Option<PythonToken<'t>> {
    let assigned = tokens.windows(4).filter(|w| {
        w[0].kind == TokenKind::Name && w[0].text == name && w[1].is("=") && !w[2].is("=")
    });
    let assigned: Vec<_> = assigned.collect();
    let [[_, _, value, end]] = assigned[..] else {
        return None;
    };
    (is_literal(value) && end.kind == TokenKind::End).then_some(*value)
}

/// The options that `add_argument` declares, by the name under which the program reads them.
fn own_options<'t>(tokens: &[PythonToken<'t>]) -> BTreeMap<String, OwnOption<'t>> {
    let mut options = BTreeMap::new();
    let opens = |w: &[PythonToken<'_>]| w[0].is("add_argument") && w[1].is("(");
    let calls = tokens.windows(2).enumerate().filter(|(_, w)| opens(w));
    for (at, _) in calls {
        let all = arguments(&tokens[at + 2..]);
        let long = |a: &&[PythonToken<'t>]| match a {
            [one] if one.kind == TokenKind::Text => one.text.strip_prefix("--").map(|_| one.text),
            _ => None,
        };
        let one = |name: &str| match keyword(&all, name) {
            Some([value]) => Some(*value),
            _ => None,
        };
        let Some(flag) = all.iter().find_map(long) else {
            continue;
        };
        let name = one("dest").map_or(&flag[2..], |dest| dest.text);
        let option = OwnOption {
            flag,
            default: one("default"),
            takes_value: one("action").is_none(),
        };
        options.insert(name.replace('-', "_"), option);
    }
    options
}

#[cfg(test)]
mod tests {
    use super::super::python::tokens;
    use super::*;

    /// What a text gives the class: value, or `?` where it is computed, and the option behind it.
    fn read(text: &str) -> Option<Vec<String>> {
        let wanted = ConfigClasses {
            classes: ["Config"].into(),
            parsers: ["Parser"].into(),
        };
        let values = Configured::read(&tokens(text), 3, &wanted)?.values;
        let shown = values.iter().map(|(name, coded)| {
            let value = match coded.value.unknown() {
                Some(_) => "?".to_owned(),
                None => coded.value.text(),
            };
            let flag = coded.flag.iter().map(|flag| format!(" {flag}"));
            format!("{name}={value}{}", flag.collect::<String>())
        });
        Some(shown.collect())
    }

    #[test]
    fn literals_constants_and_own_options_are_read_and_all_else_is_computed() {
        let text = "SEQ = 4096\nN = 1\nN = 2\np.add_argument('-b', '--batch-size', type=int, default=8)\n\
                    p.add_argument(\"--gc\", action='store_true')\np.add_argument('--lr')\n\
                    c = Config(a.out, batch=a.batch_size, length=SEQ, n=N, gc=a.gc, lr=a.lr, bf16=True, \
                    optim='adamw', steps=f(1, x=2), none=None, sum=1 + 2)\n";
        let expected = [
            "batch=8 --batch-size",
            "bf16=True",
            "gc=?",
            "length=4096",
            "lr=? --lr",
            "n=?",
            "optim=adamw",
            "steps=?",
            "sum=?",
        ];
        assert_eq!(read(text).unwrap(), expected);
    }

    #[test]
    fn a_class_that_a_parser_or_a_map_fills_says_nothing() {
        for text in [
            "Parser((Config,)); Config(a=1)",
            "Config(a=1, **more)",
            "class Config(Base): a: int = 1",
            "Config(a=1); Config(a=2)",
            "Config",
            "Config(a=",
        ] {
            let values = read(text).unwrap_or_default();
            assert!(values.is_empty(), "{text}: {values:?}");
        }
    }
}
