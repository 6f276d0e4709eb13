//! By what the programs of a training stack are known.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::code::{CodeArgument, CodeRule};

/// By what a program of a framework is known. A name that ends in `*` stands for all that begin so.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Recognise {
    /// Modules (`python -m NAME`).
    pub modules: Vec<String>,
    /// Programs, without their path; perhaps with the first word behind them (`mytool train`).
    pub programs: Vec<String>,
    /// Names of scripts, without their path.
    pub scripts: Vec<String>,
    /// Its programs are examples with a training loop of their own, which people copy and change.
    pub own_loops: bool,
    /// Files of its package, or beginnings of their paths, that stand in tracebacks of such runs and of no others of the framework.
    pub frames: Vec<String>,
    /// Keys and flags that no other framework has.
    pub keys: Vec<String>,
    /// Values that tell it from others with the same keys: where the command gives such a key, it has one of these.
    pub values: BTreeMap<String, Vec<String>>,
    /// Launchers, for a preset of any program that they start.
    pub launchers: Vec<String>,
    /// Programs that drive several GPUs from one process (`nn.DataParallel`), which their Python file shows; no others.
    pub one_process: bool,
    /// Names of its classes: a Python program that uses one is its program.
    pub uses: Vec<String>,
    /// Classes whose keyword arguments have the names of its options: a program that fills one itself reads no options for it.
    /// Using one counts as much as a key.
    pub configured_by: Vec<String>,
    /// It generates and trains nothing: a program that trains is another's, whichever of these classes it uses.
    pub generates: bool,
    /// Flags of its knobs that such a class does not take.
    pub class_lacks: Vec<String>,
    /// Parsers that fill such a class from the options.
    pub parsed_by: Vec<String>,
    /// Values of knobs that the program's Python text shows by the names that it uses, where nothing else gives them.
    pub code: BTreeMap<String, Vec<CodeRule>>,
    /// Arguments of calls in the program's Python text that say what one of its flags says elsewhere.
    pub arguments: Vec<CodeArgument>,
    /// Keys of its files of settings that name a further one, as from the folder in which it runs.
    pub file_keys: Vec<String>,
    /// The key of its files of settings that names those below them, as from their own folder.
    pub below_key: Option<String>,
    /// Modules and programs that begin at their start each time, whatever checkpoints there are.
    pub begins_anew: Vec<String>,
    /// How it is started with a file of settings, whose name stands behind, where it starts its processes itself.
    pub start_with_file: Option<String>,
    /// Words of its command win over its files, and say what no file has a place for.
    pub words_win: bool,
    /// How its model is given, in the forms of `spellings`.
    pub model: Vec<String>,
    /// Keys and flags that make no difference to the memory of a GPU; one that ends in `*` stands for all that begin so.
    pub indifferent: Vec<String>,
    /// Names of configurations that come with it: what they say is what the knobs have anyway.
    pub configs: Vec<String>,
}

impl Recognise {
    /// Whether it is for any program that a launcher starts, which is known by nothing of its own.
    pub fn is_any(&self) -> bool {
        !self.launchers.is_empty() && !self.one_process
    }
}

/// Whether one of the keys that name files ends in an option: what the key would name, the option names as well.
pub(crate) fn ends_a_key<'k>(keys: impl IntoIterator<Item = &'k String>, option: &str) -> bool {
    let mut keys = keys.into_iter();
    keys.any(|key| key.rsplit('.').next() == Some(option))
}

/// What a part of a name begins with that is about settings.
const SETTINGS: [&str; 14] = [
    "conf", "cfg", "arg", "setting", "option", "opt", "yaml", "yml", "hparam", "hyp", "param",
    "recipe", "preset", "exp",
];

/// Whether the name of an option or of a file is about settings, as far as its words say.
pub(crate) fn is_of_settings(name: &str) -> bool {
    let mut parts = name.split(['_', '-', '.', '+']);
    parts.any(|part| SETTINGS.iter().any(|word| part.starts_with(word)))
}

impl Recognise {
    /// The names that count in the text of a program.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let rules = self.code.values().flatten();
        let of_code = rules.flat_map(|rule| rule.names.iter().chain(&rule.unless));
        let classes = self.uses.iter().chain(&self.configured_by);
        let classes = classes
            .chain(&self.parsed_by)
            .chain(of_code)
            .map(String::as_str);
        classes.chain(self.packages())
    }

    /// Packages of its modules.
    pub(crate) fn packages(&self) -> impl Iterator<Item = &str> {
        self.modules.iter().map(|module| package(module))
    }

    /// Whether a module is of one of its packages.
    pub fn has_module(&self, module: &str) -> bool {
        self.packages().any(|own| own == package(module))
    }

    /// Whether a key or flag makes no difference to the memory of a GPU, as far as is known.
    pub fn is_indifferent(&self, key: &str) -> bool {
        self.indifferent.iter().any(|known| is_key_of(known, key))
    }
}

/// The package of a module, or of a pattern for modules.
pub(super) fn package(module: &str) -> &str {
    module.split('.').next().unwrap_or(module)
}

/// Whether a key, parameter or flag is one that a preset names; a name that ends in `*` stands for all that begin so.
pub fn is_key_of(known: &str, key: &str) -> bool {
    let plain = |key: &str| {
        key.trim_start_matches(['-', '+'])
            .trim_end_matches('=')
            .replace('-', "_")
    };
    match known.strip_suffix('*') {
        Some(start) => plain(key).starts_with(&plain(start)),
        None => plain(known) == plain(key),
    }
}
