//! What was understood of a submission, and the texts that it consists of.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::call::Call;
use crate::containers::Container;
use crate::traced::{Quote, Span, Traced};
use oomctl_base::line_and_column;

/// Words that name files.
const MAX_NAMED: usize = 256;

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
    /// It was submitted without oomctl: its environment may have had others.
    pub is_foreign: bool,
}

/// A text in which values can stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptSource {
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileRole {
    /// Runs it as a script of its own.
    Run,
    /// Takes its commands over.
    Sourced,
    /// Hands it to a program, as settings.
    Settings,
    /// Starts it as a Python program.
    Program,
    /// Imports it as a module of this name into the Python program in which the word stands, empty, where the program begins.
    Module(String),
}

/// A word that names a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedFile {
    /// Number of the file.
    pub file: usize,
    /// The word, or the part of it that is the path.
    pub word: Traced,
    /// What becomes of the file.
    pub role: FileRole,
    /// The container in which it is looked for.
    pub container: Option<Rc<Container>>,
}

impl NamedFile {
    /// A path as it is called where the word counts.
    ///
    /// # Errors
    /// A container does not show it there.
    pub(crate) fn seen(&self, path: String, workdir: &str) -> Result<String, String> {
        match &self.container {
            Some(container) => container.inside(&path, workdir),
            None => Ok(path),
        }
    }
}

/// What was understood of a submission.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// The texts that a `Span` numbers: the command line, the environment, the script, and the files that it uses.
    pub sources: Vec<ScriptSource>,
    /// The words of the command line.
    pub words: Vec<Span>,
    /// Programs that are started by a known launcher or known by name, in order.
    pub calls: Vec<Call>,
    /// Files that were asked for and not given, by the paths that the scripts name.
    pub wanted: BTreeSet<String>,
    /// Files of data among them, which give no setting.
    pub data: BTreeSet<String>,
    /// Files that would tell more and were not given, whether they are there or not.
    pub sought: BTreeSet<String>,
    /// Files that the scripts write themselves, with what they write.
    pub created: BTreeMap<String, Traced>,
    /// Files that the scripts write themselves, with text that is not known: what lies there now is not what the program reads.
    pub rewritten: BTreeSet<String>,
    /// Commands that nothing is known of and scripts that are not read, by their names without a path.
    pub unfollowed: BTreeSet<String>,
    /// Places at which something stands that is no shell as far as is known here.
    pub faults: Vec<Span>,
    /// Bytes that became the value of a variable, and the places at which it was used, the innermost first.
    pub uses: BTreeSet<(Span, Vec<Span>)>,
    /// The words that name files which were given.
    pub named: Vec<NamedFile>,
    /// What the job has of the environment of its submission.
    pub passed: Passed,
    /// Variables that the environment of the submission may have set, with the value that counts where it did not.
    pub open: BTreeMap<String, String>,
    /// What hands work to further jobs of the scheduler, which are not followed.
    pub submits: BTreeSet<String>,
    /// More is called than is followed.
    pub cut: bool,
}

impl Reading {
    /// A variable that no script sets, as the job inherits it.
    pub(crate) fn inherited(&self, name: &str) -> Option<Traced> {
        let ScriptSource { text, .. } = self.sources.get(ENVIRONMENT)?;
        let mut start = 0;
        for entry in text.split_inclusive('\0') {
            let value = entry
                .strip_prefix(name)
                .and_then(|rest| rest.strip_prefix('='));
            if let Some(value) = value {
                let value = value.trim_end_matches('\0');
                let at = start + name.len() + 1;
                return Some(Traced::literal(ENVIRONMENT, at, value, Quote::Raw));
            }
            start += entry.len();
        }
        None
    }

    /// The files as the job finds them: those that the scripts write have their new text, or none where it is not known.
    pub(crate) fn with_created<'f>(
        &self,
        given: &'f BTreeMap<String, String>,
    ) -> Cow<'f, BTreeMap<String, String>> {
        let mut files = Cow::Borrowed(given);
        for (path, text) in &self.created {
            match text.known() {
                Some(text) => files.to_mut().insert(path.clone(), text),
                None => files.to_mut().remove(path),
            };
        }
        for path in self
            .rewritten
            .iter()
            .filter(|path| given.contains_key(*path))
        {
            files.to_mut().remove(path);
        }
        files
    }

    /// `file:line` of some bytes; of the command line and the environment the name alone.
    pub fn place(&self, span: Span) -> Option<String> {
        place(&self.sources, span)
    }

    /// The line on which some bytes begin, without blanks around it; empty where there is none.
    pub fn line(&self, span: Span) -> &str {
        let text = self.sources.get(span.file).map_or("", |s| &s.text);
        let Some(before) = text.get(..span.start) else {
            return "";
        };
        let begin = before.rfind('\n').map_or(0, |at| at + 1);
        let rest = text.get(begin..).unwrap_or_default();
        rest.lines().next().unwrap_or_default().trim()
    }

    /// The number of a file, which is remembered.
    pub(crate) fn add_source(&mut self, path: &str, text: &str) -> usize {
        if let Some(number) = self.number_of(path) {
            return number;
        }
        self.sources.push(ScriptSource {
            path: path.to_owned(),
            text: text.to_owned(),
        });
        self.sources.len() - 1
    }

    /// The number of a file that is remembered.
    pub(crate) fn number_of(&self, path: &str) -> Option<usize> {
        let mut given = self.sources.iter().skip(SCRIPT);
        Some(given.position(|s| s.path == path)? + SCRIPT)
    }

    /// Remembers a word that names a file which is known, and gives the file's number.
    pub(crate) fn add_named(
        &mut self,
        path: &str,
        word: &Traced,
        role: FileRole,
        container: Option<&Rc<Container>>,
    ) -> Option<usize> {
        let file = self.number_of(path)?;
        let named = NamedFile {
            file,
            word: word.clone(),
            role,
            container: container.cloned(),
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

/// Which variables a job inherits, and which its submission gives it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Passed {
    /// It does not inherit all of them, but these.
    only: Option<BTreeSet<String>>,
    /// Those that the option gives (`--export=ALL,X=1`).
    pub(super) given: Vec<(String, Traced)>,
    /// Which of them there were is not known.
    pub(super) is_foreign: bool,
}

impl Passed {
    /// What the option of the submission says.
    pub(super) fn of(option: &Traced) -> Self {
        let text = option.text();
        let (mut only, mut given, mut at) = (BTreeSet::new(), Vec::new(), 0);
        for word in text.split(',') {
            match word.split_once('=') {
                Some((name, value)) => {
                    let start = at + name.len() + 1;
                    given.push((name.to_owned(), option.slice(start, start + value.len())));
                }
                None => drop(only.insert(word.to_owned())),
            }
            at += word.len() + 1;
        }
        let inherits_all = only.contains("ALL");
        Self {
            only: (!inherits_all).then_some(only),
            given,
            is_foreign: false,
        }
    }

    /// Whether a variable that is not known to be set may be set all the same.
    pub(crate) fn may_set(&self, name: &str) -> bool {
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        is_name && self.is_foreign && self.inherits(name)
    }

    /// Whether the job has a variable of the submission's environment.
    pub fn inherits(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(name))
    }
}

/// `file:line` of some bytes; of the command line and the environment the name alone.
pub(crate) fn place(sources: &[ScriptSource], span: Span) -> Option<String> {
    let source = sources.get(span.file)?;
    if span.file < SCRIPT {
        return Some(source.path.clone());
    }
    let (line, _) = line_and_column(&source.text, span.start);
    Some(format!("{}:{line}", source.path))
}
