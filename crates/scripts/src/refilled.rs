//! Fields of a framework's settings that code gives values after a parser or a call has filled them:
//! `args.gradient_accumulation_steps = 4`, `dataclasses.replace(args, bf16=True)`, `sys.argv += ["--bf16", "True"]`.
//!
//! Rule: where code names a field other than to read it, what a word says of the field says nothing.

use std::collections::BTreeMap;

use super::accumulation::assigned_to;
use super::code_value::{CodeValue, PythonFile};
use super::program_text::computed;
use super::python::{
    PythonToken, TokenKind, arguments, assignment, calls, headers, is_conditional, line_begins,
    statements,
};

/// How transformers' parser hands out what it filled (transformers 5.23 hf_argparser.py; TRL 1.16 TrlParser).
const PARSES: [&str; 6] = [
    "parse_args_into_dataclasses",
    "parse_args_and_config",
    "parse_dict",
    "parse_json_file",
    "parse_yaml_file",
    "parse_args",
];

/// Calls whose named arguments are fields.
const UPDATES: [&str; 5] = ["set_defaults", "replace", "update", "dict", "__class__"];
/// Methods that change several fields (transformers 5.23 training_args.py).
const SETTERS: [&str; 4] = [
    "set_training",
    "set_dataloader",
    "set_evaluate",
    "set_optimizer",
];
/// Methods that add words to a list.
const ADDS: [&str; 3] = ["extend", "append", "insert"];
/// What declares options: argparse, click, typer, dataclasses' metadata.
const DECLARES: [&str; 5] = ["add_argument", "option", "Option", "Argument", "help"];
/// Objects whose fields are others, though they have names of settings.
const OTHERS: [&str; 4] = ["config", "generation_config", "tokenizer", "processor"];

/// What code gives such fields.
#[derive(Debug, Default)]
pub(super) struct Refilled {
    /// By name.
    pub fields: BTreeMap<String, CodeValue>,
    /// Where it may give any of them any value.
    pub all: Option<CodeValue>,
}

impl Refilled {
    /// What the words of a command in these files give, which a launcher of another program writes.
    pub(super) fn by_words(files: &[PythonFile<'_>]) -> Self {
        let mut found = Self::default();
        for file in files {
            for line in statements(&file.tokens) {
                found.take_words(file, line);
            }
        }
        found
    }

    /// What these files give.
    pub(super) fn of(files: &[PythonFile<'_>]) -> Self {
        let mut found = Self::default();
        let parsed: Vec<&str> = files.iter().flat_map(parsed).collect();
        for file in files {
            let mut begin = 0;
            for line in statements(&file.tokens) {
                found.take_statement(file, begin, line);
                begin += line.len() + 1;
            }
            found.take_calls(file, &parsed);
        }
        found
    }

    fn take_statement(&mut self, file: &PythonFile<'_>, begin: usize, line: &[PythonToken<'_>]) {
        self.take_words(file, line);
        self.take_entries(file, line);
        let Some(sign) = assignment(line) else {
            return;
        };
        let (left, value) = (&line[..sign], &line[sign + 1..]);
        let argv = left.windows(3).any(|w| w[0].is("sys") && w[2].is("argv"));
        if argv && !value.iter().any(|t| t.text.starts_with("--")) {
            self.take_all(file, &line[0]);
        }
        for at in 0..left.len() {
            let next = line.get(at + 1);
            let ends = next.is_none_or(|t| ![".", "(", "["].iter().any(|sign| t.is(sign)));
            let name = left[at].text;
            if left[at].kind == TokenKind::Name && ends && is_field(file, begin + at) {
                let plain = at == 2 && sign == 3 && !left[0].is("self");
                let written = || CodeValue::written(file, value);
                // A word would be changed in vain.
                let sure = plain && file.can_change && !is_conditional(&file.tokens, begin + at);
                let known = self.fields.contains_key(name);
                match (sure && !known).then(written).flatten() {
                    Some(value) => drop(self.fields.insert(name.to_owned(), value)),
                    None => self.take(file, &left[at], name),
                }
            }
            let is_key = at > 0 && left[at - 1].is("[") && next.is_some_and(|t| t.is("]"));
            if is_key && left[at].kind == TokenKind::Text && !value.iter().any(|t| t.is(name)) {
                self.take(file, &left[at], name);
            }
        }
    }

    /// Words of a list, which become words of a command, but where they are declared.
    fn take_words(&mut self, file: &PythonFile<'_>, line: &[PythonToken<'_>]) {
        if line.iter().any(|t| DECLARES.contains(&t.text)) {
            return;
        }
        for (at, token) in line.iter().enumerate() {
            let word = token.text.strip_prefix("--");
            let word = word.filter(|_| token.kind == TokenKind::Text && is_of_list(line, at));
            if let Some(word) = word {
                let name = word.split('=').next().unwrap_or(word).replace('-', "_");
                self.take(file, token, &name);
            }
        }
    }

    /// Numbers and switches of a dictionary that is written out.
    fn take_entries(&mut self, file: &PythonFile<'_>, line: &[PythonToken<'_>]) {
        for (at, token) in line.iter().enumerate() {
            let is_key =
                token.kind == TokenKind::Text && line.get(at + 1).is_some_and(|t| t.is(":"));
            let plain =
                |t: &PythonToken<'_>| t.kind == TokenKind::Number || t.is("True") || t.is("False");
            if is_key && line.get(at + 2).is_some_and(plain) {
                self.take(file, token, token.text);
            }
        }
    }

    /// Calls that change what a parser gave.
    fn take_calls(&mut self, file: &PythonFile<'_>, parsed: &[&str]) {
        let tokens = &file.tokens;
        let is_parsed = |t: &PythonToken<'_>| parsed.contains(&t.text);
        for at in calls(tokens, |_| true) {
            let call = &tokens[at];
            let of_object = at > 1 && tokens[at - 1].is(".");
            let of_parsed = of_object && is_parsed(&tokens[at - 2]);
            let given = arguments(&tokens[at + 2..]);
            let first = matches!(given.first(), Some([one]) if is_parsed(one));
            if UPDATES.contains(&call.text) {
                self.take_named_arguments(file, &given);
                let spread = given.iter().any(|argument| argument[0].is("*"));
                let of_dict = of_object && tokens[at - 2].is("__dict__");
                if spread && (first || of_parsed) || call.is("update") && of_dict {
                    self.take_all(file, call);
                }
            }
            let of_argv = of_object && tokens[at - 2].is("argv") && ADDS.contains(&call.text);
            if of_argv && !given.iter().any(|words| are_written(words)) {
                self.take_all(file, call);
            }
            if PARSES.contains(&call.text) && given.iter().any(|words| adds_words(words)) {
                self.take_all(file, call);
            }
            if call.is("setattr") || call.is("__setattr__") {
                // `args.__setattr__("bf16", True)` has the name first.
                let mut named = given.iter().take(2);
                match named.find(|argument| argument[0].kind == TokenKind::Text) {
                    Some([name]) => self.take(file, name, name.text),
                    _ if first => self.take_all(file, call),
                    _ => {}
                }
            }
            if SETTERS.contains(&call.text) && of_parsed {
                self.take_all(file, call);
            }
        }
    }

    /// `NAME=value` that hands on no value of that name.
    fn take_named_arguments(&mut self, file: &PythonFile<'_>, given: &[&[PythonToken<'_>]]) {
        for argument in given {
            if let [name, equals, value @ ..] = argument
                && equals.is("=")
                && !value.iter().any(|t| t.is(name.text))
            {
                self.take(file, name, name.text);
            }
        }
    }

    /// A field gets a value that is not known, at this token.
    fn take(&mut self, file: &PythonFile<'_>, at: &PythonToken<'_>, name: &str) {
        let value = CodeValue::plain(computed(file, at));
        self.fields.insert(name.to_owned(), value);
    }

    fn take_all(&mut self, file: &PythonFile<'_>, call: &PythonToken<'_>) {
        let value = || CodeValue::plain(computed(file, call));
        self.all.get_or_insert_with(value);
    }
}

/// Whether an argument is words that are written out: `["--bf16", "True"]`, `"--bf16"`.
fn are_written(words: &[PythonToken<'_>]) -> bool {
    let is_word =
        |t: &PythonToken<'_>| t.kind == TokenKind::Text || [",", "[", "]"].iter().any(|s| t.is(s));
    words.iter().all(is_word) && words.iter().any(|t| t.kind == TokenKind::Text)
}

/// Whether a parser is given other words than those of the command: `sys.argv[1:] + shlex.split(text)`.
fn adds_words(words: &[PythonToken<'_>]) -> bool {
    words.iter().any(|t| t.is("argv")) && words.iter().any(|t| t.is("+"))
}

/// Whether a text is written into a list: `["--bf16", …]`, `words.append("--bf16")`; `words.index("--bf16")` and `words["--bf16"]` read it.
fn is_of_list(line: &[PythonToken<'_>], at: usize) -> bool {
    let before = |steps: usize| at.checked_sub(steps).map(|at| &line[at]);
    let is = |steps: usize, text: &str| before(steps).is_some_and(|t| t.is(text));
    let looked_up = before(2).is_some_and(|t| t.kind == TokenKind::Name || t.closes());
    is(1, ",") || is(1, "[") && !looked_up || is(1, "(") && is(2, "append")
}

/// Whether the name at a place is a field of an object that may be the settings: of `self` only in a class of settings.
fn is_field(file: &PythonFile<'_>, at: usize) -> bool {
    let tokens = &file.tokens;
    let mut objects: Vec<&str> = Vec::new();
    let mut before = at;
    while before > 1 && tokens[before - 1].is(".") {
        before -= 2;
        objects.push(tokens[before].text);
    }
    let of_settings = || {
        headers(tokens, at).any(|(_, header)| {
            let named =
                |t: &PythonToken<'_>| t.text.ends_with("Arguments") || t.text.ends_with("Config");
            header[0].is("class") && header.iter().any(named)
        })
    };
    match objects[..] {
        [] => false,
        ["self"] => of_settings(),
        _ => !objects.iter().any(|object| OTHERS.contains(object)),
    }
}

/// The keys of dictionaries that code gives values after they were made or loaded: `settings["bf16"] = True`,
/// `settings.update(bf16=True)`. Of one dictionary, or of any.
pub(super) fn keys_set(files: &[PythonFile<'_>], of: Option<&str>) -> BTreeMap<String, CodeValue> {
    let mut found = BTreeMap::new();
    for file in files {
        let tokens = &file.tokens;
        let mut take = |key: &PythonToken<'_>| {
            let value = CodeValue::plain(computed(file, key));
            found.insert(key.text.to_owned(), value);
        };
        let is_meant = |t: &PythonToken<'_>| of.is_none_or(|name| t.is(name));
        for at in line_begins(tokens) {
            let [name, open, key, close, equals, ..] = &tokens[at..] else {
                continue;
            };
            let is_key = open.is("[") && key.kind == TokenKind::Text && close.is("]");
            let value = statements(&tokens[at + 5..]).next().unwrap_or_default();
            // What is computed of the old value follows it, unless it is one of two.
            let chosen = value.iter().any(|t| t.is("if") || t.is("or"));
            let follows = !chosen && value.iter().any(|t| t.text == key.text);
            if is_meant(name) && is_key && equals.is("=") && !follows {
                take(key);
            }
        }
        let updates = calls(tokens, |t| t.is("update"));
        for at in updates.filter(|at| *at > 1 && is_meant(&tokens[at - 2])) {
            for argument in arguments(&tokens[at + 2..]) {
                if let [name, equals, ..] = argument
                    && equals.is("=")
                {
                    take(name);
                }
            }
        }
    }
    found
}

/// The names of what a framework's parser returns: `model_args, training_args = parser.parse_args_into_dataclasses()`.
fn parsed<'t>(file: &PythonFile<'t>) -> Vec<&'t str> {
    let tokens = &file.tokens;
    let names = calls(tokens, |t| PARSES.contains(&t.text)).flat_map(|at| {
        let names = assigned_to(tokens, at).unwrap_or_default();
        names.iter().filter(|t| t.kind == TokenKind::Name)
    });
    names.map(|t| t.text).collect()
}
