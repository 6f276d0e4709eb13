//! A program that is started, and the words that it is handed.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::settings_file::{ConfigOptions, SettingsFile};
use crate::SettingsReader;
use crate::configured::ProgramCode;
use crate::containers::Container;
use crate::traced::{Quote, Span, Traced, Why};

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
    /// The container in which it runs, as far as the scripts say so.
    pub container: Option<Rc<Container>>,
    /// The files into which the scripts send what it prints, the outermost first.
    pub outputs: Vec<OutputFile>,
    /// The script that is started, relative to the folder of the job, where that is known.
    pub program: Option<String>,
    /// It is handed no words, and its text reads none.
    pub takes_no_words: bool,
    /// It drives several GPUs from one process, as its text shows.
    pub one_process: bool,
    /// The names in its Python text and that of its own modules that a stack asks for; absent where the text was not read.
    pub names: Option<BTreeMap<String, Span>>,
    /// Its Python text makes the steps of training itself.
    pub trains: bool,
    /// What its Python text says of its options; absent where it says nothing.
    pub code: Option<ProgramCode>,
    /// Its words that it refuses, where its text shows all options that it takes.
    pub refused: Vec<RefusedWord>,
    /// What its words say of a configuration that it composes itself.
    pub config: ConfigOptions,
    /// Files of settings, in the order in which they count: those among the words, and those that they name.
    pub settings: Vec<SettingsFile>,
    /// Files of settings that were not given, or whose format is not read: what they say is not known.
    pub unread: Vec<UnreadFile>,
    /// Where the command begins, for a variable before it; None where it stands in several places.
    pub start: Option<Span>,
    /// Where the commands begin that run its script or its text (`bash -c "$CMD"`), the outermost first.
    pub carriers: Vec<Span>,
    /// Where further words are put; None where the command appears in several places.
    pub end: Option<ArgumentsEnd>,
}

/// A file into which a script sends what a program prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputFile {
    /// Its path from the folder of the job, with `${SLURM_JOB_ID}` and the like in it; None where only the job knows it.
    pub path: Option<String>,
    /// The path as the script writes it.
    pub word: String,
    /// It keeps what it holds already.
    pub appends: bool,
    /// Where the script names it.
    pub place: Option<Span>,
}

/// A file of settings that is not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadFile {
    /// Its path, or what stands for it.
    pub path: String,
    /// Who reads it. A launcher's (accelerate's) says nothing of the program's options.
    pub reader: SettingsReader,
    /// The option whose value it is, without dashes; empty where it is none's.
    pub option: String,
}

impl UnreadFile {
    /// One that no option names.
    pub(crate) fn of(reader: SettingsReader, path: String) -> Self {
        Self {
            path,
            reader,
            option: String::new(),
        }
    }
}

/// A word that a program refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedWord {
    /// Its number among the words of the call.
    pub at: usize,
    /// The option that may be meant.
    pub meant: Option<String>,
}

impl Call {
    /// Its words as texts.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.words.iter().map(|word| word.text.text()).collect()
    }

    /// The words of the program itself.
    pub fn own_texts(&self) -> Vec<String> {
        let own = self.words.iter().skip(self.args);
        own.map(|word| word.text.text()).collect()
    }

    /// The word that names its script.
    pub(crate) fn script_word(&self) -> Option<&Traced> {
        let word = self.words.get(self.args.checked_sub(1)?)?;
        matches!(self.target, CallTarget::Script(_)).then_some(&word.text)
    }

    /// The files of settings that are not read: the program's, those of its launchers, those of a library.
    pub fn all_unread(&self) -> impl Iterator<Item = &String> {
        self.unread_by(|_| true)
    }

    /// Those of them that these read.
    pub(crate) fn unread_by(
        &self,
        reads: impl Fn(SettingsReader) -> bool,
    ) -> impl Iterator<Item = &String> {
        use SettingsReader::{Launcher, Library, Program};
        let readers = [Program, Launcher, Library]
            .into_iter()
            .filter(move |r| reads(*r));
        readers.flat_map(|reader| {
            let files = self.unread.iter().filter(move |f| f.reader == reader);
            files.map(|file| &file.path)
        })
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

    /// These words with a space between each two. One text cannot say which of them may be missing, so such words are unknown in it.
    pub(super) fn joined(words: &[Self]) -> Traced {
        let mut all = Traced::default();
        for (at, word) in words.iter().enumerate() {
            if at > 0 {
                all.push(&Traced::literal(0, 0, " ", Quote::Nested));
            }
            match word.text.place().filter(|_| word.maybe) {
                Some(place) => {
                    let text = word.text.text();
                    all.push(&Traced::computed(&text, place, Why::Condition));
                }
                None => all.push(&word.text),
            }
        }
        all
    }
}
