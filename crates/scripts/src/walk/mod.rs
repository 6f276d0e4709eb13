//! What a submitted script starts, with which words, without running any of it.
//!
//! Rule: a script's variables are followed as a shell would, as far as their values stand in the text. Where ways
//! part and come together again, only what is the same on both is known.

mod arithmetic;
mod blocks;
mod commands;
mod expand;
mod launch;
mod passed;
mod paths;
mod scope;
mod set;
mod settings;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::launchers::Launchers;
use super::requested;
use super::sbatch::VARIABLES;
use super::shell::{self, Script};
use super::traced::{Quote, Span, Traced, Why};
use scope::{Scope, Variable};

pub use launch::{Call, End, Target};
pub use passed::Passed;
pub use paths::{folder_of_file, joined};
pub use scope::Arg;
pub use settings::{Folder, Reached, SettingsFile};

/// Commands that are followed, of all scripts together.
const MAX_STEPS: usize = 20_000;
/// Bytes that are copied to follow them: the text of each word, what branches have of variables, files.
const MAX_WORK: usize = 64 << 20;
/// Scripts, functions and strings of commands that call each other.
const MAX_CALLS_DEEP: usize = 12;
/// Programs that are remembered.
const MAX_CALLS: usize = 64;
/// Words that name files.
const MAX_NAMED: usize = 256;
/// Largest script, in bytes.
const MAX_SCRIPT: usize = 1 << 20;

/// The variable that stands in a copy of a script for the name of the original.
pub(crate) const SELF: &str = "oomctl_self";

/// How a job was submitted, or is to be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Submission {
    /// Options of sbatch before the script.
    pub options: Vec<String>,
    /// The script, as it was named.
    pub script: String,
    /// What stands behind it, which is handed to the script.
    pub args: Vec<String>,
    /// Variables of the environment in which it is submitted.
    pub variables: BTreeMap<String, String>,
}

/// A text in which values can stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Its path as the scripts name it.
    pub path: String,
    /// What it holds.
    pub text: String,
}

/// Number of the text that holds the words of the command line, each ended by a NUL byte.
pub const COMMAND_LINE: usize = 0;
/// Number of the text that holds those variables of the environment that scripts use, each ended by a NUL byte.
pub const ENVIRONMENT: usize = 1;
/// Number of the submitted script.
pub const SCRIPT: usize = 2;

/// What a script does with a file that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileRole {
    /// Runs it as a script of its own.
    Run,
    /// Takes its commands over.
    Sourced,
    /// Hands it to a program, as settings.
    Settings,
}

/// A word that names a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// Number of the file.
    pub file: usize,
    /// The word, or the part of it that is the path.
    pub word: Traced,
    /// What becomes of the file.
    pub role: FileRole,
}

/// What was understood of a submission.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// The texts that a `Span` numbers: the command line, the environment, the script, and the files that it uses.
    pub sources: Vec<Source>,
    /// The words of the command line.
    pub words: Vec<Span>,
    /// Programs that are started by a known launcher or known by name, in order.
    pub calls: Vec<Call>,
    /// Files that were asked for and not given, by the paths that the scripts name.
    pub wanted: BTreeSet<String>,
    /// Files that would tell more and were not given, whether they are there or not.
    pub sought: BTreeSet<String>,
    /// Files that the scripts write themselves, with what they write.
    pub created: BTreeMap<String, Traced>,
    /// Places at which something stands that is no shell as far as is known here.
    pub faults: Vec<Span>,
    /// Bytes that became the value of a variable, and the places at which it was used, the innermost first.
    pub uses: BTreeSet<(Span, Vec<Span>)>,
    /// The words that name files which were given.
    pub named: Vec<Named>,
    /// What the job has of the environment of its submission.
    pub passed: Passed,
    /// More is called than is followed.
    pub cut: bool,
}

impl Reading {
    /// The number of a file, which is remembered.
    pub(crate) fn add_source(&mut self, path: &str, text: &str) -> usize {
        let given = self.sources.iter().skip(SCRIPT);
        if let Some(at) = given.into_iter().position(|s| s.path == path) {
            return at + SCRIPT;
        }
        self.sources.push(Source {
            path: path.to_owned(),
            text: text.to_owned(),
        });
        self.sources.len() - 1
    }

    /// Remembers a word that names a file which is known, and gives the file's number.
    pub(crate) fn add_named(&mut self, path: &str, word: &Traced, role: FileRole) -> Option<usize> {
        let mut given = self.sources.iter().skip(SCRIPT);
        let file = given.position(|s| s.path == path)? + SCRIPT;
        let named = Named {
            file,
            word: word.clone(),
            role,
        };
        if !self.named.contains(&named) {
            match self.named.len() < MAX_NAMED {
                true => self.named.push(named),
                false => self.cut = true,
            }
        }
        Some(file)
    }
}

/// A script or a string of commands that is being followed.
#[derive(Debug, Default)]
pub(crate) struct Doc {
    pub traced: Traced,
    pub text: String,
    pub script: Script,
    /// The folder of the script's file.
    pub folder: String,
}

/// Follows a submission. `files` are texts by the path that scripts name them with, relative to the folder in
/// which the job runs; `names` are programs of interest beside those of the launchers.
#[must_use]
pub fn follow(
    submission: &Submission,
    files: &BTreeMap<String, String>,
    launchers: &Launchers,
    names: &BTreeSet<String>,
) -> Reading {
    let mut walker = Walker {
        files,
        launchers,
        names,
        variables: &submission.variables,
        out: Reading::default(),
        scope: Scope::default(),
        depth: 0,
        steps: 0,
        work: 0,
        settings: BTreeMap::new(),
        muted: 0,
        quiet: false,
        requested: BTreeMap::new(),
        around: Vec::new(),
        locals: Vec::new(),
    };
    walker.start(submission);
    walker.out
}

pub(super) struct Walker<'a> {
    files: &'a BTreeMap<String, String>,
    launchers: &'a Launchers,
    names: &'a BTreeSet<String>,
    variables: &'a BTreeMap<String, String>,
    out: Reading,
    scope: Scope,
    depth: usize,
    steps: usize,
    work: usize,
    /// What the files of settings say that were named so far.
    settings: BTreeMap<String, Option<SettingsFile>>,
    /// Above 0 while commands are followed for what they do to variables only.
    muted: usize,
    /// While words are read that are only printed.
    quiet: bool,
    /// Variables that Slurm sets to what the job asks for.
    requested: BTreeMap<&'static str, String>,
    /// Words of the launchers that started the present script, the outermost first.
    around: Vec<Arg>,
    /// What the variables were before that the functions being called have of their own, the innermost last.
    locals: Vec<BTreeMap<String, Option<Variable>>>,
}

impl Walker<'_> {
    fn start(&mut self, submission: &Submission) {
        let before = submission.options.iter().chain([&submission.script]);
        let mut text = String::new();
        for word in before.chain(&submission.args) {
            let start = text.len();
            text.push_str(word);
            self.out.words.push(Span {
                file: COMMAND_LINE,
                start,
                end: text.len(),
            });
            text.push('\0');
        }
        let args = self.out.words[submission.options.len() + 1..].to_vec();
        let words = args.iter().map(|s| &text[s.start..s.end]);
        let traced = words.zip(&args).map(|(word, span)| {
            Arg::of(Traced::literal(COMMAND_LINE, span.start, word, Quote::Raw))
        });
        self.scope.args = traced.collect();
        self.scope.folder = Some(String::new());
        for (path, text) in [("command line", text), ("environment", String::new())] {
            self.out.sources.push(Source {
                path: path.to_owned(),
                text,
            });
        }
        match self.source(&submission.script) {
            Some(file) => {
                self.take_over_submission();
                self.run_file(file);
            }
            None => {
                self.out.wanted.insert(submission.script.clone());
            }
        }
    }

    /// What the options and the environment of the submission mean for the variables of its script.
    fn take_over_submission(&mut self) {
        for (name, _) in VARIABLES {
            self.inherited_text(name);
        }
        self.out.passed = Passed::of(&self.out);
        self.requested = requested::variables(&self.out);
        for (name, value) in self.out.passed.given.clone() {
            // An option of the submission stays as it is: another value is given where the variable is used.
            let span = value.place();
            self.out.uses.extend(span.map(|span| (span, vec![span])));
            // Slurm's manual and its code differ about which of two values counts.
            let code = self.is_inherited(&name) || value.text().contains(['\'', '"']);
            let value = match span.filter(|_| code) {
                Some(span) => Traced::computed(&value.text(), span, Why::Environment),
                None => value,
            };
            self.scope.set(&name, Variable::Text(value), false);
            self.scope.exported.insert(name);
        }
    }

    /// Counts bytes that are copied; false where it is more than is followed.
    pub(super) fn spend(&mut self, bytes: usize) -> bool {
        self.work = self.work.saturating_add(bytes);
        let fits = self.work <= MAX_WORK;
        self.out.cut |= !fits;
        fits
    }

    /// The number of a file that was given.
    pub(super) fn source(&mut self, path: &str) -> Option<usize> {
        let text = self.files.get(path)?;
        Some(self.out.add_source(path, text))
    }

    /// The number of a file that was given, which a word of a script names.
    pub(super) fn named(&mut self, path: &str, word: &Traced, role: FileRole) -> Option<usize> {
        self.source(path)?;
        self.out.add_named(path, word, role)
    }

    /// Runs a script in the present scope.
    fn run_file(&mut self, file: usize) {
        let source = &self.out.sources[file];
        if source.text.len() > MAX_SCRIPT {
            self.out.cut = true;
            return;
        }
        let (folder, traced) = (
            folder_of_file(&source.path).to_owned(),
            Traced::file(file, &source.text),
        );
        self.run_text(traced, folder);
    }

    /// Runs a script or a string of commands in the present scope.
    fn run_text(&mut self, traced: Traced, folder: String) {
        if self.depth >= MAX_CALLS_DEEP {
            self.out.cut = true;
            return;
        }
        let text = traced.text();
        if !self.spend(traced.cost()) {
            return;
        }
        let script = shell::read(&text);
        let mut doc = Doc {
            traced,
            text,
            script,
            folder,
        };
        for fault in doc.script.faults.clone() {
            let span = doc.place(fault, fault, false).0;
            if self.out.faults.len() < 16 && !self.out.faults.contains(&span) {
                self.out.faults.push(span);
            }
        }
        let blocks = std::mem::take(&mut doc.script.blocks);
        self.depth += 1;
        self.run_blocks(&blocks, &Rc::new(doc));
        self.depth -= 1;
    }

    /// Whether a variable comes with the job's environment.
    pub(super) fn is_inherited(&self, name: &str) -> bool {
        self.variables.contains_key(name) && self.out.passed.inherits(name)
    }

    /// The text of a variable of the environment; it becomes a place of its own, so that it can be changed.
    pub(super) fn inherited_text(&mut self, name: &str) -> Option<Traced> {
        let value = self
            .variables
            .get(name)
            .filter(|_| self.is_inherited(name))?;
        let value = value.clone();
        let text = &mut self.out.sources[ENVIRONMENT].text;
        let head = format!("{name}=");
        let mut at = 0;
        for entry in text.split_inclusive('\0') {
            if entry.starts_with(&head) {
                break;
            }
            at += entry.len();
        }
        if at == text.len() {
            text.push_str(&format!("{head}{value}\0"));
        }
        let start = at + head.len();
        Some(Traced::literal(ENVIRONMENT, start, &value, Quote::Raw))
    }
}
