//! What is read of the code of a program: its files, and the values in them.

use std::collections::BTreeSet;

use super::code::CodeArgument;
use super::python::PythonToken;
use super::recognise::Recognise;
use super::traced::{Traced, Why};
use crate::Spelling;
use oomctl_base::word_list;

/// Names of the one constant that says which model a program trains, where no call that loads it can be read.
pub(super) const MODEL_NAMES: [&str; 9] = word_list(
    "model_name model_name_or_path model_id model_path base_model MODEL_NAME MODEL_ID BASE_MODEL
     MODEL",
);

/// The classes that are looked for, the parsers that fill them from the framework's options, and arguments of other calls.
#[derive(Debug, Default, Clone)]
pub(super) struct ConfigClasses<'a> {
    pub classes: BTreeSet<&'a str>,
    /// Those of them that count in programs which train nothing.
    pub generating: BTreeSet<&'a str>,
    pub parsers: BTreeSet<&'a str>,
    /// Flags that none of the classes takes.
    pub lacking: BTreeSet<&'a str>,
    pub arguments: Vec<&'a CodeArgument>,
}

impl<'a> ConfigClasses<'a> {
    /// Those of stacks.
    pub(super) fn of(stacks: &[&'a Recognise]) -> Self {
        let all = || stacks.iter().copied();
        Self {
            classes: all()
                .flat_map(|r| &r.configured_by)
                .map(String::as_str)
                .collect(),
            generating: all()
                .filter(|r| r.generates)
                .flat_map(|r| &r.configured_by)
                .map(String::as_str)
                .collect(),
            parsers: all()
                .flat_map(|r| &r.parsed_by)
                .map(String::as_str)
                .collect(),
            lacking: all()
                .flat_map(|r| &r.class_lacks)
                .map(String::as_str)
                .collect(),
            arguments: all().flat_map(|r| &r.arguments).collect(),
        }
    }

    /// Those that count in a program with these texts, which declares some of the classes itself.
    pub(super) fn of_program(
        &self,
        own: &BTreeSet<&str>,
        texts: &[&[PythonToken<'_>]],
        trains: bool,
    ) -> Self {
        let mut names = texts.iter().copied().flatten();
        let mut rest = self.clone();
        rest.classes.retain(|class| !own.contains(class));
        let others = &rest.classes - &self.generating;
        if trains || names.any(|t| others.contains(t.text)) {
            rest.classes = &rest.classes - &self.generating;
        }
        rest
    }
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
    /// Its option is not used as long as it has its default: none, 0, or a number below.
    pub is_off: bool,
    /// Its option takes a truth value as Python writes it.
    pub is_truth: bool,
    /// Its option turns it on where no value follows.
    pub may_take_value: bool,
    /// It is computed of another value that the program is given, and follows it.
    pub follows: bool,
    /// Its bytes are a literal that says nothing else, in a text that can be changed.
    pub is_own: bool,
    /// The only values that its option takes; empty where it takes others, or nothing says it.
    pub choices: Vec<String>,
}

impl CodeValue {
    /// Whether it is known, or an option or a variable gives it.
    pub(super) fn is_told(&self) -> bool {
        self.option.is_some() || self.value.known().is_some()
    }

    /// Whether another one means the same.
    pub(super) fn means(&self, other: &Self) -> bool {
        self.value.text() == other.value.text() && self.option == other.option
    }

    /// A number, a text, or a truth value.
    pub(super) fn literal(file: &PythonFile<'_>, token: &PythonToken<'_>) -> Self {
        let (from, to) = token.bytes();
        Self {
            is_own: file.can_change,
            ..Self::plain(file.content.slice(from, to))
        }
    }

    pub(super) fn plain(value: Traced) -> Self {
        Self {
            value,
            option: None,
            off: None,
            is_unset: false,
            is_off: false,
            is_truth: false,
            may_take_value: false,
            follows: false,
            is_own: false,
            choices: Vec::new(),
        }
    }
}

/// A file of the program: its text, its path, its tokens.
pub(super) struct PythonFile<'t> {
    pub content: Traced,
    pub path: &'t str,
    pub tokens: Vec<PythonToken<'t>>,
    /// Its text can be changed: the script writes it, or starts it by its path.
    pub can_change: bool,
    /// It is a module of settings, as far as its name says.
    pub is_of_settings: bool,
    /// It is the one that is started.
    pub is_program: bool,
}

impl PythonFile<'_> {
    /// Something between these bytes that is not known.
    pub(super) fn computed(&self, from: usize, to: usize, why: Why) -> Traced {
        let place = self.content.slice(from, to).place();
        let place = place.or_else(|| self.content.place());
        place.map_or_else(Traced::default, |span| Traced::computed("", span, why))
    }

    /// Whether a text has anything to say here.
    pub(super) fn matters(text: &str, wanted: &ConfigClasses<'_>) -> bool {
        let words = word_list::<24>(
            "hydra.main add_argument .add('- .add(\"- parse_args click typer from_pretrained environ safe_load OmegaConf .load(
             .backward( .fit( _dataloader merge_from_list merge_from_dict CfgNode DEFINE_config_file
             accumulation_steps per_device_ LightningCLI jsonargparse sys.argv",
        );
        // A file that only loads data has no settings of the loop.
        let calls = wanted.arguments.iter().map(|a| a.call.as_str());
        let calls = calls.filter(|call| *call != "DataLoader");
        let sets = wanted.classes.iter().chain(&wanted.parsers).copied();
        let mut known = words.into_iter().chain(calls).chain(sets);
        let known = known.any(|word| text.contains(word));
        known || MODEL_NAMES.iter().any(|name| text.contains(name))
    }
}
