//! The class that configures a framework, as a program fills it itself.

use std::collections::{BTreeMap, BTreeSet};

use super::code_value::{CodeValue, ConfigClasses, PythonFile};
use super::loaded::{Unpacked, unpacked};
use super::program_text::{CodeFiles, LOADS, computed, is_one_of, loads_a_model};
use super::python::{PythonToken, TokenKind, arguments, assigned, calls};
use super::refilled::{Refilled, keys_set};
use super::traced::Traced;
use oomctl_base::only;

/// The class that configures a framework, as a program fills it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilledClass {
    /// Its name.
    pub name: String,
    /// The file that fills it.
    pub path: String,
    /// Its named arguments.
    pub values: BTreeMap<String, CodeValue>,
    /// What else it is filled with.
    pub unpacked: Option<Unpacked>,
    /// Where a further argument is put; None where its file cannot be changed.
    pub room: Option<ArgumentRoom>,
}

/// The place behind the arguments of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgumentRoom {
    /// The place, as a text without bytes.
    pub end: Traced,
    /// What stands between two arguments.
    pub separator: String,
    /// Names that the call already has.
    pub taken: BTreeSet<String>,
}

impl CodeFiles<'_, '_> {
    /// The class that the program fills, and what it hands it; None where the framework's parser fills it, or nothing does. Of a
    /// class that is filled in a way that is not read nothing is known.
    pub(super) fn configured(&self, wanted: &ConfigClasses<'_>) -> Option<FilledClass> {
        let own = self.own_classes(wanted.classes.clone());
        let is_wanted = |t: &PythonToken<'_>| {
            let mut all = own.iter();
            t.kind == TokenKind::Name && all.any(|class| t.text.ends_with(class))
        };
        let starts = self.files.iter().flat_map(|file| {
            let calls = calls(&file.tokens, is_wanted);
            calls.map(move |at| (file, at)).collect::<Vec<_>>()
        });
        let starts: Vec<_> = starts.collect();
        // `import … as C`, `partial(…)`.
        let renamed = |w: &[PythonToken<'_>]| {
            is_wanted(&w[0]) && w[1].is("as") || w[0].is("partial") && is_wanted(&w[2])
        };
        let mut windows = self.files.iter().flat_map(|f| f.tokens.windows(3));
        if starts.is_empty() && !windows.any(renamed) || self.parser_fills(wanted, &own) {
            return None;
        }
        let unclear = |path: &str| FilledClass {
            path: path.to_owned(),
            unpacked: Some(Unpacked::default()),
            ..FilledClass::default()
        };
        let first = self.files.first()?;
        // Of several nobody knows which one counts.
        let [(file, start)] = starts[..] else {
            return Some(unclear(first.path));
        };
        if self.is_changed_later() {
            return Some(unclear(file.path));
        }
        let (mut values, mut more) = (BTreeMap::new(), None);
        let all = arguments(&file.tokens[start + 2..]);
        for argument in &all {
            match argument {
                [star, double, rest @ ..] if star.is("*") && double.is("*") => {
                    more = Some(unpacked(self.files, rest)?);
                    if let [name] = rest {
                        values.extend(keys_set(self.files, Some(name.text)));
                    }
                }
                [star, ..] if star.is("*") => return Some(unclear(file.path)),
                [name, equals, value @ ..] if equals.is("=") && !value.is_empty() => {
                    let coded = self.value(file, value, 0);
                    let coded = coded.map(|coded| match self.is_set(name.text) {
                        true => CodeValue::plain(computed(file, name)),
                        false => coded,
                    });
                    values.extend(coded.map(|coded| (name.text.to_owned(), coded)));
                }
                _ => {}
            }
        }
        values.extend(Refilled::of(self.files).fields);
        Some(FilledClass {
            name: file.tokens[start].text.to_owned(),
            path: file.path.to_owned(),
            values,
            room: room(file, &all).filter(|_| more.is_none()),
            unpacked: more,
        })
    }

    /// The flags that the class does not take: those of a call, each with the room that the one such call has, and those of nothing.
    pub(super) fn call_rooms(
        &self,
        wanted: &ConfigClasses<'_>,
    ) -> BTreeMap<String, Option<ArgumentRoom>> {
        let is_option = |flag: &str| {
            let option = format!("--{flag}");
            let mut options = self.options.iter().flat_map(|(_, options)| options);
            options.any(|o| o.forms.contains(&option))
        };
        let alone = wanted.arguments.iter().filter_map(|argument| {
            let classes = argument.fields_of.iter().flatten().map(String::as_str);
            let own = self.own_classes(classes.collect());
            let taken = is_option(&argument.flag) || self.parser_fills(wanted, &own);
            let alone = argument.fields_of.is_some() && !taken;
            alone.then(|| (argument.flag.clone(), self.room_of(&argument.call)))
        });
        let lacking = wanted.lacking.iter().filter(|flag| !is_option(flag));
        let lacking = lacking.map(|flag| ((*flag).to_owned(), None));
        alone.chain(lacking).collect()
    }

    /// Where the one call of this name has room; of those that load something the one that loads a model.
    fn room_of(&self, name: &str) -> Option<ArgumentRoom> {
        let found = self.files.iter().flat_map(|file| {
            let called = calls(&file.tokens, |t| t.is(name));
            let called = called.filter(|at| name != LOADS || loads_a_model(&file.tokens, *at));
            called.map(move |at| (file, at)).collect::<Vec<_>>()
        });
        let (file, at) = only(found)?;
        room(file, &arguments(&file.tokens[at + 2..]))
    }

    /// These classes, and those that the program makes of them.
    fn own_classes<'n>(&'n self, classes: BTreeSet<&'n str>) -> BTreeSet<&'n str> {
        let mut own = classes.clone();
        let lines = self.files.iter();
        let lines = lines.flat_map(|f| f.tokens.split(|t| t.kind == TokenKind::End));
        for line in lines {
            if let [class, name, rest @ ..] = line
                && class.is("class")
                && rest.iter().any(|t| is_one_of(&classes, t))
            {
                own.insert(name.text);
            }
        }
        own
    }

    /// Whether the framework's parser is handed one of the classes.
    fn parser_fills(&self, wanted: &ConfigClasses<'_>, own: &BTreeSet<&str>) -> bool {
        let mut parsers = self.files.iter().flat_map(|file| {
            calls(&file.tokens, |t| is_one_of(&wanted.parsers, t)).map(move |at| (file, at))
        });
        parsers.any(|(file, at)| {
            let all = arguments(&file.tokens[at + 2..]);
            let mut names = all.into_iter().flatten();
            names.any(|t| is_one_of(own, t))
        })
    }

    /// Whether the code gives an attribute of this name a value.
    fn is_set(&self, name: &str) -> bool {
        let mut files = self.files.iter();
        files.any(|f| assigned(&f.tokens, name, true).next().is_some())
    }

    /// Whether what a class was filled with is changed by its methods, or by name (transformers 5.23 training_args.py).
    fn is_changed_later(&self) -> bool {
        const SETTERS: [&str; 6] = [
            "setattr",
            "replace",
            "set_training",
            "set_dataloader",
            "set_evaluate",
            "set_optimizer",
        ];
        let mut calls = self
            .files
            .iter()
            .flat_map(|f| calls(&f.tokens, |t| SETTERS.contains(&t.text)).map(move |at| (f, at)));
        calls.any(|(file, at)| {
            let before = |n: usize| at.checked_sub(n).map(|at| &file.tokens[at]);
            let of_text = before(1).is_some_and(|t| t.is("."))
                && !before(2).is_some_and(|t| t.is("dataclasses"));
            file.tokens[at].text != "replace" || !of_text
        })
    }
}

/// Where a further argument stands best, by what stands before the last one.
fn room(file: &PythonFile<'_>, all: &[&[PythonToken<'_>]]) -> Option<ArgumentRoom> {
    let last = all.last().filter(|_| file.can_change)?;
    let (from, to) = (last.first()?.from, last.last()?.to);
    let text = file.content.text();
    let before = text.get(..from)?;
    let indent = before.rsplit_once('\n').map(|(_, indent)| indent);
    let own_line = indent.filter(|indent| indent.trim().is_empty());
    let names = all.iter().filter_map(|argument| match argument {
        [name, equals, ..] if equals.is("=") => Some(name.text.to_owned()),
        _ => None,
    });
    Some(ArgumentRoom {
        end: file.content.slice(to, to),
        separator: own_line.map_or(", ".to_owned(), |indent| format!(",\n{indent}")),
        taken: names.collect(),
    })
}
