//! The options that a Python program declares: `add_argument` of argparse, `option` of click, `Option` and parameters of typer,
//! parameters of what fire calls.
//!
//! Sources: Python 3.13 argparse; click 8.1 "Options" (the name is the one without dashes, else the first long one); typer 0.12
//! "CLI Options" (a parameter with a default is an option, a bool has `--no-` beside it); fire 0.7 "Using a CLI" (the same, with
//! underscores or dashes, and a truth value as Python writes it).

use super::python::{PythonToken, TokenKind, arguments, closed_call, keyword, tokens};
use oomctl_base::word_list;

/// What a help text says of a batch that all GPUs share.
const GLOBAL: [&str; 7] = [
    "global",
    "all gpus",
    "all ranks",
    "all devices",
    "all processes",
    "total batch",
    "effective batch",
];

/// The same of one that each GPU has.
const LOCAL: [&str; 4] = ["per gpu", "per device", "per rank", "per process"];

/// Parts of the names of a number of GPUs.
pub(super) const OF_GPUS: [&str; 5] = word_list("world gpu rank device proc");
/// Names of what a batch of all GPUs is divided by.
const PARTS: [&str; 8] = word_list("world gpu rank device proc accum micro batch_size");

/// An option.
#[derive(Debug, Clone)]
pub(super) struct DeclaredOption<'a, 't> {
    /// How the command spells it, the first long form.
    pub flag: String,
    /// All its forms, as they are written.
    pub forms: Vec<String>,
    /// The name under which the program reads it.
    pub name: String,
    /// A parameter of a function has it; else an attribute of what the parser returns.
    pub is_parameter: bool,
    /// Its default, as it stands there.
    pub default: Option<&'a [PythonToken<'t>]>,
    /// What the word does.
    pub takes: Takes,
    /// What it counts is of all GPUs together: its help says so, or the program divides it.
    pub is_global: bool,
    /// Its first byte, and the one behind it.
    pub range: (usize, usize),
}

fn plain(form: &str) -> String {
    form.trim_start_matches('-').replace('-', "_")
}

/// What stands behind an option, or what the option alone does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    /// A value.
    Value,
    /// Nothing: it turns something on, and is off without it.
    TurnsOn,
    /// Nothing: it turns something off, and is on without it.
    TurnsOff,
    /// Nothing: it turns something on, and another (`--no-NAME`) turns that off.
    TurnsOnOrOff,
    /// A value, or nothing, which turns it on (`nargs='?', const=…`).
    TurnsOnOrValue,
    /// True or False, as Python writes them.
    Truth,
    /// Something else: a count, a constant, a list.
    Other,
}

impl Takes {
    /// What an option takes that has no words of its own for it, by its default.
    pub(super) fn like(default: &[PythonToken<'_>]) -> Self {
        match default {
            [one] if one.is("True") || one.is("False") => Self::Truth,
            _ => Self::Value,
        }
    }
}

/// The options that a text declares, in its order.
pub(super) fn declared<'a, 't>(tokens: &'a [PythonToken<'t>]) -> Vec<DeclaredOption<'a, 't>> {
    let mut found: Vec<_> = (0..tokens.len())
        .filter_map(|at| called(tokens, at))
        .collect();
    for option in &mut found {
        option.is_global |= is_divided(tokens, &option.name, true);
    }
    let commands = (0..tokens.len()).filter(|at| is_typer_command(tokens, *at));
    found.extend(commands.flat_map(|at| parameters(tokens, at + 3)));
    let of_fire = (0..tokens.len()).filter(|at| is_called_by_fire(tokens, *at));
    let of_fire = of_fire.flat_map(|at| parameters(tokens, at + 3));
    found.extend(of_fire.map(|option| {
        let flag = format!("--{}", option.name);
        DeclaredOption {
            forms: vec![flag.clone(), option.flag],
            flag,
            takes: option.default.map_or(Takes::Value, Takes::like),
            ..option
        }
    }));
    found.sort_by_key(|option| option.range);
    found
}

/// `add_argument(…)` or `@click.option(…)` whose name stands at `at`.
fn called<'a, 't>(tokens: &'a [PythonToken<'t>], at: usize) -> Option<DeclaredOption<'a, 't>> {
    let click = tokens[at].is("option") && is_decorator(tokens, at);
    let added = tokens[at].is("add_argument") || is_short_for_it(tokens, at);
    if !(added || click) || !tokens.get(at + 1)?.is("(") {
        return None;
    }
    let (all, end) = closed_call(&tokens[at + 2..])?;
    let texts = all.iter().filter_map(|argument| match argument {
        [one] if one.kind == TokenKind::Text => Some(one.text),
        _ => None,
    });
    let texts: Vec<&str> = texts.collect();
    let word = |name: &str| match keyword(&all, name)? {
        [one] => Some(one.text),
        [.., last] => Some(last.text),
        [] => None,
    };
    let takes = match (word("action"), word("is_flag")) {
        (Some("BooleanOptionalAction"), _) => Takes::TurnsOnOrOff,
        (Some("store_true"), _) => Takes::TurnsOn,
        (Some("store_false"), _) => Takes::TurnsOff,
        (Some("store"), _) => Takes::Value,
        (Some(_), _) => Takes::Other,
        _ if click && texts.iter().any(|t| t.contains('/')) => Takes::TurnsOnOrOff,
        (None, Some("True")) => Takes::TurnsOn,
        _ if word("nargs") == Some("?") && keyword(&all, "const").is_some() => {
            Takes::TurnsOnOrValue
        }
        _ if keyword(&all, "nargs").is_some() || word("multiple") == Some("True") => Takes::Other,
        _ => Takes::Value,
    };
    let given = match click {
        true => texts.iter().find(|t| !t.starts_with('-')).copied(),
        false => word("dest"),
    };
    let mut option = named(&texts, given, (tokens[at].from, end))?;
    (option.takes, option.is_parameter) = (takes, click);
    option.default = keyword(&all, "default");
    option.is_global = keyword(&all, "help").is_some_and(of_all_gpus);
    Some(option)
}

/// `parser.add('--batch_size', type=int)`: ConfigArgParse has this name for `add_argument`.
fn is_short_for_it(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let [add, open, option, comma, ..] = &tokens[at..] else {
        return false;
    };
    let is_option = option.kind == TokenKind::Text && option.text.starts_with('-');
    let is_member = at > 0 && tokens[at - 1].is(".");
    add.is("add") && is_member && open.is("(") && is_option && comma.is(",")
}

/// What a program in Python wants on its command line: the options with `required=True`, and arguments without a dash as an empty text.
pub fn required_options(text: &str) -> Vec<String> {
    let tokens = tokens(text);
    let all = 0..tokens.len();
    all.filter_map(|at| required(&tokens, at)).collect()
}

/// The option that the call at `at` makes a required one.
fn required(tokens: &[PythonToken<'_>], at: usize) -> Option<String> {
    if let Some(option) = called(tokens, at) {
        let (all, _) = closed_call(&tokens[at + 2..])?;
        let is_required = keyword(&all, "required").is_some_and(|value| value[0].is("True"));
        return is_required.then_some(option.flag);
    }
    if !tokens[at].is("add_argument") || !tokens.get(at + 1)?.is("(") {
        return None;
    }
    let (all, _) = closed_call(&tokens[at + 2..])?;
    let is_named = matches!(all.first()?, [one] if one.kind == TokenKind::Text);
    let is_free = keyword(&all, "nargs").is_some_and(|n| matches!(n[0].text, "?" | "*"));
    (is_named && !is_free && keyword(&all, "default").is_none()).then(String::new)
}

/// Whether a help text says that a number is of all GPUs.
fn of_all_gpus(help: &[PythonToken<'_>]) -> bool {
    let texts = help.iter().filter(|t| t.kind == TokenKind::Text);
    let text: String = texts.map(|t| t.text.to_lowercase()).collect();
    let says = |all: &[&str]| all.iter().any(|words| text.contains(words));
    says(&GLOBAL) && !says(&LOCAL)
}

/// Whether the program divides a number over GPUs or forwards, an attribute (`args.batch_size // world_size`) or a variable. A
/// batch is divided by seconds too, for its speed.
pub(super) fn is_divided(tokens: &[PythonToken<'_>], name: &str, attribute: bool) -> bool {
    let divided = |at: &usize| {
        let before = at.checked_sub(1).map(|at| &tokens[at]);
        tokens[*at].is(name) && before.is_some_and(|t| t.is(".")) == attribute
    };
    // `loss.sum() / args.batch_size / args.accum` divides something else by both.
    let divides = |at: &usize| {
        let path = tokens[..*at].iter().rev();
        let mut before = path.skip_while(|t| t.kind == TokenKind::Name || t.is("."));
        before.next().is_some_and(|t| t.is("/"))
    };
    (0..tokens.len())
        .filter(|at| divided(at) && !divides(at))
        .any(|at| is_by_parts(&tokens[at + 1..]))
}

/// Whether a value is divided among GPUs, by what follows it.
pub(super) fn is_by_parts(rest: &[PythonToken<'_>]) -> bool {
    is_by(rest, &PARTS)
}

/// The same by names with one of these parts.
pub(super) fn is_by(rest: &[PythonToken<'_>], names: &[&str]) -> bool {
    let parts = |t: &PythonToken<'_>| {
        t.kind == TokenKind::Name && names.iter().any(|part| t.text.contains(part))
    };
    let mut line = rest
        .iter()
        .take_while(|t| t.kind != TokenKind::End && !t.is(","));
    line.next().is_some_and(|t| t.is("/")) && line.any(parts)
}

/// An option with these forms.
fn named<'a, 't>(
    texts: &[&str],
    name: Option<&str>,
    range: (usize, usize),
) -> Option<DeclaredOption<'a, 't>> {
    let forms = texts.iter().flat_map(|text| text.split('/'));
    let forms: Vec<&str> = forms.filter(|form| form.starts_with('-')).collect();
    let long = forms.iter().find(|form| form.starts_with("--"));
    let flag = *long.or(forms.first())?;
    Some(DeclaredOption {
        flag: flag.to_owned(),
        forms: forms.iter().map(|form| (*form).to_owned()).collect(),
        name: name.map_or_else(|| plain(flag), str::to_owned),
        is_parameter: true,
        default: None,
        takes: Takes::Value,
        is_global: false,
        range,
    })
}

/// Whether the name at `at` is that of a decorator: `@option`, `@click.option`.
fn is_decorator(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let before = |n: usize| at.checked_sub(n).map(|at| &tokens[at]);
    before(1).is_some_and(|t| t.is("@"))
        || before(1).is_some_and(|t| t.is(".")) && before(3).is_some_and(|t| t.is("@"))
}

/// Whether `def NAME(` at `at` is a command of typer: `typer.run(NAME)`, or `@app.command(…)` above it in a text that uses typer.
fn is_typer_command(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let [def, name, open] = tokens.get(at..at + 3).unwrap_or_default() else {
        return false;
    };
    if !def.is("def") || !open.is("(") || !tokens.iter().any(|t| t.is("typer")) {
        return false;
    }
    let runs = |w: &[PythonToken<'_>]| {
        w[0].is("typer") && w[1].is(".") && w[2].is("run") && w[3].is("(") && w[4].text == name.text
    };
    let line = tokens[..at].iter().rev().skip(1);
    let mut line = line.take_while(|t| t.kind != TokenKind::End);
    line.any(|t| t.is("command")) || tokens.windows(5).any(runs)
}

/// Whether `def NAME(` at `at` is what `fire.Fire(NAME)` calls.
fn is_called_by_fire(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let [def, name, open] = tokens.get(at..at + 3).unwrap_or_default() else {
        return false;
    };
    let calls = |w: &[PythonToken<'_>]| w[0].is("Fire") && w[1].is("(") && w[2].text == name.text;
    def.is("def") && open.is("(") && tokens.windows(3).any(calls)
}

/// The parameters behind the bracket of a command of typer or fire; one without a default is an argument, and no option.
fn parameters<'a, 't>(tokens: &'a [PythonToken<'t>], from: usize) -> Vec<DeclaredOption<'a, 't>> {
    let list = tokens.get(from..).unwrap_or_default();
    let all = arguments(list).into_iter();
    all.filter_map(parameter).collect()
}

/// `name: type = default`, where type or default may be an `Option(…)` of typer.
fn parameter<'a, 't>(part: &'a [PythonToken<'t>]) -> Option<DeclaredOption<'a, 't>> {
    let name = part.first().filter(|t| t.kind == TokenKind::Name)?;
    let mut depth = 0_usize;
    let equals = part.iter().position(|t| {
        let opens = ["(", "["].iter().any(|b| t.is(b));
        let closes = [")", "]"].iter().any(|b| t.is(b));
        depth = (depth + usize::from(opens)).saturating_sub(usize::from(closes));
        depth == 0 && t.is("=")
    });
    let (kind, default) = match equals {
        Some(equals) => (&part[1..equals], Some(&part[equals + 1..])),
        None => (&part[1..], None),
    };
    let inside = |tokens: &'a [PythonToken<'t>]| {
        let opens = |w: &[PythonToken<'t>]| w[0].is("Option") && w[1].is("(");
        let open = tokens.windows(2).position(opens)?;
        Some(arguments(&tokens[open + 2..]))
    };
    let by_default = default.and_then(inside);
    let all = by_default.clone().or_else(|| inside(kind));
    let texts = all.iter().flatten().filter_map(|argument| match argument {
        [one] if one.kind == TokenKind::Text && one.text.starts_with('-') => Some(one.text),
        _ => None,
    });
    let mut texts: Vec<&str> = texts.collect();
    let own = format!("--{}", name.text.replace('_', "-"));
    if !texts.iter().any(|text| text.starts_with("--")) {
        texts.insert(0, &own);
    }
    let default = match &by_default {
        Some(all) => keyword(all, "default").or_else(|| all.first().copied()),
        None => default,
    };
    // A parameter without both is an argument.
    default.or(all.as_ref().map(|_| kind))?;
    let mut option = named(&texts, Some(name.text), (name.from, part.last()?.to))?;
    option.default = default.filter(|tokens| !tokens.is_empty());
    if kind.iter().any(|t| t.is("bool")) {
        option.takes = Takes::TurnsOnOrOff;
    }
    Some(option)
}

#[cfg(test)]
mod tests {
    use super::super::python::tokens;
    use super::*;

    /// Each option as `name --flag default takes`.
    fn read(text: &str) -> Vec<String> {
        let all = tokens(text);
        let shown = declared(&all).into_iter().map(|option| {
            let default = option.default.map_or("-", |d| d[0].text);
            format!(
                "{} {} {default} {:?}",
                option.name, option.flag, option.takes
            )
        });
        shown.collect()
    }

    #[test]
    fn argparse_click_and_typer_declare_the_same_options() {
        let argparse = "p.add_argument('-b', '--batch-size', type=int, default=8)\n\
                        p.add_argument('--gc', action='store_true')\n\
                        p.add_argument('--bf16', action=argparse.BooleanOptionalAction, default=True)\n\
                        p.add_argument('--len', dest='length', default=512)\np.add_argument('data')\n";
        let click = "@click.command()\n@click.option('--batch-size', '-b', default=8, show_default=True)\n\
                     @click.option('--gc', is_flag=True)\n@click.option('--bf16/--no-bf16', default=True)\n\
                     @option('--len', 'length', default=512)\ndef main(batch_size, gc, bf16, length): pass\n";
        let expected = [
            "batch_size --batch-size 8 Value",
            "gc --gc - TurnsOn",
            "bf16 --bf16 True TurnsOnOrOff",
            "length --len 512 Value",
        ];
        assert_eq!(read(argparse), expected);
        assert_eq!(read(&argparse.replace("add_argument", "add")), expected);
        assert_eq!(read(click), expected);
        let typer = "import typer\napp = typer.Typer()\n@app.command()\n\
                     def main(data: str, batch_size: int = 8, gc: bool = False, \
                     bf16: Annotated[bool, typer.Option(help='x')] = True, \
                     length: int = typer.Option(512, '--len', help='y')):\n  x: int = 3\n";
        let expected = [
            "batch_size --batch-size 8 Value",
            "gc --gc False TurnsOnOrOff",
            "bf16 --bf16 True TurnsOnOrOff",
            "length --len 512 Value",
        ];
        assert_eq!(read(typer), expected);
        let fire = "import fire\ndef other(x=1): pass\ndef main(data, batch_size: int = 8, gc=False): pass\nfire.Fire(main)\n";
        let expected = ["batch_size --batch_size 8 Value", "gc --gc False Truth"];
        assert_eq!(read(fire), expected);
        let run = "import typer\ndef helper(z: int = 1): pass\ndef main(steps: int = 5): pass\ntyper.run(main)\n";
        assert_eq!(read(run), ["steps --steps 5 Value"]);
    }

    #[test]
    fn what_a_program_requires_has_no_default() {
        let text = "p.add_argument('data')\np.add_argument('more', nargs='*')\np.add_argument('--out', required=True)\n\
            p.add_argument('-l', '--lr', required=False)\n@click.option('--seed', required=True)\n";
        assert_eq!(required_options(text), ["", "--out", "--seed"]);
        assert_eq!(required_options("p.add_argument("), [""; 0]);
    }

    #[test]
    fn other_calls_and_open_brackets_declare_nothing() {
        for text in [
            "option('--x', default=1)",
            "add_argument('--x'",
            "@click.option(",
            "import typer\n@app.command()\ndef main(a: int = ",
            "def main(a: int = 3): pass",
            "import typer\ndef",
        ] {
            assert_eq!(read(text), [""; 0], "{text}");
        }
    }
}
