//! Options that a program declares as the fields of its own dataclass: `HfArgumentParser(ScriptArguments)`, `tyro.cli(Arguments)`.
//!
//! Sources: transformers 4.57 hf_argparser.py: a field `name: int = field(default=8)` is the option `--name`; tyro 0.9 "Basics": the
//! same, also with dashes, and `--no-name` turns a truth value off.

use super::declared::{DeclaredOption, Takes, is_divided};
use super::python::{PythonToken, TokenKind, arguments, block, calls, keyword, rest_of_line};

/// Parsers that make options of the fields of the classes that they are handed.
const PARSERS: [&str; 3] = ["HfArgumentParser", "TrlParser", "H4ArgumentParser"];

/// The options that the fields of such classes are, each with the number of its file.
pub(super) fn fields<'a, 't>(
    files: &[&'a [PythonToken<'t>]],
) -> Vec<(usize, DeclaredOption<'a, 't>)> {
    let handed = files.iter().flat_map(|tokens| {
        let parsers = calls(tokens, |t| PARSERS.contains(&t.text));
        parsers.flat_map(|at| arguments(&tokens[at + 2..]).concat())
    });
    let parsed: Vec<&str> = handed.map(|t| t.text).collect();
    let by_tyro = files.iter().flat_map(|tokens| {
        let parsers = calls(tokens, |t| t.is("cli"));
        let parsers = parsers.filter(|at| *at > 1 && tokens[at - 2].is("tyro"));
        parsers.filter_map(|at| Some(arguments(&tokens[at + 2..]).first()?[0].text))
    });
    let by_tyro: Vec<&str> = by_tyro.collect();
    let all = files.iter().enumerate().flat_map(|(number, tokens)| {
        let fields = (0..tokens.len()).filter_map(|at| field(tokens, at, &parsed));
        let of_tyro = (0..tokens.len()).filter_map(|at| field(tokens, at, &by_tyro));
        let of_tyro = of_tyro.map(|option| DeclaredOption {
            forms: vec![option.flag.clone(), option.flag.replace('_', "-")],
            takes: match option.takes {
                Takes::Truth => Takes::TurnsOnOrOff,
                other => other,
            },
            ..option
        });
        let fields = fields.chain(of_tyro);
        fields.map(move |option| (number, option))
    });
    all.collect()
}

/// `name: type = default`, which begins a line at `at`, in one of these classes.
fn field<'a, 't>(
    tokens: &'a [PythonToken<'t>],
    at: usize,
    classes: &[&str],
) -> Option<DeclaredOption<'a, 't>> {
    let begins = at
        .checked_sub(1)
        .is_some_and(|end| tokens[end].kind == TokenKind::End);
    let is_field = begins && tokens.get(at + 1)?.is(":") && tokens[at].kind == TokenKind::Name;
    let (class, _) = block(tokens, at).filter(|(_, word)| is_field && *word == "class")?;
    if !classes.contains(&tokens.get(class + 1)?.text) {
        return None;
    }
    let line = rest_of_line(&tokens[at..]);
    let sign = line.iter().position(|t| t.is("="));
    let default = match sign.map(|sign| &line[sign + 1..]) {
        Some([field, open, rest @ ..]) if field.is("field") && open.is("(") => {
            keyword(&arguments(rest), "default")
        }
        other => other,
    };
    let name = line[0].text;
    let flag = format!("--{name}");
    Some(DeclaredOption {
        forms: vec![flag.clone()],
        flag,
        name: name.to_owned(),
        is_parameter: false,
        default,
        takes: default.map_or(Takes::Value, Takes::like),
        is_global: is_divided(tokens, name, true),
        range: (line[0].from, line.last()?.to),
    })
}

#[cfg(test)]
mod tests {
    use super::super::python::tokens;
    use super::*;

    #[test]
    fn fields_of_a_class_that_a_parser_fills_are_options() {
        let text = "from dataclasses import dataclass, field\n@dataclass\nclass Own:\n  \"\"\"Doc.\"\"\"\n  batch: Optional[int] = field(\n    \
            default=8, metadata={'help': 'x: y'}\n  )\n  lr: float = 1e-4\n  bf16: bool = field(default=True)\n  name: str = field(metadata={})\n  \
            def f(self):\n    x: int = 1\n@dataclass\nclass Other:\n  a: int = 1\np = HfArgumentParser((Own, TrainingArguments))\n";
        let all = tokens(text);
        let found = fields(&[&all]);
        let shown = found.iter().map(|(_, o)| {
            let default = o.default.map_or("-", |d| d[0].text);
            format!("{} {default} {:?}", o.flag, o.takes)
        });
        let expected = [
            "--batch 8 Value",
            "--lr 1e Value",
            "--bf16 True Truth",
            "--name - Value",
        ];
        assert_eq!(shown.collect::<Vec<_>>(), expected);
        let tyro = tokens(
            "@dataclass\nclass Args:\n  batch_size: int = 8\n  gc: bool = False\nargs = tyro.cli(Args)\n",
        );
        let found = fields(&[&tyro]);
        let shown = found
            .iter()
            .map(|(_, o)| format!("{} {:?}", o.forms.join(" "), o.takes));
        let expected = ["--batch_size --batch-size Value", "--gc --gc TurnsOnOrOff"];
        assert_eq!(shown.collect::<Vec<_>>(), expected);
        for text in [
            "class A:\n a: int = field(\nHfArgumentParser(A)",
            "class A:\n a:",
            "HfArgumentParser(",
        ] {
            let _ = fields(&[&tokens(text)]);
        }
    }
}
