//! Errors as text and exit code. The one place that knows both.

use std::fmt::Write as _;
use std::path::Path;

use super::file_hints::mend_file;
use super::style::{BAD, DIM, Paint, WARN};
use crate::core::config::ConfigError;
use crate::core::exit::Exit;
use crate::drive::DriveError;
use crate::drive::launch::LaunchError;
use crate::io::files::FileError;
use crate::io::ledger::LedgerError;
use crate::io::library::LibraryError;
use oomctl_base::{Origin, Problem, ProblemPlace, Refusal, meant};

/// Problems shown at most; the rest is counted.
const MOST_SHOWN: usize = 8;

/// Why a command ends with an exit code other than 0, and what is said about it.
#[derive(Debug)]
pub struct CommandFailure {
    exit: Exit,
    pub(super) messages: Vec<Message>,
}

#[derive(Debug, Default)]
pub(super) struct Message {
    pub(super) what: String,
    pub(super) places: Vec<(String, Option<String>)>,
    pub(super) hint: Option<String>,
}

impl CommandFailure {
    /// A failure with one sentence.
    pub fn new(exit: Exit, what: impl Into<String>) -> Self {
        let what = what.into();
        Self {
            exit,
            messages: vec![Message {
                what,
                ..Message::default()
            }],
        }
    }

    /// A job that failed for a reason that no resubmission mends, or this machine refused something.
    pub fn failed(what: impl Into<String>) -> Self {
        Self::new(Exit::Failed, what)
    }

    /// A wrong argument.
    pub fn usage(what: impl Into<String>) -> Self {
        Self::new(Exit::Usage, what)
    }

    /// The scheduler refused, or something else outside of the program does not answer.
    pub fn refused(what: impl Into<String>) -> Self {
        Self::new(Exit::Refused, what)
    }

    /// An error of configuration, preset, template or rule.
    pub fn configuration(what: impl Into<String>) -> Self {
        Self::new(Exit::Configuration, what)
    }

    /// A record of a run that cannot be read or written.
    pub fn ledger(what: impl Into<String>) -> Self {
        Self::new(Exit::Ledger, what)
    }

    /// An exit code without a word.
    pub fn quiet(exit: Exit) -> Self {
        Self {
            exit,
            messages: Vec::new(),
        }
    }

    /// The same with another exit code.
    pub fn with_exit(self, exit: Exit) -> Self {
        Self { exit, ..self }
    }

    /// Its exit code.
    pub fn exit(&self) -> Exit {
        self.exit
    }

    /// What went wrong, and where, in one line.
    pub fn sentence(&self) -> String {
        let Some(first) = self.messages.first() else {
            return String::new();
        };
        match first.places.first() {
            Some((place, _)) => format!("{} ({place})", first.what),
            None => first.what.clone(),
        }
    }

    /// Adds what to do next to the last message.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        if let Some(last) = self.messages.last_mut() {
            last.hint = Some(hint.into());
        }
        self
    }

    /// Adds the place that the last message is about.
    pub fn at(mut self, origin: &Origin) -> Self {
        if let Some(last) = self.messages.last_mut() {
            let place = match origin {
                Origin::File { path, line, column } => format!("{path}:{line}:{column}"),
                other => other.to_string(),
            };
            last.places.push((place, None));
        }
        self
    }

    /// This failure, and what another one says.
    pub fn and(mut self, other: Self) -> Self {
        self.messages.extend(other.messages);
        self
    }

    /// What is said of it.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let more = self.messages.len().saturating_sub(MOST_SHOWN);
        let shown = self.messages.iter().take(MOST_SHOWN).map(Message::render);
        shown.chain((more > 0).then(|| format!("… and {more} more")))
    }
}

impl Message {
    fn render(&self) -> String {
        let mut text = format!("{} {}", Paint(BAD, "error:"), printable(&self.what));
        for (place, snippet) in &self.places {
            let _ = write!(text, "\n  {} {}", Paint(DIM, "-->"), printable(place));
            if let Some(snippet) = snippet {
                let _ = write!(text, "\n   {} {snippet}", Paint(DIM, "|"));
            }
        }
        if let Some(hint) = &self.hint {
            let _ = write!(text, "\n\n{} {}", Paint(WARN, "hint:"), printable(hint));
        }
        text
    }
}

/// Text from files, flags and schedulers without control characters (line ends stay). A tab is shown, for it is often what is wrong.
fn printable(text: &str) -> String {
    let shown = |c: char| match c {
        '\n' => c,
        '\t' => '→',
        c if c.is_control() => '\u{fffd}',
        c => c,
    };
    text.chars().map(shown).collect()
}

impl From<ConfigError> for Message {
    fn from(e: ConfigError) -> Self {
        let at = e.line.map_or_else(
            || e.path.clone(),
            |l| format!("{}:{l}:{}", e.path, e.column.unwrap_or(1)),
        );
        let snippet = e.snippet.as_ref().map(|s| {
            let line = printable(s);
            let column = usize::try_from(e.column.unwrap_or(1)).unwrap_or(1);
            let indent: String = " ".repeat(column.saturating_sub(1).min(line.chars().count()));
            format!("{line}\n   {} {indent}{}", Paint(DIM, "|"), Paint(BAD, "^"))
        });
        Self {
            what: e.what,
            places: vec![(at, snippet)],
            hint: e.hint,
        }
    }
}

impl From<Problem> for Message {
    fn from(p: Problem) -> Self {
        let place = |place: &ProblemPlace| {
            let text = match &place.origin {
                Origin::File { path, line, column } => {
                    format!("{path}:{line}:{column}: {}", place.label)
                }
                other => format!("{other}: {}", place.label),
            };
            (text, None)
        };
        Self {
            places: p.places.iter().map(place).collect(),
            what: p.what,
            hint: p.hint,
        }
    }
}

/// An error that is only told: it has no place, no next step and no exit code of its own.
impl From<anyhow::Error> for CommandFailure {
    fn from(e: anyhow::Error) -> Self {
        Self::failed(format!("{e:#}"))
    }
}

impl From<ConfigError> for CommandFailure {
    fn from(e: ConfigError) -> Self {
        vec![e].into()
    }
}

/// Several faults of configuration files at once.
impl From<Vec<ConfigError>> for CommandFailure {
    fn from(errors: Vec<ConfigError>) -> Self {
        Self {
            exit: Exit::Configuration,
            messages: errors.into_iter().map(Message::from).collect(),
        }
    }
}

impl From<Refusal> for CommandFailure {
    fn from(refusal: Refusal) -> Self {
        Self {
            exit: Exit::Configuration,
            messages: refusal.0.into_iter().map(Message::from).collect(),
        }
    }
}

impl From<Problem> for CommandFailure {
    fn from(problem: Problem) -> Self {
        Refusal::from(problem).into()
    }
}

impl From<LibraryError> for CommandFailure {
    fn from(e: LibraryError) -> Self {
        let failure = Self::configuration(e.to_string());
        match &e {
            LibraryError::Missing { name, known, .. } => {
                let question = meant(name, known.iter().map(String::as_str));
                failure.hint(question.unwrap_or_else(|| format!("there are: {}", known.join(", "))))
            }
            LibraryError::Name { .. } => failure.hint("`oomctl presets` lists all names"),
            LibraryError::File(file) => failure.hint(mend_file(file)),
        }
    }
}

impl From<FileError> for CommandFailure {
    fn from(e: FileError) -> Self {
        Self::configuration(e.to_string()).hint(mend_file(&e))
    }
}

/// What to do about a ledger.
fn mend_ledger(e: &LedgerError) -> String {
    match e {
        LedgerError::File(file) => mend_file(file),
        LedgerError::Owned { dir, .. } => format!("`oomctl status {0}` and `oomctl logs -f {0}` show it. To act here, end that process first; if you are sure that it is gone: `oomctl watch --take-over {0}`", name(dir)),
        LedgerError::TakenOver { dir } => format!("`oomctl status {}` shows its progress", name(dir)),
        LedgerError::Damaged { .. } => "docs/ledger.md, \"Recovery\", says how to continue from the last whole record; running jobs are not touched".to_owned(),
        LedgerError::Newer { .. } => "use the newer oomctl for this run; `oomctl doctor` shows which ones are installed".to_owned(),
        LedgerError::Poisoned { .. } => "`oomctl doctor` checks space and file system; then `oomctl watch` continues the run".to_owned(),
        LedgerError::Exists { .. } => "name another run with --run".to_owned(),
    }
}

/// The name of a run, from its folder.
fn name(folder: &Path) -> String {
    folder
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

impl From<DriveError> for CommandFailure {
    fn from(e: DriveError) -> Self {
        Self::from(&e)
    }
}

impl From<&DriveError> for CommandFailure {
    fn from(e: &DriveError) -> Self {
        let failure = Self::new(e.exit(), e.to_string());
        match e {
            DriveError::MissingSecrets { names } => failure.hint(format!(
                "export {} in this shell and call again",
                names.join(" and ")
            )),
            DriveError::RunExists { run } => failure.hint(format!(
                "`oomctl watch {run}` continues it; `--run` gives another name"
            )),
            DriveError::Ledger(ledger) => failure.hint(mend_ledger(ledger)),
            DriveError::File(file) => failure.hint(mend_file(file)),
            DriveError::Unreadable { .. } => failure.hint("nothing was changed; restore the file, or submit under another name with --run"),
            DriveError::ScriptChanged { .. } => failure.hint("undo the change, or cancel this run and submit again; change values with --set or in oomctl.yaml"),
        }
    }
}

/// With the exit codes that a shell has for a program that it cannot start.
impl From<LaunchError> for CommandFailure {
    fn from(error: LaunchError) -> Self {
        match error {
            LaunchError::Refused(refusal) => refusal.into(),
            LaunchError::Start { .. } => {
                let hint = match error.exit() {
                    Exit::NotFound => {
                        "check that it is installed and its environment active (`type -a`)"
                    }
                    _ => "make it executable (`chmod +x`), or put its interpreter first",
                };
                Self::new(error.exit(), error.to_string()).hint(hint)
            }
            LaunchError::File(ref file) => Self::failed(error.to_string()).hint(mend_file(file)),
            LaunchError::Gpu(_) => Self::failed(error.to_string())
                .hint("`nvidia-smi` should say more; `oomctl doctor` checks the driver too"),
        }
    }
}
