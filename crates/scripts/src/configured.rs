//! What a Python program does with its options: what it hands to the class that configures its framework, and which model it
//! loads. Each value is a literal, or it comes from an option, a variable of the environment, or code.
//!
//! Rule: no option of the framework reaches a program that fills this class itself.

use std::collections::{BTreeMap, BTreeSet};

use super::declared::{DeclaredOption, Takes, declared};
use super::python::{PythonToken, TokenKind, arguments, keyword, tokens};
use super::traced::{Quote, Span, Traced, Why};
use crate::Spelling;

/// Most names through which a value is followed.
const DEPTH: usize = 4;
/// Names of the one constant that says which model a program trains, where no call that loads it can be read.
const MODEL_NAMES: [&str; 9] = [
    "model_name",
    "model_name_or_path",
    "model_id",
    "model_path",
    "base_model",
    "MODEL_NAME",
    "MODEL_ID",
    "BASE_MODEL",
    "MODEL",
];

/// The classes that are looked for, and the parsers that fill them from the framework's options.
#[derive(Debug, Default)]
pub(super) struct ConfigClasses<'a> {
    pub classes: BTreeSet<&'a str>,
    pub parsers: BTreeSet<&'a str>,
}

/// What the code of a program says of its options.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramCode {
    /// The framework's class that it fills itself, and the file that does.
    pub class: Option<(String, String)>,
    /// What it hands to this class.
    values: BTreeMap<String, CodeValue>,
    /// The options that it declares.
    options: Vec<(String, CodeValue)>,
    /// The model that it loads.
    pub model: Option<CodeValue>,
}

/// A value in code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeValue {
    /// The value, or that it is computed. Where an option gives it, this is the option's default.
    pub value: Traced,
    /// The option of the program's own parser, or the variable, that gives it.
    pub option: Option<Spelling>,
    /// The option that turns it off.
    pub off: Option<String>,
    /// Its option has no default.
    pub is_unset: bool,
}

/// A file of the program: its number among the sources, its path, its tokens.
pub(super) struct PythonFile<'t> {
    pub number: usize,
    pub path: &'t str,
    pub tokens: Vec<PythonToken<'t>>,
}

impl<'t> PythonFile<'t> {
    /// Whether a text has anything to say here.
    pub(super) fn matters(text: &str, wanted: &ConfigClasses<'_>) -> bool {
        let words = [
            "add_argument",
            "click",
            "typer",
            "from_pretrained",
            "environ",
        ];
        let known = words.iter().chain(&wanted.classes).chain(&wanted.parsers);
        let named = known.into_iter().any(|word| text.contains(word));
        named || MODEL_NAMES.iter().any(|name| text.contains(name))
    }

    pub(super) fn read(number: usize, path: &'t str, text: &'t str) -> Self {
        Self {
            number,
            path,
            tokens: tokens(text),
        }
    }
}

impl ProgramCode {
    /// What the files of a program say, its own first.
    pub(super) fn read(files: &[PythonFile<'_>], wanted: &ConfigClasses<'_>) -> Self {
        let text = ProgramText {
            files,
            options: files
                .iter()
                .map(|f| (f.number, declared(&f.tokens)))
                .collect(),
        };
        let (class, values) = text.configured(wanted).unwrap_or_default();
        let options = text.options.iter().flat_map(|(file, options)| {
            let coded = options
                .iter()
                .map(|option| (option.flag.clone(), of_option(*file, option)));
            coded.collect::<Vec<_>>()
        });
        Self {
            class,
            values,
            options: options.collect(),
            model: text.model(),
        }
    }

    /// What it gives the option of this spelling.
    pub(super) fn value(&self, spelling: &Spelling) -> Option<&CodeValue> {
        let (Spelling::Flag(flag) | Spelling::Switch(flag)) = spelling else {
            return None;
        };
        match &self.class {
            Some(_) => self
                .values
                .get(&flag.trim_matches(['-', '=']).replace('-', "_")),
            None => self.declared(flag),
        }
    }

    /// All values that it gives.
    pub(super) fn all(&self) -> impl Iterator<Item = &CodeValue> {
        self.values.values().chain(&self.model)
    }

    /// The one option of this name that it declares.
    fn declared(&self, flag: &str) -> Option<&CodeValue> {
        let plain = |flag: &str| flag.trim_end_matches('=').replace('_', "-");
        let mut same = self
            .options
            .iter()
            .filter(|(own, _)| plain(own) == plain(flag));
        let (_, first) = same.next()?;
        same.all(|(_, other)| other == first).then_some(first)
    }
}

/// The texts of a program, and the options that they declare.
struct ProgramText<'a, 't> {
    files: &'a [PythonFile<'t>],
    options: Vec<(usize, Vec<DeclaredOption<'a, 't>>)>,
}

type Filled = (Option<(String, String)>, BTreeMap<String, CodeValue>);

impl ProgramText<'_, '_> {
    /// The class that the program fills, and what it hands it.
    fn configured(&self, wanted: &ConfigClasses<'_>) -> Option<Filled> {
        let is_in = |names: &BTreeSet<&str>, t: &PythonToken<'_>| {
            t.kind == TokenKind::Name && names.contains(t.text)
        };
        let mut all = self.files.iter().flat_map(|f| &f.tokens);
        if all.any(|t| is_in(&wanted.parsers, t)) {
            return None;
        }
        let starts = self.files.iter().flat_map(|file| {
            let calls = calls(&file.tokens, |t| is_in(&wanted.classes, t));
            calls.map(move |at| (file, at))
        });
        let starts: Vec<_> = starts.collect();
        // Of several nobody knows which one counts.
        let [(file, start)] = starts[..] else {
            return None;
        };
        let mut values = BTreeMap::new();
        for argument in arguments(&file.tokens[start + 2..]) {
            match argument {
                [star, ..] if star.is("*") => return None,
                [name, equals, value @ ..] if equals.is("=") && !value.is_empty() => {
                    let coded = self.value(file, value, 0);
                    values.extend(coded.map(|coded| (name.text.to_owned(), coded)));
                }
                _ => {}
            }
        }
        let class = (file.tokens[start].text.to_owned(), file.path.to_owned());
        Some((Some(class), values))
    }

    /// The model that the program loads, where all that load one mean the same.
    fn model(&self) -> Option<CodeValue> {
        let loaded = self.files.iter().flat_map(|file| {
            let calls = calls(&file.tokens, |t| {
                t.is("from_pretrained") || t.text.ends_with("Trainer")
            });
            calls.filter_map(move |at| {
                let all = arguments(&file.tokens[at + 2..]);
                if file.tokens[at].is("from_pretrained") {
                    let class = file.tokens.get(at.checked_sub(2)?)?.text;
                    let loads = class.contains("Model") || class.contains("For");
                    let first = all
                        .first()
                        .copied()
                        .filter(|a| !a.get(1).is_some_and(|t| t.is("=")));
                    let named = || {
                        keyword(&all, "pretrained_model_name_or_path")
                            .or(keyword(&all, "model_name"))
                    };
                    let given = first.or_else(named)?;
                    return self
                        .value(file, given, 0)
                        .filter(|_| loads && class != "PeftModel");
                }
                let value = self.value(file, keyword(&all, "model")?, 0)?;
                (value.value.known().is_some()).then_some(value)
            })
        });
        let mut known = loaded.filter(|v| v.value.unknown().is_none() || v.option.is_some());
        if let Some(first) = known.next() {
            let same =
                |v: CodeValue| v.value.text() == first.value.text() && v.option == first.option;
            return known.all(same).then_some(first);
        }
        let file = self.files.first()?;
        let constants = MODEL_NAMES
            .iter()
            .filter_map(|name| self.constant(file, name, 0));
        let mut constants = constants.filter(|v| v.option.is_some() || v.value.known().is_some());
        let first = constants.next()?;
        constants.next().is_none().then_some(first)
    }

    /// The value of an expression; nothing for `None`, which says nothing.
    fn value(
        &self,
        file: &PythonFile<'_>,
        value: &[PythonToken<'_>],
        depth: usize,
    ) -> Option<CodeValue> {
        let span = Span {
            file: file.number,
            start: value.first()?.from,
            end: value.last()?.to,
        };
        let computed = || CodeValue::plain(Traced::computed("", span, Why::Code));
        match value {
            [none] if none.is("None") => None,
            [one] if is_literal(one) => Some(CodeValue::plain(literal(file.number, one))),
            [kind, open, inner @ .., close]
                if ["int", "float", "str"].contains(&kind.text)
                    && open.is("(")
                    && close.is(")") =>
            {
                self.value(file, inner, depth)
            }
            [object, dot, attribute] if object.kind == TokenKind::Name && dot.is(".") => {
                Some(self.option(attribute.text, false).unwrap_or_else(computed))
            }
            [name] if name.kind == TokenKind::Name => {
                let known = self.option(name.text, true);
                let known = known.or_else(|| self.constant(file, name.text, depth));
                Some(known.unwrap_or_else(computed))
            }
            _ => Some(self.variable(file, value, depth).unwrap_or_else(computed)),
        }
    }

    /// `os.environ.get("NAME", default)`, `os.getenv(…)` or `os.environ["NAME"]`.
    fn variable(
        &self,
        file: &PythonFile<'_>,
        value: &[PythonToken<'_>],
        depth: usize,
    ) -> Option<CodeValue> {
        let at = value
            .iter()
            .take(3)
            .position(|t| t.is("environ") || t.is("getenv"))?;
        let rest = match &value[at + 1..] {
            [dot, get, rest @ ..] if dot.is(".") && get.is("get") => rest,
            rest => rest,
        };
        let (open, close) = (rest.first()?, rest.last()?);
        if !(open.is("(") && close.is(")") || open.is("[") && close.is("]")) {
            return None;
        }
        let all = arguments(&rest[1..]);
        let [name] = all.first()? else { return None };
        let default = all
            .get(1)
            .and_then(|default| self.value(file, default, depth + 1));
        let span = Span {
            file: file.number,
            start: open.from,
            end: close.to,
        };
        let default =
            default.map_or_else(|| Traced::computed("", span, Why::Environment), |d| d.value);
        (name.kind == TokenKind::Text).then(|| CodeValue {
            value: default,
            option: Some(Spelling::Env(name.text.to_owned())),
            off: None,
            is_unset: false,
        })
    }

    /// The option that the program reads under a name, unless its code gives the name another value.
    fn option(&self, name: &str, is_parameter: bool) -> Option<CodeValue> {
        let all = self.options.iter().flat_map(|(file, options)| {
            let same = options
                .iter()
                .filter(|o| o.name == name && o.is_parameter == is_parameter);
            same.map(|option| of_option(*file, option))
                .collect::<Vec<_>>()
        });
        let all: Vec<CodeValue> = all.collect();
        let [one] = &all[..] else { return None };
        let mut files = self.files.iter();
        let rebound = files.any(|f| assigned(&f.tokens, name, !is_parameter).next().is_some());
        (!rebound).then(|| one.clone())
    }

    /// The value of a name that is assigned once, in this file or else in one other.
    fn constant(&self, file: &PythonFile<'_>, name: &str, depth: usize) -> Option<CodeValue> {
        if depth > DEPTH {
            return None;
        }
        let assigned =
            |file: &PythonFile<'_>| -> Vec<usize> { assigned(&file.tokens, name, false).collect() };
        let others = self
            .files
            .iter()
            .filter(|other| other.number != file.number);
        let mut given = std::iter::once(file).chain(others);
        let (file, places) =
            given.find_map(|f| Some((f, assigned(f))).filter(|(_, p)| !p.is_empty()))?;
        let [at] = places[..] else { return None };
        let rest = file
            .tokens
            .get(at + 2..)
            .filter(|_| file.tokens[at + 1].is("="))?;
        let end = rest.iter().position(|t| t.kind == TokenKind::End)?;
        self.value(file, &rest[..end], depth + 1)
    }
}

/// The places at which a name gets a value: `name =`, `name +=`, `for name in`; `name=name` hands it on.
fn assigned<'a>(
    tokens: &'a [PythonToken<'_>],
    name: &'a str,
    attribute: bool,
) -> impl Iterator<Item = usize> + 'a {
    (0..tokens.len()).filter(move |at| {
        let (token, next) = (&tokens[*at], |n: usize| tokens.get(at + n));
        let is = |n: usize, text: &str| next(n).is_some_and(|t| t.is(text));
        let before = at.checked_sub(1).map(|at| &tokens[at]);
        if token.kind != TokenKind::Name
            || token.text != name
            || before.is_some_and(|t| t.is(".")) != attribute
        {
            return false;
        }
        let handed_on = next(2).is_some_and(|t| t.text == name) && (is(3, ",") || is(3, ")"));
        let plain = is(1, "=") && !is(2, "=") && !handed_on;
        let sign = |n: usize| ["+", "-", "*", "/", "%"].iter().any(|sign| is(n, sign));
        let further = sign(1) && (is(2, "=") || sign(2) && is(3, "="));
        plain || further || before.is_some_and(|t| t.is("for"))
    })
}

/// The places of names that are called, and not declared.
fn calls<'a>(
    tokens: &'a [PythonToken<'_>],
    wanted: impl Fn(&PythonToken<'_>) -> bool + 'a,
) -> impl Iterator<Item = usize> + 'a {
    (0..tokens.len()).filter(move |at| {
        let called = tokens.get(at + 1).is_some_and(|t| t.is("("));
        let before = at.checked_sub(1).map(|at| &tokens[at]);
        let declared = before.is_some_and(|t| t.is("class") || t.is("def"));
        tokens[*at].kind == TokenKind::Name && called && !declared && wanted(&tokens[*at])
    })
}

/// An option with its default.
fn of_option(file: usize, option: &DeclaredOption<'_, '_>) -> CodeValue {
    let (start, end) = option.range;
    let span = Span { file, start, end };
    let value = match (option.default, option.takes) {
        (Some([one]), _) if is_literal(one) => literal(file, one),
        (None, Takes::TurnsOn) => Traced::escape(span, "False", Quote::Raw),
        (None, Takes::TurnsOff) => Traced::escape(span, "True", Quote::Raw),
        _ => Traced::computed("", span, Why::Code),
    };
    let flag = option.flag.clone();
    CodeValue {
        value,
        option: match option.takes {
            Takes::Value => Some(Spelling::Flag(flag)),
            Takes::TurnsOn | Takes::TurnsOnOrOff => Some(Spelling::Switch(flag)),
            Takes::TurnsOff | Takes::Other => None,
        },
        off: match option.takes {
            Takes::TurnsOnOrOff => Some(format!("--no-{}", option.flag.trim_start_matches('-'))),
            Takes::TurnsOff => Some(option.flag.clone()),
            _ => None,
        },
        is_unset: match option.default {
            Some([none]) => none.is("None"),
            Some(_) => false,
            None => option.takes == Takes::Value,
        },
    }
}

impl CodeValue {
    fn plain(value: Traced) -> Self {
        Self {
            value,
            option: None,
            off: None,
            is_unset: false,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn code(texts: &[&str]) -> ProgramCode {
        let wanted = ConfigClasses {
            classes: ["Config"].into(),
            parsers: ["Parser"].into(),
        };
        let files = texts.iter().enumerate();
        let files: Vec<_> = files
            .map(|(at, text)| PythonFile::read(3 + at, "t.py", text))
            .collect();
        ProgramCode::read(&files, &wanted)
    }

    /// The value, or `?` where it is computed, and the option behind it.
    fn shown(coded: &CodeValue) -> String {
        let value = coded.value.known().unwrap_or_else(|| "?".to_owned());
        let option = coded.option.iter().map(|option| match option {
            Spelling::Env(name) => format!(" ${name}"),
            other => format!(" {}", other.name()),
        });
        format!("{value}{}", option.collect::<String>())
    }

    /// What texts give the class.
    fn read(texts: &[&str]) -> Vec<String> {
        let values = code(texts).values;
        let all = values
            .iter()
            .map(|(name, coded)| format!("{name}={}", shown(coded)));
        all.collect()
    }

    #[test]
    fn literals_constants_and_own_options_are_read_and_all_else_is_computed() {
        let text = "SEQ = 4096\nN = 1\nN = 2\np.add_argument('-b', '--batch-size', type=int, default=8)\n\
                    p.add_argument(\"--gc\", action='store_true')\np.add_argument('--lr')\n\
                    p.add_argument('--half', default=2)\nargs.half //= 2\n\
                    p.add_argument('--bf16', action=argparse.BooleanOptionalAction, default=False)\n\
                    c = Config(a.out, batch=a.batch_size, length=SEQ, n=N, gc=a.gc, lr=a.lr, bf16=a.bf16, half=a.half, \
                    optim='adamw', steps=f(1, x=2), none=None, sum=1 + 2, tf32=True)\n";
        let expected = [
            "batch=8 --batch-size",
            "bf16=False --bf16",
            "gc=False --gc",
            "half=?",
            "length=4096",
            "lr=? --lr",
            "n=?",
            "optim=adamw",
            "steps=?",
            "sum=?",
            "tf32=True",
        ];
        assert_eq!(read(&[text]), expected);
    }

    #[test]
    fn click_typer_variables_and_other_files_give_values_too() {
        let click = "import click\n@click.command()\n@click.option('--bs', default=4)\n@click.option('--len', 'length', default=512)\n\
                     def main(bs, length):\n  length = length * 2\n  Config(batch=bs, length=length)\n";
        assert_eq!(read(&[click]), ["batch=4 --bs", "length=?"]);
        let typer = "import typer\ndef main(batch_size: int = 4):\n  Config(batch=batch_size)\ntyper.run(main)\n";
        assert_eq!(read(&[typer]), ["batch=4 --batch-size"]);
        let variables = "BS = int(os.environ.get('BS', 8))\nConfig(batch=BS, steps=os.environ['N'], length=os.getenv('LEN', '512'))\n";
        assert_eq!(
            read(&[variables]),
            ["batch=8 $BS", "length=512 $LEN", "steps=? $N"]
        );
        let parser = "p.add_argument('--bs', default=2)\nLENGTH = 99\n";
        let class =
            "from args import LENGTH\ndef make(a): return Config(batch=a.bs, length=LENGTH)\n";
        assert_eq!(
            read(&["make(parse())", parser, class]),
            ["batch=2 --bs", "length=99"]
        );
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
            assert!(read(&[text]).is_empty(), "{text}");
        }
        assert!(read(&["Config(a=1)", "Config(a=2)"]).is_empty());
    }

    #[test]
    fn the_model_is_what_all_calls_that_load_one_mean() {
        let model = |text: &str| code(&[text]).model.as_ref().map(shown);
        let cases = [
            ("AutoModelForCausalLM.from_pretrained('gpt2')", Some("gpt2")),
            (
                "M = 'gpt2'\nAutoTokenizer.from_pretrained('x')\nAutoModel.from_pretrained(M, dtype=d)\n",
                Some("gpt2"),
            ),
            (
                "p.add_argument('--model', default='gpt2')\nAutoModel.from_pretrained(a.model)",
                Some("gpt2 --model"),
            ),
            (
                "m = os.environ.get('MODEL', 'gpt2')\nAutoModel.from_pretrained(m)\n",
                Some("gpt2 $MODEL"),
            ),
            ("SFTTrainer(model='gpt2', args=c)", Some("gpt2")),
            ("model_name = 'gpt2'\nbuild(model_name)\n", Some("gpt2")),
            (
                "AutoModel.from_pretrained('a')\nAutoModel.from_pretrained('b')\n",
                None,
            ),
            ("AutoModel.from_pretrained(load())", None),
            ("SFTTrainer(model=model)", None),
            ("PeftModel.from_pretrained(model, 'adapter')", None),
        ];
        for (text, expected) in cases {
            assert_eq!(model(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn an_option_of_its_own_is_found_in_either_spelling() {
        let own = code(&["p.add_argument('--batch-size', default=64)"]);
        let found = own.value(&Spelling::Flag("--batch_size".to_owned()));
        assert_eq!(found.map(shown).unwrap(), "64 --batch-size");
        assert_eq!(own.value(&Spelling::Flag("--lr".to_owned())), None);
    }
}
