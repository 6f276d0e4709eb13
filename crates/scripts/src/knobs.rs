//! Where a knob's value stands: in the words of a launch, in a file of settings, in the environment.
//!
//! The words of a launch win over files of settings, and of several words the last one counts: so it is with
//! argparse, and with Hydra's overrides.

use super::configs::replaces;
use super::hydra;
use super::resources;
use super::settings::Format;
use super::spelling::setting_names;
use super::stack::{Stack, StackKnob, same_flag};
use super::traced::{From, Span, Traced, Why};
use super::walk::{Arg, Call, ENVIRONMENT, Reached, Reading, Source};
use crate::Spelling;
use oomctl_base::{Kind, Role, Value};

/// In which form a value is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// A Hydra override; `added` where it has a sign.
    Override {
        /// With `+` or `++`.
        added: bool,
    },
    /// A flag with a value.
    Flag,
    /// A flag without one.
    Switch,
    /// A variable of the environment.
    Variable,
    /// A flag that may have a value and has none, which says `true`.
    Bare,
    /// An option by which the job asks for it, such as `--gres`.
    Asked,
    /// A key of a configuration that is composed of several files, over which the words of the launch win.
    Composed,
    /// A key in a file of settings.
    Setting {
        /// How the file is written.
        format: Format,
        /// Its bytes say something else, too.
        shared: bool,
    },
}

/// What is known of a value.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    /// This is it.
    Known(Value),
    /// This text, which is no value of the knob's kind: something that the program itself resolves.
    Text(String),
    /// Code computes it, at this place.
    Computed(Span, Why),
}

/// A value of a knob, as a submission gives it.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// What is known of it.
    pub state: State,
    /// The bytes of the value.
    pub value: Traced,
    /// In which form.
    pub way: Way,
    /// It is given only under a condition.
    pub maybe: bool,
    /// It stands among the options of what starts the program.
    pub launcher: bool,
}

impl Found {
    /// Where the value stands that a reader would look for.
    #[must_use]
    pub fn place(&self) -> Option<Span> {
        self.value.place()
    }
}

/// The value of a knob that counts in a call.
#[must_use]
pub fn find(reading: &Reading, call: &Call, knob: &StackKnob) -> Option<Found> {
    let split = call.args.min(call.words.len());
    let (launchers, own) = call.words.split_at(split);
    let halves = [(own, false), (launchers, true)].into_iter();
    let halves = halves.filter(|(_, launcher)| knob.reader.reads_words(*launcher));
    let mut words = halves.flat_map(|(words, launcher)| {
        let spellings = knob.spellings.iter();
        let found = spellings.filter_map(move |s| in_words(words, s, knob.kind));
        let found = found.max_by_key(|(at, _)| *at).map(|(_, found)| found);
        found.map(|found| Found { launcher, ..found })
    });
    let given = words
        .next()
        .map(|found| match of_request(reading, knob, &found) {
            true => Found {
                way: Way::Asked,
                ..found
            },
            false => found,
        });
    given.or_else(|| {
        let mut spellings = knob.spellings.iter();
        let found = spellings.find_map(|s| {
            in_settings(call, knob, s).or_else(|| in_environment(reading, call, s, knob.kind))
        });
        let mut spellings = knob.spellings.iter();
        found.or_else(|| spellings.find_map(|s| asked(reading, s)))
    })
}

/// Whether GPUs or nodes are given as a variable that Slurm sets, so that they follow what the job asks for.
fn of_request(reading: &Reading, knob: &StackKnob, found: &Found) -> bool {
    let counts = knob.role.is_some_and(Role::counts_gpus);
    let code = code(reading, found).unwrap_or_default();
    counts && code.trim_start_matches(['$', '{']).starts_with("SLURM_")
}

/// Whether a value is what a calculation of the shell comes to.
pub(super) fn calculated(reading: &Reading, found: &Found) -> bool {
    code(reading, found).is_some_and(|code| code.starts_with("$(("))
}

/// The bytes that stand for a value.
fn code<'r>(reading: &'r Reading, found: &Found) -> Option<&'r str> {
    let (span, ..) = found.value.stretch()?;
    let source = reading.sources.get(span.file)?;
    source.text.get(span.start..span.end)
}

/// A variable that Slurm sets to what the job asks for, which is what a launcher takes that is not told.
fn asked(reading: &Reading, spelling: &Spelling) -> Option<Found> {
    let role = match spelling {
        Spelling::Env(name) if name == "SLURM_GPUS_ON_NODE" => Role::GpusPerNode,
        Spelling::Env(name) if name == "SLURM_JOB_NUM_NODES" => Role::Nodes,
        _ => return None,
    };
    let (count, value) = resources::asked(reading, role)?;
    Some(Found {
        state: State::Known(Value::Int(i64::from(count))),
        value,
        way: Way::Asked,
        maybe: false,
        launcher: false,
    })
}

/// The last of the words that gives a value in this spelling, and its number.
fn in_words(words: &[Arg], spelling: &Spelling, kind: Kind) -> Option<(usize, Found)> {
    words.iter().enumerate().rev().find_map(|(at, word)| {
        let text = word.text.text();
        let found = match spelling {
            Spelling::Hydra(key) | Spelling::HydraAdd(key) | Spelling::HydraForce(key) => {
                let later = || words[at + 1..].iter().map(|w| w.text.text());
                in_override(word, &text, key, kind).map(|found| Found {
                    maybe: found.maybe || later().any(|w| replaces(&w, key)),
                    ..found
                })
            }
            Spelling::Flag(flag) => in_flag(words, at, &text, flag.trim_end_matches('='), kind),
            Spelling::Switch(flag) if same_flag(&text, flag) => Some(Found {
                state: State::Known(Value::Bool(true)),
                value: word.text.clone(),
                way: Way::Switch,
                maybe: word.maybe,
                launcher: false,
            }),
            Spelling::Switch(_) | Spelling::Env(_) | Spelling::Yaml(_) | Spelling::Key(_) => None,
        };
        found.map(|found| (at, found))
    })
}

fn in_override(word: &Arg, text: &str, key: &str, kind: Kind) -> Option<Found> {
    let read = hydra::of(text, key).filter(|o| o.sign != "~")?;
    let value = word.text.slice(read.value.clone()?.start, text.len());
    let written = value.text();
    let state = match (value.unknown(), read.form) {
        (Some((span, why)), _) => State::Computed(span, why),
        (None, hydra::Form::Bare | hydra::Form::Quoted) => parsed(kind, &hydra::meaning(&written)),
        (None, hydra::Form::Compound) => parsed(kind, &written),
        (None, hydra::Form::Interpolation | hydra::Form::Sweep) => State::Text(written),
    };
    Some(Found {
        state,
        value,
        way: Way::Override {
            added: !read.sign.is_empty(),
        },
        maybe: word.maybe,
        launcher: false,
    })
}

fn in_flag(words: &[Arg], at: usize, text: &str, flag: &str, kind: Kind) -> Option<Found> {
    let word = &words[at];
    let name = text.split('=').next().unwrap_or(text);
    if !same_flag(name, flag) {
        let short = flag.len() == 2 && !flag.ends_with('-');
        let value = text
            .strip_prefix(flag)
            .filter(|v| short && v.starts_with(char::is_numeric));
        return value.map(|v| {
            given(
                word.text.slice(text.len() - v.len(), text.len()),
                Way::Flag,
                word.maybe,
                kind,
            )
        });
    }
    if name.len() < text.len() {
        let value = word.text.slice(name.len() + 1, text.len());
        return Some(given(value, Way::Flag, word.maybe, kind));
    }
    let next = words.get(at + 1);
    let is_flag = |arg: &Arg| {
        let text = arg.text.text();
        text.starts_with('-') && text.parse::<f64>().is_err()
    };
    match next {
        Some(next) if !is_flag(next) => {
            let maybe = word.maybe || next.maybe;
            Some(given(next.text.clone(), Way::Flag, maybe, kind))
        }
        // A flag of its own is what stands for `true`.
        _ if kind == Kind::Bool => Some(Found {
            state: State::Known(Value::Bool(true)),
            value: word.text.clone(),
            way: Way::Bare,
            maybe: word.maybe,
            launcher: false,
        }),
        _ => None,
    }
}

/// The value in the last of the files that says one. `auto` leaves it to the other files.
fn in_settings(call: &Call, knob: &StackKnob, spelling: &Spelling) -> Option<Found> {
    let (names, kind) = (setting_names(spelling), knob.kind);
    let files = call.settings.iter().rev();
    let files = files.filter(|file| knob.reader.reads_file(spelling, file.reader));
    let mut found = files.filter_map(|named| {
        let (name, entry) = names
            .iter()
            .find_map(|name| Some((name, named.find(name)?)))?;
        let replaced = || call.words.iter().any(|w| replaces(&w.text.text(), name));
        let value = named.content.slice(entry.bytes.start, entry.bytes.end);
        let state = match (value.unknown(), &entry.text) {
            (Some((span, why)), _) => State::Computed(span, why),
            (None, Some(text)) => parsed(kind, text),
            (None, None) => State::Text(value.text()),
        };
        Some(Found {
            state,
            value,
            way: match named.reached {
                Reached::Place => Way::Composed,
                Reached::Word | Reached::Key => Way::Setting {
                    format: named.says.format(),
                    shared: entry.shared,
                },
            },
            maybe: named.hidden || replaced(),
            launcher: false,
        })
    });
    let first = found.next()?;
    let left_open = first.state == State::Text("auto".to_owned());
    Some(found.find(|_| left_open).unwrap_or(first))
}

fn in_environment(
    reading: &Reading,
    call: &Call,
    spelling: &Spelling,
    kind: Kind,
) -> Option<Found> {
    let Spelling::Env(name) = spelling else {
        return None;
    };
    // What the variables of a job hold is not what they hold where it is submitted.
    if name.starts_with("SLURM_") {
        return None;
    }
    let value = match call.variables.get(name) {
        Some(value) => value.clone(),
        None => inherited(reading, name)?,
    };
    Some(given(value, Way::Variable, false, kind))
}

/// A variable that no script sets.
fn inherited(reading: &Reading, name: &str) -> Option<Traced> {
    let Source { text, .. } = reading.sources.get(ENVIRONMENT)?;
    let mut start = 0;
    for entry in text.split_inclusive('\0') {
        let value = entry
            .strip_prefix(name)
            .and_then(|rest| rest.strip_prefix('='));
        if let Some(value) = value {
            let value = value.trim_end_matches('\0');
            let at = start + name.len() + 1;
            return Some(Traced::literal(ENVIRONMENT, at, value, super::Quote::Raw));
        }
        start += entry.len();
    }
    None
}

fn given(value: Traced, way: Way, maybe: bool, kind: Kind) -> Found {
    let state = match value.unknown() {
        Some((span, why)) => State::Computed(span, why),
        None => parsed(kind, &value.text()),
    };
    Found {
        state,
        value,
        way,
        maybe,
        launcher: false,
    }
}

fn parsed(kind: Kind, text: &str) -> State {
    let lower = text.to_ascii_lowercase();
    let text = match lower.as_str() {
        "true" | "false" if kind == Kind::Bool => &lower,
        _ => text,
    };
    // A number with a point is one all the same, where whole numbers are wanted.
    match kind.parse(text) {
        Ok(value) => State::Known(value),
        Err(_) => State::Text(text.to_owned()),
    }
}

/// The knobs of a stack that a call gives, in the preset's order. Of two names for the same bytes the first counts.
#[must_use]
pub fn all<'s>(reading: &Reading, call: &Call, stack: &'s Stack) -> Vec<(&'s StackKnob, Found)> {
    let mut all: Vec<(&StackKnob, Found)> = Vec::new();
    for knob in &stack.knobs {
        if let Some(found) = find(reading, call, knob)
            && !all.iter().any(|(_, other)| other.value == found.value)
        {
            all.push((knob, found));
        }
    }
    all
}

/// The literals of a value, each with the places at which it was used, the innermost first.
pub(super) fn ways(value: &Traced) -> Vec<(Span, Vec<Span>)> {
    let parts = value.parts().iter();
    let literal = parts.filter_map(|part| match part.from {
        From::Literal { span, .. } => Some((span, part.via.iter().rev().map(|u| u.span).collect())),
        From::Computed { .. } => None,
    });
    literal.collect()
}
