//! Where a knob's value stands: in the words of a launch, in a file of settings, in the environment.
//!
//! The words of a launch win over files of settings, and of several words the last one counts: so it is with
//! argparse, and with Hydra's overrides.

use super::configs::replaces;
pub use super::found_knob::{FoundKnob, KnobForm, KnobState};
use super::hidden_values::named_alone;
use super::keyed::is_of_keys;
use super::requested::step_of_its_own;
use super::spelling::{same_flag, setting_names};
use super::stack::{Stack, StackKnob};
use super::traced::{Traced, Why};
use super::walk::{Arg, Call, Reached, Reading};
use super::{hydra, resources};
use crate::Spelling;
use oomctl_base::{Role, Value, ValueKind};

/// The value of a knob that counts in a call.
pub fn find(reading: &Reading, call: &Call, knob: &StackKnob) -> Option<FoundKnob> {
    let split = call.args.min(call.words.len());
    let taken = call.taken_words();
    let (launchers, own) = taken.split_at(split);
    let halves = [(own, false), (launchers, true)].into_iter();
    let halves = halves.filter(|(_, launcher)| knob.reader.reads_words(*launcher));
    let read = call.as_read(knob);
    let mut words = halves.flat_map(|(words, launcher)| {
        let spellings = if launcher { knob } else { &*read }.spellings.iter();
        let found = spellings.filter_map(move |s| in_words(words, s, knob.kind));
        let found = found.max_by_key(|(at, _)| *at).map(|(_, found)| found);
        found.map(|found| FoundKnob { launcher, ..found })
    });
    let given =
        words
            .next()
            .filter(|_| !call.is_of_winning_file(knob))
            .map(|found| match of_request(reading, knob, &found) {
                true => requested(reading, call, knob, found),
                false => found,
            });
    let given = given.or_else(|| {
        let word = named_alone(call, own, knob)?;
        let way = KnobForm::Code { own: false };
        Some(FoundKnob {
            state: KnobState::Computed(word.text.place()?, Why::Code),
            ..self::given(word.text.clone(), way, word.maybe, knob.kind)
        })
    });
    let is_variable = |s: &&Spelling| matches!(s, Spelling::Env(_));
    let mut variables = read.spellings.iter().filter(is_variable);
    let given =
        given.or_else(|| variables.find_map(|s| in_environment(reading, call, s, knob.kind)));
    // What the code looks up in a file of settings stands there.
    let looked_up = |s: &&Spelling| match s {
        Spelling::Flag(flag) => is_of_keys(flag),
        other => matches!(other, Spelling::Key(_)),
    };
    let mut keys = read.spellings.iter().filter(looked_up);
    let given = given.or_else(|| keys.find_map(|s| in_settings(call, knob, s)));
    let coded = || {
        let coded = call.coded(knob)?;
        let way = KnobForm::Code { own: coded.is_own };
        let value = match &coded.option {
            // The environment of the submission may have set it.
            Some(Spelling::Env(name)) if reading.passed.may_set(name) => {
                Traced::computed("", coded.value.place()?, Why::Environment)
            }
            // No accumulation is 0: the program takes another one then.
            _ if knob.role == Some(Role::GradAccumulation) && coded.is_off => {
                Traced::computed("", coded.value.place()?, Why::Code)
            }
            _ => coded.value.clone(),
        };
        Some(self::given(value, way, false, knob.kind))
    };
    let given = given.or_else(coded);
    let given = given.or_else(|| {
        let composed = |s: &&Spelling| matches!(s, Spelling::Hydra(_));
        let composed = read.spellings.iter().filter(composed);
        let mut spellings = knob.spellings.iter().chain(composed);
        let found = spellings.find_map(|s| {
            in_settings(call, knob, s).or_else(|| in_environment(reading, call, s, knob.kind))
        });
        let mut spellings = knob.spellings.iter();
        found.or_else(|| spellings.find_map(|s| asked(reading, s)))
    });
    call.undivided(reading, knob, given.as_ref()).or(given)
}

/// Whether GPUs or nodes are given as a variable that Slurm sets, so that they follow what the job asks for.
fn of_request(reading: &Reading, knob: &StackKnob, found: &FoundKnob) -> bool {
    let counts = knob.role.is_some_and(Role::counts_gpus);
    let code = code(reading, found).unwrap_or_default();
    counts && code.trim_start_matches(['$', '{']).starts_with("SLURM_")
}

/// A value that follows what the job asks for; what a step of its own has is not known.
fn requested(reading: &Reading, call: &Call, knob: &StackKnob, found: FoundKnob) -> FoundKnob {
    let split = call.args.min(call.words.len());
    let own = [&call.around[..], &call.words[..split]].concat();
    let count = knob.role.and_then(|role| resources::asked(reading, role));
    let state = match count.filter(|_| !step_of_its_own(&own)) {
        Some((count, _)) if matches!(found.state, KnobState::Computed(..)) => {
            KnobState::Known(Value::Int(i64::from(count)))
        }
        _ => found.state,
    };
    FoundKnob {
        state,
        way: KnobForm::Asked,
        ..found
    }
}

/// Whether a value is what a calculation of the shell comes to.
pub(super) fn calculated(reading: &Reading, found: &FoundKnob) -> bool {
    code(reading, found).is_some_and(|code| code.starts_with("$(("))
}

/// The bytes that stand for a value.
fn code<'r>(reading: &'r Reading, found: &FoundKnob) -> Option<&'r str> {
    let span = match found.state {
        KnobState::Computed(span, _) => span,
        _ => found.value.stretch()?.0,
    };
    let source = reading.sources.get(span.file)?;
    source.text.get(span.start..span.end)
}

/// A variable that Slurm sets to what the job asks for, which is what a launcher takes that is not told.
fn asked(reading: &Reading, spelling: &Spelling) -> Option<FoundKnob> {
    let role = match spelling {
        Spelling::Env(name) if name == "SLURM_GPUS_ON_NODE" => Role::GpusPerNode,
        Spelling::Env(name) if name == "SLURM_JOB_NUM_NODES" => Role::Nodes,
        _ => return None,
    };
    let (count, value) = resources::asked(reading, role)?;
    Some(FoundKnob {
        state: KnobState::Known(Value::Int(i64::from(count))),
        value,
        way: KnobForm::Asked,
        maybe: false,
        launcher: false,
    })
}

/// The last of the words that gives a value in this spelling, and its number.
pub(super) fn in_words(
    words: &[Arg],
    spelling: &Spelling,
    kind: ValueKind,
) -> Option<(usize, FoundKnob)> {
    words.iter().enumerate().rev().find_map(|(at, word)| {
        let text = word.text.as_text();
        let found = match spelling {
            Spelling::Hydra(key) | Spelling::HydraAdd(key) | Spelling::HydraForce(key) => {
                let later = || words[at + 1..].iter().map(|w| w.text.text());
                in_override(word, &text, key, kind).map(|found| FoundKnob {
                    maybe: found.maybe || later().any(|w| replaces(&w, key)),
                    ..found
                })
            }
            Spelling::Flag(flag) => in_flag(words, at, &text, flag.trim_end_matches('='), kind),
            Spelling::Switch(flag) if same_flag(&text, flag) => Some(FoundKnob {
                state: KnobState::Known(Value::Bool(true)),
                value: word.text.clone(),
                way: KnobForm::Switch,
                maybe: word.maybe,
                launcher: false,
            }),
            Spelling::Switch(_) | Spelling::Env(_) | Spelling::Yaml(_) | Spelling::Key(_) => None,
        };
        found.map(|found| (at, found))
    })
}

fn in_override(word: &Arg, text: &str, key: &str, kind: ValueKind) -> Option<FoundKnob> {
    let read = hydra::of(text, key).filter(|o| o.sign != "~")?;
    let value = word.text.slice(read.value.clone()?.start, text.len());
    let written = value.text();
    let state = match (value.unknown(), read.form) {
        (Some((span, why)), _) => KnobState::Computed(span, why),
        (None, hydra::Form::Bare | hydra::Form::Quoted) => parsed(kind, &hydra::meaning(&written)),
        (None, hydra::Form::Compound) => parsed(kind, &written),
        (None, hydra::Form::Interpolation | hydra::Form::Sweep) => KnobState::Text(written),
    };
    Some(FoundKnob {
        state,
        value,
        way: KnobForm::Override {
            added: !read.sign.is_empty(),
        },
        maybe: word.maybe,
        launcher: false,
    })
}

fn in_flag(words: &[Arg], at: usize, text: &str, flag: &str, kind: ValueKind) -> Option<FoundKnob> {
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
                KnobForm::Flag,
                word.maybe,
                kind,
            )
        });
    }
    if name.len() < text.len() {
        let value = word.text.slice(name.len() + 1, text.len());
        return Some(given(value, KnobForm::Flag, word.maybe, kind));
    }
    let next = words.get(at + 1);
    let is_flag = |arg: &Arg| {
        let text = arg.text.text();
        text.starts_with('-') && text.parse::<f64>().is_err()
    };
    match next {
        Some(next) if !is_flag(next) => {
            let maybe = word.maybe || next.maybe;
            Some(given(next.text.clone(), KnobForm::Flag, maybe, kind))
        }
        // A flag of its own is what stands for `true`.
        _ if kind == ValueKind::Bool => Some(FoundKnob {
            state: KnobState::Known(Value::Bool(true)),
            value: word.text.clone(),
            way: KnobForm::Bare,
            maybe: word.maybe,
            launcher: false,
        }),
        _ => None,
    }
}

/// The value in the last of the files that says one. `auto` leaves it to the other files.
fn in_settings(call: &Call, knob: &StackKnob, spelling: &Spelling) -> Option<FoundKnob> {
    let (names, kind) = (setting_names(spelling), knob.kind);
    let files = call.settings.iter().rev();
    let files = files.filter(|file| knob.reader.reads_file(spelling, file.reader));
    let mut found = files.filter_map(|named| {
        let (name, entry) = names
            .iter()
            .filter(|name| call.followed(knob, name).is_none())
            .find_map(|name| Some((name, named.find(name)?)))?;
        let replaced = || call.words.iter().any(|w| replaces(&w.text.text(), name));
        let value = named.content.slice(entry.bytes.start, entry.bytes.end);
        let hidden = value.unknown().or_else(|| call.sets_in_code(named, name));
        let state = match (hidden, &entry.text) {
            (Some((span, why)), _) => KnobState::Computed(span, why),
            (None, Some(text)) => parsed(kind, text),
            (None, None) if kind == ValueKind::List => parsed(kind, &unindented(&value.text())),
            (None, None) => KnobState::Text(value.text()),
        };
        Some(FoundKnob {
            state,
            value,
            way: match named.reached {
                // The words that override it win.
                _ if matches!(spelling, Spelling::Flag(flag) if is_of_keys(flag)) => {
                    KnobForm::Composed
                }
                Reached::Place | Reached::Composed => KnobForm::Composed,
                Reached::Word | Reached::Key => KnobForm::Setting {
                    format: named.says.format(),
                    shared: entry.shared,
                },
            },
            maybe: named.hidden || replaced(),
            launcher: false,
        })
    });
    let first = found.next()?;
    let left_open = first.state == KnobState::Text("auto".to_owned());
    Some(found.find(|_| left_open).unwrap_or(first))
}

/// A list with an item on each line, without what stands before the items.
fn unindented(list: &str) -> String {
    let lines: Vec<&str> = list.lines().map(str::trim).collect();
    lines.join("\n")
}

fn in_environment(
    reading: &Reading,
    call: &Call,
    spelling: &Spelling,
    kind: ValueKind,
) -> Option<FoundKnob> {
    let Spelling::Env(name) = spelling else {
        return None;
    };
    // What the variables of a job hold is not what they hold where it is submitted.
    if name.starts_with("SLURM_") {
        return None;
    }
    let value = match call.variables.get(name) {
        Some(value) => value.clone(),
        None => reading.inherited(name)?,
    };
    Some(given(value, KnobForm::Variable, false, kind))
}

pub(super) fn given(value: Traced, way: KnobForm, maybe: bool, kind: ValueKind) -> FoundKnob {
    let state = match value.unknown() {
        Some((span, why)) => KnobState::Computed(span, why),
        None => parsed(kind, &value.text()),
    };
    FoundKnob {
        state,
        value,
        way,
        maybe,
        launcher: false,
    }
}

fn parsed(kind: ValueKind, text: &str) -> KnobState {
    let lower = text.to_ascii_lowercase();
    let text = match lower.as_str() {
        "true" | "false" if kind == ValueKind::Bool => &lower,
        _ => text,
    };
    // A number with a point is one all the same, where whole numbers are wanted.
    match kind.parse(text) {
        Ok(value) => KnobState::Known(value),
        Err(_) => KnobState::Text(text.to_owned()),
    }
}

/// The knobs of a stack that a call gives, in the preset's order. Of two names for the same bytes the first counts.
pub fn all<'s>(
    reading: &Reading,
    call: &Call,
    stack: &'s Stack,
) -> Vec<(&'s StackKnob, FoundKnob)> {
    let mut all: Vec<(&StackKnob, FoundKnob)> = Vec::new();
    for knob in &stack.knobs {
        if let Some(found) = find(reading, call, knob)
            && !all.iter().any(|(_, other)| other.value == found.value)
        {
            all.push((knob, found));
        }
    }
    all
}
