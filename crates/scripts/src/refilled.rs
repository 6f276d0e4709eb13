//! Fields of a framework's settings that code gives values after a parser or a call has filled them:
//! `args.gradient_accumulation_steps = 4`, `dataclasses.replace(args, bf16=True)`, `setattr(args, name, value)`.

use std::collections::BTreeMap;

use super::code_value::{CodeValue, PythonFile};
use super::loaded::load;
use super::program_text::computed;
use super::python::{
    PythonToken, TokenKind, arguments, calls, is_conditional, line_begins, line_of, statements,
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

/// What code gives such fields.
#[derive(Debug, Default)]
pub(super) struct Refilled {
    /// By name.
    pub fields: BTreeMap<String, CodeValue>,
    /// Where it may give any of them any value.
    pub all: Option<CodeValue>,
}

impl Refilled {
    /// What these files give.
    pub(super) fn of(files: &[PythonFile<'_>]) -> Self {
        let mut found = Self::default();
        let parsed: Vec<&str> = files.iter().flat_map(parsed).collect();
        for file in files {
            found.take_statements(file);
            found.take_calls(file, &parsed);
        }
        found
    }

    /// `args.NAME = value`, of whatever object that is no `self`.
    fn take_statements(&mut self, file: &PythonFile<'_>) {
        let tokens = &file.tokens;
        for at in 2..tokens.len() {
            let [object, dot, name] = &tokens[at - 2..=at] else {
                continue;
            };
            let begins = at < 3 || tokens[at - 3].kind == TokenKind::End || tokens[at - 3].is(";");
            let is_field = dot.is(".") && name.kind == TokenKind::Name && !object.is("self");
            let sets = tokens.get(at + 1).is_some_and(|t| t.is("="))
                && !tokens.get(at + 2).is_some_and(|t| t.is("="));
            if !(begins && is_field && sets) {
                continue;
            }
            let value = statements(&tokens[at + 2..]).next().unwrap_or_default();
            // What it computes of the word still follows it.
            let chosen = value.iter().any(|t| t.is("if") || t.is("or"));
            if !chosen && value.iter().any(|t| t.text == name.text) {
                continue;
            }
            let written = CodeValue::written(file, value)
                .filter(|_| !is_conditional(tokens, at) && !self.fields.contains_key(name.text));
            self.take(file, name, written);
        }
    }

    /// Calls that change what a parser gave.
    fn take_calls(&mut self, file: &PythonFile<'_>, parsed: &[&str]) {
        let tokens = &file.tokens;
        let is_parsed = |t: &PythonToken<'_>| parsed.contains(&t.text);
        for at in calls(tokens, |_| true) {
            let given = arguments(&tokens[at + 2..]);
            let first = matches!(given.first(), Some([one]) if is_parsed(one));
            let of_parsed = at > 1 && tokens[at - 1].is(".") && is_parsed(&tokens[at - 2]);
            let call = &tokens[at];
            let rest = given.iter().skip(1);
            match call.text {
                "setattr" if first => match given.get(1) {
                    Some([name]) if name.kind == TokenKind::Text => self.take(file, name, None),
                    _ => self.take_all(file, call),
                },
                "replace" if first => {
                    for argument in rest {
                        match argument {
                            [name, equals, ..] if equals.is("=") => self.take(file, name, None),
                            _ => self.take_all(file, call),
                        }
                    }
                }
                "__class__" | "set_training" | "set_dataloader" | "set_evaluate"
                | "set_optimizer"
                    if of_parsed =>
                {
                    self.take_all(file, call);
                }
                _ => {}
            }
        }
    }

    fn take(&mut self, file: &PythonFile<'_>, name: &PythonToken<'_>, written: Option<CodeValue>) {
        let value = written.unwrap_or_else(|| CodeValue::plain(computed(file, name)));
        self.fields.insert(name.text.to_owned(), value);
    }

    fn take_all(&mut self, file: &PythonFile<'_>, call: &PythonToken<'_>) {
        let value = || CodeValue::plain(computed(file, call));
        self.all.get_or_insert_with(value);
    }
}

/// The keys of dictionaries that code gives values after they were made or loaded: `settings["bf16"] = True`,
/// `settings.update(bf16=True)`. Of one dictionary, or of any in a program that loads some.
pub(super) fn keys_set(files: &[PythonFile<'_>], of: Option<&str>) -> BTreeMap<String, CodeValue> {
    let mut found = BTreeMap::new();
    if of.is_none() && !load(files) {
        return found;
    }
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
        let line = &tokens[line_of(tokens, at)..at];
        let sign = line.iter().position(|t| t.is("=")).unwrap_or(0);
        line[..sign].iter().filter(|t| t.kind == TokenKind::Name)
    });
    names.map(|t| t.text).collect()
}
