//! A program that is started, and the words that it is handed.

use std::collections::BTreeMap;

use super::settings_file::{ConfigOptions, SettingsFile};
use crate::traced::{Quote, Span, Traced};

/// A program that is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// All words, the launchers' first.
    pub words: Vec<Arg>,
    /// What is started.
    pub target: CallTarget,
    /// Number of the first word that is handed to it.
    pub args: usize,
    /// Names of the launchers, outermost first.
    pub launchers: Vec<String>,
    /// Number of the first word of each of them.
    pub launched: Vec<usize>,
    /// Words of the launchers that start the script in which it stands, outermost first.
    pub around: Vec<Arg>,
    /// Variables of its environment that scripts set, or that they inherit and use.
    pub variables: BTreeMap<String, Traced>,
    /// The folder in which it runs, relative to that of the job.
    pub folder: Option<String>,
    /// The script that is started, relative to the folder of the job, where that is known.
    pub program: Option<String>,
    /// It drives several GPUs from one process, as its text shows.
    pub one_process: bool,
    /// What its words say of a configuration that it composes itself.
    pub config: ConfigOptions,
    /// Files of settings, in the order in which they count: those among the words, and those that they name.
    pub settings: Vec<SettingsFile>,
    /// Files of settings among the words that were not given, or whose format is not read: what they say is not
    /// known.
    pub unread: Vec<String>,
    /// The same of those that what starts the program reads (accelerate's): they say nothing of the program's options.
    pub unread_of_launcher: Vec<String>,
    /// Files that others name by a key and that are not read: what keys of their own say is not known.
    pub unread_beside: Vec<String>,
    /// The options that name those of them that stand among the words, without dashes, by path.
    pub unread_options: BTreeMap<String, String>,
    /// Where the command begins, for a variable before it; None where it stands in several places.
    pub start: Option<Span>,
    /// Where further words are put; None where the command appears in several places.
    pub end: Option<ArgumentsEnd>,
}

impl Call {
    /// All files of settings that are not read, whoever reads them.
    pub fn all_unread(&self) -> impl Iterator<Item = &String> {
        let of_program = self.unread.iter().chain(&self.unread_of_launcher);
        of_program.chain(&self.unread_beside)
    }
}

/// The end of a command's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgumentsEnd {
    /// Behind the last word.
    pub span: Span,
    /// The quotes around the command.
    pub quote: Quote,
    /// What stands between two words there.
    pub separator: String,
    /// Where the words before it came through variables: the last bytes of them, the uses on the way up to that place, the
    /// innermost first, and all uses.
    pub through: Option<(Span, Vec<Span>, Vec<Span>)>,
}

/// What is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallTarget {
    /// A program, by its name without a path.
    Program(String),
    /// A script, by its path.
    Script(String),
    /// A module, by its dotted name.
    Module(String),
    /// Code among the words.
    Code,
}

/// A word of a command, or an element of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arg {
    /// Its text.
    pub text: Traced,
    /// It is there only under a condition, or may be several words.
    pub maybe: bool,
}

impl Arg {
    pub(super) fn of(text: Traced) -> Self {
        Self { text, maybe: false }
    }
}
