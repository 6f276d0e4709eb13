//! Programs that start other programs, as data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::containers::ContainerOptions;

/// What is known of launchers (`presets/launchers/*.yaml`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Launchers {
    /// Programs that start what stands behind their options.
    pub launchers: Vec<Launcher>,
}

/// A program that starts another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Launcher {
    /// Its names; one that ends in `*` stands for all that begin so.
    pub programs: Vec<String>,
    /// The words behind the name without which it is no launcher (`launch`).
    #[serde(default)]
    pub command: Vec<String>,
    /// Options without a value; all others take one. Not with `values`.
    #[serde(default)]
    pub switches: Option<Vec<String>>,
    /// Options with a value; all others take none.
    #[serde(default)]
    pub values: Vec<String>,
    /// Words without a dash that stand before what is started, such as a container's image.
    #[serde(default)]
    pub words: usize,
    /// The word between several programs that it starts together.
    #[serde(default)]
    pub between: Option<String>,
    /// Keys of its files of settings that name a further one (`section.key`).
    #[serde(default)]
    pub file_keys: Vec<String>,
    /// What is started.
    pub starts: Starts,
    /// Options behind which the name of a module stands instead.
    #[serde(default)]
    pub module: Vec<String>,
    /// Options behind which code stands instead.
    #[serde(default)]
    pub code: Vec<String>,
    /// `NAME=value` before what is started sets a variable.
    #[serde(default)]
    pub variables: bool,
    /// Options that name files for what its programs print.
    #[serde(default)]
    pub outputs: Vec<String>,
    /// The container that it starts.
    #[serde(default)]
    pub container: Option<ContainerOptions>,
    /// What a measurement of the program does with it.
    #[serde(default)]
    pub measured: MeasuredLauncher,
}

/// What a measurement on phantom GPUs does with a launcher.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MeasuredLauncher {
    /// Runs it.
    #[default]
    Kept,
    /// Leaves it out: it changes nothing of what the program asks for.
    LeftOut,
    /// Leaves it out, and plays one of the processes that it would start.
    OneProcess,
    /// Cannot run it, nor do without.
    Needed,
}

/// What a launcher starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Starts {
    /// Any program.
    Program,
    /// A script of its own language.
    Script,
    /// A script of the shell.
    Shell,
}

/// What an option of a launcher is followed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Follows {
    Nothing,
    Value,
    Module,
    Code,
}

impl Launchers {
    /// The launcher that these words begin with, and how many of them name it.
    pub(super) fn find(&self, words: &[String]) -> Option<(&Launcher, usize)> {
        let name = words.first()?.rsplit('/').next()?;
        let named = |l: &&Launcher| {
            let here = l.programs.iter().any(|p| match p.strip_suffix('*') {
                Some(start) => name.starts_with(start),
                None => name == p,
            });
            here && words[1..].starts_with(&l.command)
        };
        let launcher = self.launchers.iter().find(named)?;
        Some((launcher, 1 + launcher.command.len()))
    }
}

impl Launcher {
    /// What the next word after an option is. `option` begins with a dash.
    pub(super) fn follows(&self, option: &str) -> Follows {
        let has = |all: &[String]| all.iter().any(|o| o == option);
        if has(&self.module) {
            Follows::Module
        } else if has(&self.code) {
            Follows::Code
        } else if option.contains('=') {
            Follows::Nothing
        } else if let Some(switches) = &self.switches {
            match has(switches) || !self.stands_alone(option) {
                true => Follows::Nothing,
                false => Follows::Value,
            }
        } else if has(&self.values) {
            Follows::Value
        } else {
            Follows::Nothing
        }
    }

    /// A short option with its value in the same word (`-n4`) takes no further one.
    fn stands_alone(&self, option: &str) -> bool {
        option.starts_with("--") || option.len() == 2
    }
}
