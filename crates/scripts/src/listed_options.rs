//! Options that a program declares in a loop over a dictionary of their defaults: `for k, v in defaults.items():
//! parser.add_argument(f"--{k}", default=v)`.

use super::configurator::variables;
use super::dataclass_options::fields;
use super::declared::{DeclaredOption, Takes, declared, is_divided};
use super::python::{PythonToken, TokenKind, arguments, calls, ends_block, keyword, rest_of_line};

/// Most names and functions through which a dictionary is followed.
const DEPTH: usize = 8;

type Tokens<'a, 't> = &'a [PythonToken<'t>];

/// The options that each of the files of a program declares.
pub(super) fn declared_by<'a, 't>(files: &[Tokens<'a, 't>]) -> Vec<Vec<DeclaredOption<'a, 't>>> {
    // Hydra takes the words of its program: no parser reads them.
    let is_hydras = |w: &[PythonToken<'_>]| w[0].is("@") && w[1].is("hydra") && w[3].is("main");
    let program = files.first().copied().unwrap_or_default();
    if program.windows(4).any(is_hydras) {
        return vec![Vec::new(); files.len()];
    }
    let by_file = files.iter().map(|tokens| {
        let mut own = declared(tokens);
        own.extend(variables(tokens));
        own
    });
    let mut all: Vec<_> = by_file.collect();
    let entries = listed(files).into_iter();
    let entries = entries.map(|(number, entry)| (number, option(files[number], entry)));
    for (number, option) in entries.chain(fields(files)) {
        let options = &mut all[number];
        let is_new = |o: &DeclaredOption<'_, '_>| o.range != option.range && o.flag != option.flag;
        if options.iter().all(is_new) {
            options.push(option);
        }
    }
    all
}

/// The entries that become options, each with the number of its file.
fn listed<'a, 't>(files: &[Tokens<'a, 't>]) -> Vec<(usize, Tokens<'a, 't>)> {
    let mut found = Vec::new();
    for (number, tokens) in files.iter().enumerate() {
        for at in calls(tokens, |t| t.is("add_argument")) {
            let Some(of) = looped(tokens, at) else {
                continue;
            };
            match handed_to(tokens, at, of) {
                None => found.extend(entries_of(files, number, of, 0)),
                Some((function, place)) => found.extend(given_to(files, function, (of, place))),
            }
        }
    }
    found
}

/// The entries of the dictionaries that calls of a function hand it, under a name or at a place of its arguments.
fn given_to<'a, 't>(
    files: &[Tokens<'a, 't>],
    function: &str,
    (name, place): (&str, usize),
) -> Vec<(usize, Tokens<'a, 't>)> {
    let mut found = Vec::new();
    for (number, tokens) in files.iter().enumerate() {
        for call in calls(tokens, |t| t.is(function)) {
            let all = arguments(&tokens[call + 2..]);
            let given = keyword(&all, name).or_else(|| all.get(place).copied());
            found.extend(
                given
                    .into_iter()
                    .flat_map(|given| entries(files, number, given, 0)),
            );
        }
    }
    found
}

/// The name of the dictionary over which `add_argument(f"--{k}", default=v)` at `at` is repeated.
fn looped<'t>(tokens: Tokens<'_, 't>, at: usize) -> Option<&'t str> {
    let all = arguments(&tokens[at + 2..]);
    let default = keyword(&all, "default")?;
    let is_key = |key: &PythonToken<'_>| match all.first() {
        Some([text]) => {
            let bare = text.text.trim_start_matches('f').trim_matches(['"', '\'']);
            let name = bare.strip_prefix("--{").and_then(|r| r.strip_suffix('}'));
            text.kind == TokenKind::Other && name == Some(key.text)
        }
        Some([text, rest @ ..]) => {
            ["--", "--%s", "--{}"].contains(&text.text) && rest.iter().any(|t| t.is(key.text))
        }
        _ => false,
    };
    let mut loops = tokens[..at].windows(9).rev();
    loops.find_map(|w| {
        let [start, key, comma, value, within, of, dot, items, open] = w else {
            return None;
        };
        let is_loop = start.is("for") && comma.is(",") && within.is("in") && dot.is(".");
        let is_items = items.is("items") && open.is("(");
        let is_default = matches!(default, [one] if one.text == value.text);
        (is_loop && is_items && is_default && is_key(key)).then_some(of.text)
    })
}

/// The function that the dictionary of this name is handed to, and at which place of its arguments.
fn handed_to<'t>(tokens: Tokens<'_, 't>, at: usize, of: &str) -> Option<(&'t str, usize)> {
    let def = tokens[..at].iter().rposition(|t| t.is("def"))?;
    let name = tokens.get(def + 1)?;
    let parameters = arguments(tokens.get(def + 3..)?);
    let place = parameters.iter().position(|p| p[0].is(of))?;
    Some((name.text, place))
}

/// The entries of a dictionary that an expression stands for.
fn entries<'a, 't>(
    files: &[Tokens<'a, 't>],
    number: usize,
    value: Tokens<'a, 't>,
    depth: usize,
) -> Vec<(usize, Tokens<'a, 't>)> {
    if depth > DEPTH {
        return Vec::new();
    }
    match value {
        [name] => entries_of(files, number, name.text, depth + 1),
        [open, rest @ ..] if open.is("{") => with(number, rest),
        [dict, open, rest @ ..] if dict.is("dict") && open.is("(") => with(number, rest),
        [function, open, ..] if function.kind == TokenKind::Name && open.is("(") => {
            returned(files, function.text, depth + 1)
        }
        _ => Vec::new(),
    }
}

fn with<'a, 't>(number: usize, rest: Tokens<'a, 't>) -> Vec<(usize, Tokens<'a, 't>)> {
    let all = arguments(rest).into_iter();
    let all = all.filter(|entry| match entry {
        [key, is, _, ..] if key.kind == TokenKind::Name => is.is("="),
        [key, is, _, ..] if key.kind == TokenKind::Text => is.is(":"),
        _ => false,
    });
    all.map(|entry| (number, entry)).collect()
}

/// The entries of the dictionary of a name: as it is given its value, and what is added to it.
fn entries_of<'a, 't>(
    files: &[Tokens<'a, 't>],
    number: usize,
    name: &str,
    depth: usize,
) -> Vec<(usize, Tokens<'a, 't>)> {
    let tokens = files[number];
    let mut found = Vec::new();
    for at in (0..tokens.len()).filter(|at| tokens[*at].is(name)) {
        let value = match &tokens[at + 1..] {
            [equals, rest @ ..] if equals.is("=") => rest_of_line(rest),
            [dot, update, open, rest @ ..]
                if dot.is(".") && update.is("update") && open.is("(") =>
            {
                arguments(rest).first().copied().unwrap_or_default()
            }
            _ => continue,
        };
        found.extend(entries(files, number, value, depth + 1));
    }
    found
}

/// The entries of the dictionary that a function returns.
fn returned<'a, 't>(
    files: &[Tokens<'a, 't>],
    function: &str,
    depth: usize,
) -> Vec<(usize, Tokens<'a, 't>)> {
    let mut found = Vec::new();
    for (number, tokens) in files.iter().enumerate() {
        let tokens: Tokens<'a, 't> = tokens;
        let mut defs = tokens.windows(2);
        let Some(def) = defs.position(|w| w[0].is("def") && w[1].is(function)) else {
            continue;
        };
        let ends = |at: &usize| tokens[*at].kind == TokenKind::End && ends_block(tokens, def, *at);
        let end = (def..tokens.len()).find(ends).unwrap_or(tokens.len());
        for at in (def..end).filter(|at| tokens[*at].is("return")) {
            let value = rest_of_line(&tokens[at + 1..]);
            // A name is one of this function's.
            let mut body = files.to_vec();
            if let [_] = value {
                body[number] = &tokens[def..end];
            }
            found.extend(entries(&body, number, value, depth + 1));
        }
    }
    found
}

/// The option of an entry, `key=8` or `"key": 8`.
fn option<'a, 't>(tokens: Tokens<'a, 't>, entry: Tokens<'a, 't>) -> DeclaredOption<'a, 't> {
    let name = entry[0].text;
    let value = entry.get(2..).unwrap_or_default();
    let (from, to) = (entry[0].from, entry.last().map_or(0, |t| t.to));
    DeclaredOption {
        flag: format!("--{name}"),
        forms: vec![format!("--{name}")],
        name: name.to_owned(),
        is_parameter: false,
        default: (!value.is_empty()).then_some(value),
        takes: Takes::like(value),
        is_global: is_divided(tokens, name, true),
        range: (from, to),
    }
}

#[cfg(test)]
mod tests {
    use super::super::python::tokens;
    use super::*;

    /// Each option as `flag default`.
    fn read(texts: &[&str]) -> Vec<String> {
        let all: Vec<_> = texts.iter().map(|text| tokens(text)).collect();
        let files: Vec<_> = all.iter().map(|tokens| &**tokens).collect();
        let options = declared_by(&files).into_iter().flatten();
        let shown = options.map(|o| {
            let default: String = o
                .default
                .unwrap_or_default()
                .iter()
                .map(|t| t.text)
                .collect();
            format!("{} {default}", o.flag)
        });
        shown.collect()
    }

    #[test]
    fn the_entries_of_a_dictionary_are_options_where_a_loop_declares_them() {
        let program = "def make():\n  defaults = dict(batch_size=1, microbatch=-1)\n  defaults.update(more())\n  \
            p = argparse.ArgumentParser()\n  add_dict(p, defaults)\n  return p\n";
        let loops = "def add_dict(parser, values):\n  for k, v in values.items():\n    t = type(v)\n    \
            parser.add_argument(f\"--{k}\", default=v, type=t)\n";
        let more =
            "def more():\n  res = {'use_checkpoint': False}\n  return res\nres = dict(other=3)\n";
        let expected = [
            "--batch_size 1",
            "--microbatch -1",
            "--use_checkpoint False",
        ];
        assert_eq!(read(&[program, loops, more]), expected);
        let here = "D = {'lr': 1}\nfor k, v in D.items():\n  p.add_argument('--' + k, default=v)\n";
        assert_eq!(read(&[here]), ["--lr 1"]);
        for other in [
            "D = {'lr': 1}\nfor k, v in D.items():\n  print(k)\n",
            "D = {'lr': 1}\nfor k, v in D.items():\n  p.add_argument('--' + k, default=w)\n",
            "for k, v in f().items():\n  p.add_argument('--' + k, default=v)\ndef f(): return f()\n",
            "p.add_argument(f'--{k}', default=v",
        ] {
            assert_eq!(read(&[other]), [""; 0], "{other}");
        }
    }
}
