//! Training stacks, as presets describe them: by what they are recognised, and how they spell their knobs.

use std::collections::BTreeMap;

use super::code::CodeRule;
use super::configs::stem;
use super::configured::ProgramCode;
use super::given_keys::GivenKeys;
use super::hydra;
use super::spelling::setting_names;
use super::traced::Span;
use super::walk::{Call, CallTarget, SettingsFile};
use crate::{Recognise, SettingsReader, Spelling};
use oomctl_base::{Effect, Role, ValueKind};

/// What a key says that no other stack has.
const KEY: usize = 100;
/// What a value says that tells a stack from others.
const VALUE: usize = 300;
/// What the name of a module or a program says.
const NAME: usize = 1_000;

/// How sure it is that a call starts a stack. What the command says counts; what is composed of files that it does
/// not name decides between equals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Likeness {
    pub(super) words: usize,
    composed: usize,
}

impl Likeness {
    /// What counts of it: 0 where nothing says so.
    pub fn weight(self) -> usize {
        match self.words {
            0 => self.composed,
            words => words,
        }
    }
}

/// A stack.
#[derive(Debug, Clone, PartialEq)]
pub struct Stack {
    /// Name of its preset.
    pub name: String,
    /// By what its programs are known.
    pub recognise: Recognise,
    /// Its knobs, in the preset's order.
    pub knobs: Vec<StackKnob>,
}

/// A knob with all its spellings.
#[derive(Debug, Clone, PartialEq)]
pub struct StackKnob {
    /// Its name.
    pub name: String,
    /// What it means.
    pub role: Option<Role>,
    /// Kind of value.
    pub kind: ValueKind,
    /// What moving it does to the experiment.
    pub effect: Effect,
    /// Who reads it.
    pub reader: SettingsReader,
    /// How programs of the stack are told, the preset's own way first.
    pub spellings: Vec<Spelling>,
    /// For each of them the number of the way of spelling that it belongs to, 0 for the preset's own.
    pub styles: Vec<usize>,
    /// What names of options and keys end in that are this knob behind any sections, in lower case. Only programs that no
    /// preset knows have such.
    pub endings: Vec<String>,
}

impl StackKnob {
    /// A value that no preset has as a knob.
    pub fn bare(name: &str, kind: ValueKind, spelling: Spelling) -> Self {
        Self {
            name: name.to_owned(),
            role: None,
            kind,
            effect: Effect::Resources,
            reader: SettingsReader::Any,
            spellings: vec![spelling],
            styles: vec![0],
            endings: Vec::new(),
        }
    }
}

impl StackKnob {
    /// Whether the program itself reads a knob, and not what starts it or a library.
    pub(super) fn is_of_program(&self) -> bool {
        let others = [SettingsReader::Launcher, SettingsReader::Library];
        !others.contains(&self.reader) && !self.role.is_some_and(Role::counts_gpus)
    }
}

impl Stack {
    /// The knob of this name.
    pub fn knob(&self, name: &str) -> Option<&StackKnob> {
        self.knobs.iter().find(|k| k.name == name)
    }

    /// Whether its programs are the user's own, which no name tells apart.
    pub fn is_of_any_program(&self) -> bool {
        let r = &self.recognise;
        r.modules.is_empty() && r.programs.is_empty() && r.scripts.is_empty()
    }

    /// Whether the training loop stands in the user's own text.
    pub fn has_own_loops(&self) -> bool {
        self.is_of_any_program() || self.recognise.own_loops
    }

    /// Whether a call gives a key as a flag, of a stack whose users start its own program and seldom one of theirs. A flag of
    /// one word may be anybody's; a dotted key is not.
    fn is_by_flag(&self, given: &GivenKeys) -> bool {
        let mut flags = self.recognise.keys.iter().filter(|k| k.starts_with('-'));
        !self.recognise.programs.is_empty() && flags.any(|flag| given.has(flag))
    }

    /// Whether its programs are told their batches by files of settings only.
    pub fn is_told_by_files(&self) -> bool {
        let batch = [Role::TrainBatch, Role::MicroBatch].map(Some);
        let batches = self.knobs.iter().filter(|knob| batch.contains(&knob.role));
        let mut spellings = batches.flat_map(|knob| &knob.spellings).peekable();
        spellings.peek().is_some() && spellings.all(|s| matches!(s, Spelling::Key(_)))
    }

    /// How sure it is that a call starts this stack.
    pub fn likeness(&self, call: &Call) -> Likeness {
        let r = &self.recognise;
        let file = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let named = match &call.target {
            _ if is_called(&r.modules, call) || is_called(&r.programs, call) => NAME,
            CallTarget::Program(path) | CallTarget::Script(path) => {
                let by_name = any(&r.scripts, &file(path)) && !self.is_missing_in(call);
                usize::from(by_name && self.has_more_than_a_name(call)) * 500
            }
            CallTarget::Module(_) | CallTarget::Code => 0,
        };
        let known = |l: &String| any(&r.launchers, &file(l.split(' ').next().unwrap_or(l)));
        let by_itself = call.launchers.is_empty() && matches!(call.target, CallTarget::Script(_));
        let launched = call.launchers.iter().any(known) || by_itself && any(&r.launchers, "python");
        let launched = usize::from(launched);
        let named = match (r.one_process, call.one_process) {
            (true, true) if launched > 0 => named + VALUE,
            (true, _) => return Likeness::default(),
            _ => named,
        };
        let given = GivenKeys::of_call(call);
        let told = |composed| self.told(call, &given, composed);
        let (Some(by_words), by_files) = (told(false), told(true)) else {
            return Likeness::default();
        };
        let configures = uses(&r.configured_by, call) && !lacks(r.packages(), call);
        let configures = usize::from(configures && !(r.generates && call.trains)) * KEY;
        let classes = usize::from(uses(&r.uses, call)) * VALUE + configures;
        // A program that says much of what no other one says is a fork under another name.
        let keys = by_words.max(by_files.unwrap_or_default());
        let strange = || {
            lacks(r.packages(), call) && keys < 3 * KEY
                || is_fork(r, call) && keys < 2 * KEY
                || named == 0 && by_words == KEY && self.is_by_flag(&given)
        };
        if named < NAME && classes == 0 && strange() {
            return Likeness::default();
        }
        let named = named + classes;
        let config = call.config.name.as_deref().map(stem);
        let chosen = config.is_some_and(|name| r.configs.iter().any(|known| known == name));
        // A framework's own program brings a configuration of its own, which nobody here has chosen.
        let shipped = named > 0 && (config.is_none() || chosen);
        let [spelled, composed] = [false, true].map(|c| self.spelled(call, &given, c));
        let said = named + by_words + usize::from(chosen) * VALUE;
        // A launcher starts anything: without one knob of the stack nothing speaks for it.
        let launched = launched * usize::from(said + spelled > 0);
        Likeness {
            words: match said + launched {
                0 => 0,
                some => some + 2 * spelled,
            },
            composed: match by_files.unwrap_or_default() {
                0 => 0,
                _ if shipped => 0,
                some => some + 2 * composed,
            },
        }
    }

    /// The value of a knob that the program's own text shows, with the place of the name.
    pub fn of_code(&self, call: &Call, knob: &str) -> Option<(&str, Option<Span>)> {
        let rules = self.recognise.code.get(knob)?;
        let mut found = rules.iter().filter_map(|rule| shown(rule, call));
        match found.next() {
            Some(first) => found.all(|(value, _)| value == first.0).then_some(first),
            None => {
                let other = rules.iter().find(|rule| rule.names.is_empty())?;
                call.names.is_some().then_some((other.value.as_str(), None))
            }
        }
    }

    /// Whether a call begins at its start, whatever checkpoints there are.
    pub fn begins_anew(&self, call: &Call) -> bool {
        is_called(&self.recognise.begins_anew, call)
    }

    /// What keys and values say, those of the command or those of a composed configuration; None where a value says
    /// that it is another stack.
    fn told(&self, call: &Call, words: &GivenKeys, composed: bool) -> Option<usize> {
        // A file that a word names may be of any program, whatever its keys are.
        let own = !self.is_of_any_program() || self.is_told_by_files();
        let files = composed || own || !call.config.is_empty();
        let given = |key: &&String| {
            let named = setting_names(&Spelling::read(key));
            !composed && words.has(key) || files && in_settings(call, &named, composed)
        };
        let own = |key: &&String| self.is_own_option(call, key);
        let keys = self.recognise.keys.iter().filter(given);
        let keys = KEY * keys.filter(|key| !own(key)).count();
        let mut all = keys;
        for (key, values) in &self.recognise.values {
            let word = call.words.iter().rev().find_map(|word| {
                let text = word.text.known().filter(|_| !word.maybe && !composed)?;
                let at = hydra::of(&text, key)?.value?;
                Some(hydra::meaning(&text[at]))
            });
            let of_files = || {
                let mut files = call
                    .settings
                    .iter()
                    .rev()
                    .filter(|f| is_composed(f) == composed);
                files.find_map(|file| file.find(key)?.text.clone())
            };
            match word.or_else(of_files) {
                Some(value) if values.contains(&value) => all += VALUE,
                Some(_) => return None,
                None => {}
            }
        }
        Some(all)
    }

    /// Whether the program declares an option of this name itself, or makes its steps itself, and its text shows nothing of the
    /// stack.
    fn is_own_option(&self, call: &Call, flag: &str) -> bool {
        let declared = |code: &ProgramCode| code.declared(flag).is_some();
        let declared = || call.code.as_ref().is_some_and(declared);
        self.is_missing_in(call) && (call.trains || declared())
    }

    /// Whether the text of the program was read, or its words and files give a knob or a model as programs of the stack take them: a
    /// file that is not there may be anybody's, whatever its name is.
    fn has_more_than_a_name(&self, call: &Call) -> bool {
        let given = GivenKeys::of_call(call);
        let model = || self.recognise.model.iter().any(|key| given.has(key));
        let nothing = call.taken_words().len() <= call.args && call.settings.is_empty();
        let unread = || !call.unread.is_empty() || !call.config.is_empty();
        let spelled = || self.spelled(call, &given, false) > 0;
        call.names.is_some() || nothing || unread() || model() || spelled()
    }

    /// Whether the text of the program was read and shows nothing of the stack, whose texts would.
    fn is_missing_in(&self, call: &Call) -> bool {
        let r = &self.recognise;
        let Some(names) = &call.names else {
            return false;
        };
        // A parser alone may fill a class of the program's own.
        let classes = [&r.uses, &r.configured_by];
        let mut shown = classes.into_iter().flatten().map(String::as_str);
        let shows = |name: &str| names.contains_key(name);
        shown.clone().next().is_some() && !shown.any(shows) && !r.packages().any(shows)
    }

    /// The way of spelling in which most of its knobs are given by the words of a call; the preset's own where none is.
    pub fn style(&self, call: &Call) -> usize {
        let given = GivenKeys::of_call(call);
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        for (spelling, style) in self
            .knobs
            .iter()
            .flat_map(|k| k.spellings.iter().zip(&k.styles))
        {
            if given.has(spelling.name()) {
                *counts.entry(*style).or_default() += 1;
            }
        }
        let most = counts
            .into_iter()
            .max_by_key(|(style, n)| (*n, std::cmp::Reverse(*style)));
        most.map_or(0, |(style, _)| style)
    }

    /// How many of its knobs the words of a call spell, the files that they name, and the options of its program; or else
    /// what is composed.
    fn spelled(&self, call: &Call, words: &GivenKeys, composed: bool) -> usize {
        let says = |knob: &&StackKnob| {
            let mut all = knob.spellings.iter();
            let by_code = || call.looked_up(knob).is_some() || call.constant(knob).is_some();
            let anywhere = || call.sectioned(knob).is_some();
            !composed && (call.declares(knob) || by_code() || anywhere())
                || all.any(|s| {
                    let spelled = !matches!(s, Spelling::Key(_));
                    spelled && !composed && words.has(s.name())
                        || in_settings(call, &setting_names(s), composed)
                })
        };
        self.knobs.iter().filter(says).count()
    }
}

/// Whether the program's text uses one of these classes.
fn uses(classes: &[String], call: &Call) -> bool {
    let names = call.names.as_ref();
    names.is_some_and(|names| classes.iter().any(|class| names.contains_key(class)))
}

/// Whether the program's text was read and none of these packages is in it, so that options of the same name are its own.
fn lacks<'p>(packages: impl Iterator<Item = &'p str>, call: &Call) -> bool {
    let mut packages = packages.peekable();
    let named = packages.peek().is_some();
    let names = call.names.as_ref().filter(|_| named);
    names.is_some_and(|names| !packages.any(|package| names.contains_key(package)))
}

/// Whether a call starts a module of the stack's package that the stack does not know: its settings may be others, and one key
/// of the same name says nothing.
fn is_fork(recognise: &Recognise, call: &Call) -> bool {
    let CallTarget::Module(module) = &call.target else {
        return false;
    };
    recognise.has_module(module) && !any(&recognise.modules, module)
}

/// The value of a rule that holds for a call.
fn shown<'r>(rule: &'r CodeRule, call: &Call) -> Option<(&'r str, Option<Span>)> {
    let names = call.names.as_ref();
    if names.is_some_and(|all| rule.unless.iter().any(|name| all.contains_key(name))) {
        return None;
    }
    let place = names.and_then(|all| rule.names.iter().find_map(|n| all.get(n)).copied());
    let launches = |l: &String| rule.names.iter().any(|n| l.rsplit('/').next() == Some(n));
    let holds =
        place.is_some() || is_called(&rule.names, call) || call.launchers.iter().any(launches);
    holds.then_some((rule.value.as_str(), place))
}

/// Whether a call starts one of these modules and programs.
fn is_called(names: &[String], call: &Call) -> bool {
    match &call.target {
        CallTarget::Module(name) => any(names, name),
        CallTarget::Program(name) => any(names, name) || any(names, &with_command(name, call)),
        CallTarget::Script(path) => names.iter().any(|name| is_file_of(path, name)),
        CallTarget::Code => false,
    }
}

/// Whether a path is that of a module in its package (`swift/cli/sft.py`). A name of one part may be anybody's.
fn is_file_of(path: &str, module: &str) -> bool {
    let path = format!("/{path}");
    match module.strip_suffix(".*") {
        Some(package) if package.contains('.') => {
            path.contains(&format!("/{}/", package.replace('.', "/")))
        }
        Some(_) => false,
        None => {
            module.contains('.') && path.ends_with(&format!("/{}.py", module.replace('.', "/")))
        }
    }
}

/// A program with the first word behind it (`tune run`).
fn with_command(name: &str, call: &Call) -> String {
    let first = call.words.get(call.args);
    first.map_or_else(String::new, |word| format!("{name} {}", word.text.text()))
}

/// Whether a file is part of a configuration that the program composes, which no word names.
fn is_composed(file: &SettingsFile) -> bool {
    file.reached.by_place()
}

fn in_settings(call: &Call, names: &[String], composed: bool) -> bool {
    let mut all = call.settings.iter().filter(|f| is_composed(f) == composed);
    all.any(|named| names.iter().any(|name| named.find(name).is_some()))
}

/// Whether a name is one of these; one that ends in `*` stands for all that begin so.
pub(super) fn any(names: &[String], name: &str) -> bool {
    names.iter().any(|known| match known.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => known == name,
    })
}
