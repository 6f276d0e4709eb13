//! What a submitted script starts, with which words, without running any of it.
//!
//! Rule: a script's variables are followed as a shell would, as far as their values stand in the text. Where ways
//! part and come together again, only what is the same on both is known.

mod arithmetic;
mod blocks;
mod call;
mod commands;
mod conditions;
mod container;
mod defaults;
mod doc;
mod expand;
mod launch;
mod looked_up;
mod paths;
mod reading;
mod redirected;
mod rewritten;
mod scope;
mod set;
mod settings;
mod settings_file;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::launchers::Launchers;
use super::preface::is_shell;
use super::sbatch::{VARIABLES, directives, wins};
use super::traced::{Quote, Span, Traced, Why};
use super::{requested, shell};
use doc::Doc;
use scope::{ShellScope, VariableValue};

pub use call::{Arg, ArgumentsEnd, Call, CallTarget, OutputFile, RefusedWord, UnreadFile};
pub(crate) use paths::HERE;
pub use paths::{folder_of_file, joined};
pub use reading::{
    COMMAND_LINE, ENVIRONMENT, FileRole, NamedFile, Passed, Reading, SCRIPT, ScriptSource,
    Submission,
};
pub(crate) use reading::{SELF, place};
pub use redirected::{ARRAY, JOB, JOB_NAME, TASK};
pub use settings_file::{Folder, Reached, SettingsFile};

/// Commands that are followed, of all scripts together.
const MAX_STEPS: usize = 20_000;
/// Bytes that are copied to follow them: the text of each word, what branches have of variables, files.
const MAX_WORK: usize = 64 << 20;
/// Scripts, functions and strings of commands that call each other.
const MAX_CALLS_DEEP: usize = 12;
/// Programs that are remembered.
const MAX_CALLS: usize = 64;
/// Largest script, in bytes.
const MAX_SCRIPT: usize = 1 << 20;

/// Follows a submission. `files` are texts by the path that scripts name them with, relative to the folder in
/// which the job runs; `names` are programs of interest beside those of the launchers.
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
        scope: ShellScope::default(),
        depth: 0,
        steps: 0,
        work: 0,
        settings: BTreeMap::new(),
        muted: 0,
        quiet: false,
        requested: BTreeMap::new(),
        around: Vec::new(),
        carriers: Vec::new(),
        outputs: Vec::new(),
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
    scope: ShellScope,
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
    /// Where the commands begin that run the present script or text, the outermost first.
    carriers: Vec<Span>,
    /// Where the streams of the present command go, the outermost first.
    outputs: Vec<OutputFile>,
    /// What the variables were before that the functions being called have of their own, the innermost last.
    locals: Vec<BTreeMap<String, Option<VariableValue>>>,
}

impl Walker<'_> {
    fn start(&mut self, submission: &Submission) {
        let before = submission.options.iter().chain([&submission.script]);
        let mut text = String::new();
        for word in before.chain(&submission.args) {
            let start = text.len();
            text.push_str(word);
            self.out
                .words
                .push(Span::new(COMMAND_LINE, start..text.len()));
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
            self.out.sources.push(ScriptSource {
                path: path.to_owned(),
                text,
            });
        }
        match self.source(&submission.script) {
            Some(file) => {
                self.take_over_submission(submission.is_foreign);
                // What another language says is not read as a shell's.
                if is_shell(&self.out.sources[file].text) {
                    self.run_file(file);
                }
            }
            None => {
                self.out.wanted.insert(submission.script.clone());
            }
        }
    }

    /// What the options and the environment of the submission mean for the variables of its script.
    fn take_over_submission(&mut self, is_foreign: bool) {
        for (name, _) in VARIABLES {
            self.inherited_text(name);
        }
        let options = directives(&self.out);
        let export = wins(&options, "export").and_then(|d| d.value.as_ref());
        self.out.passed = export.map(Passed::of).unwrap_or_default();
        self.out.passed.is_foreign = is_foreign;
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
            self.scope.set(&name, VariableValue::Text(value), false);
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
        let container = self.scope.container.as_ref();
        self.out.add_named(path, word, role, container)
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
