//! How a knob is handed over, and who reads it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use oomctl_base::word_list;

/// Parts of a name that are about an evaluation.
pub(super) const OF_EVALUATION: [&str; 6] = word_list("eval evaluation val valid validation test");

/// Who reads a file of settings or an option: what one of them is told is nothing that another one knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Reader")]
pub enum SettingsReader {
    /// Nobody else has one of that name: it counts wherever it stands. An option does not stand in a library's file.
    #[default]
    Any,
    /// The program.
    Program,
    /// What starts its processes.
    Launcher,
    /// A library that the program hands a file of its own to.
    Library,
}

impl SettingsReader {
    /// Whether it looks at the options of the launcher, or else at those of the program.
    pub fn reads_words(self, of_launcher: bool) -> bool {
        match self {
            Self::Any => true,
            Self::Program => !of_launcher,
            Self::Launcher => of_launcher,
            Self::Library => false,
        }
    }

    /// Whether it looks for a knob of this spelling in a file that is read by `file`.
    pub fn reads_file(self, spelling: &Spelling, file: Self) -> bool {
        match self {
            Self::Any => file != Self::Library || matches!(spelling, Spelling::Key(_)),
            reader => reader == file,
        }
    }
}

/// How a knob is spelled when it is handed to the program. At most one is given; a knob without a
/// spelling is used by templates only.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Spelling {
    /// A Hydra override path: `a.b.c=value`.
    Hydra(String),
    /// A Hydra override that adds a key which the schema lacks: `+a.b.c=value`.
    HydraAdd(String),
    /// A Hydra override that sets a key whether the schema has it or not: `++a.b.c=value`.
    HydraForce(String),
    /// A command-line flag with its dashes, value as the next word: `--batch_size 8`. A flag that
    /// ends in `=` takes the value in the same word.
    Flag(String),
    /// A flag without a value, given when the knob is true.
    Switch(String),
    /// An environment variable.
    Env(String),
    /// A value in a YAML file of the user's, of which the program gets a copy.
    Yaml(YamlPlace),
    /// A key, with dots between, in a file of settings that a script of the user's names. It is found and changed
    /// there, and never handed over by us.
    Key(String),
}

impl Spelling {
    /// A spelling as it is written in `--knob` and in a preset's `spellings`: `--flag` and `--flag=` as a flag,
    /// `switch:--flag` as a flag without a value, `env:NAME` as a variable, `key:a.b` as a key of a file of settings,
    /// anything else as the key of `key=value`.
    pub fn read(text: &str) -> Self {
        let (kind, rest) = text.split_once(':').unwrap_or(("", text));
        match kind {
            "env" => Self::Env(rest.to_owned()),
            "key" => Self::Key(rest.to_owned()),
            "switch" => Self::Switch(rest.to_owned()),
            _ if text.starts_with('-') => Self::Flag(text.to_owned()),
            _ => Self::Hydra(text.trim_end_matches('=').to_owned()),
        }
    }

    /// The path, flag or variable without decoration.
    pub fn name(&self) -> &str {
        match self {
            Self::Hydra(n)
            | Self::HydraAdd(n)
            | Self::HydraForce(n)
            | Self::Flag(n)
            | Self::Switch(n)
            | Self::Env(n)
            | Self::Key(n) => n,
            Self::Yaml(place) => &place.path,
        }
    }
}

/// Where in a YAML file a value stands.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct YamlPlace {
    /// Name of one of the preset's files that are copies.
    pub file: String,
    /// Keys from the top, with dots between; items of lists by their number, from 0; a key with a dot in it in
    /// double quotes: `trainer.models.0."a.b"`.
    pub path: String,
    /// What becomes of a value for which the file has no key.
    #[serde(default)]
    pub missing: Missing,
}

/// What becomes of a value for which the file has no key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// The key is added to its mapping: the program knows it and has a default.
    #[default]
    Add,
    /// It is refused: the program knows the key only where the file has it.
    Refuse,
}

impl YamlPlace {
    /// The keys of the path.
    pub fn keys(&self) -> Vec<String> {
        let mut keys = vec![String::new()];
        let mut quoted = false;
        for c in self.path.chars() {
            match c {
                '"' => quoted = !quoted,
                '.' if !quoted => keys.push(String::new()),
                c => keys
                    .iter_mut()
                    .next_back()
                    .into_iter()
                    .for_each(|k| k.push(c)),
            }
        }
        keys
    }
}

/// The names by which files of settings have a knob of this spelling.
pub(super) fn setting_names(spelling: &Spelling) -> Vec<String> {
    match spelling {
        Spelling::Hydra(key)
        | Spelling::HydraAdd(key)
        | Spelling::HydraForce(key)
        | Spelling::Key(key) => vec![key.clone()],
        Spelling::Flag(flag) | Spelling::Switch(flag) => {
            let name = flag.rsplit(' ').next().unwrap_or(flag);
            let name = name.trim_start_matches('-').trim_end_matches('=');
            vec![name.replace('-', "_"), name.to_owned()]
        }
        Spelling::Yaml(place) => vec![place.path.clone()],
        Spelling::Env(_) => Vec::new(),
    }
}

/// `--batch-size` is `--batch_size`, as most parsers of arguments have it.
pub fn same_flag(word: &str, flag: &str) -> bool {
    let alike = || word.chars().map(plain).eq(flag.chars().map(plain));
    word == flag || word.starts_with('-') && word.len() == flag.len() && alike()
}

/// The name under which Python's parsers of arguments keep the value of a flag: `batch_size` for `--batch-size=`.
pub(super) fn attribute(flag: &str) -> String {
    flag.trim_matches(['-', '=']).replace('-', "_")
}

/// A flag in the form in which all that are the same are equal.
pub(super) fn plain_flag(flag: &str) -> String {
    flag.chars().map(plain).collect()
}

fn plain(c: char) -> char {
    if c == '_' { '-' } else { c }
}
