//! A value that is given where none could be changed: where it wins over the one that is there.

use super::change::{Means, PatchError, TextEdit, WantedValue};
use super::configured::ProgramCode;
use super::given_keys::GivenKeys;
use super::hydra;
use super::keyed::option_of_keys;
use super::knobs::{FoundKnob, KnobForm, find};
use super::preface::{exported, shell_holds};
use super::settings::SettingsFormat;
use super::spelling::setting_names;
use super::stack::{Stack, StackKnob};
use super::traced::{Quote, Span};
use super::uses::serves_others;
use super::walk::{ArgumentsEnd, Call, Reading, SettingsFile};
use super::written::{quoted, written};
use crate::Spelling;
use oomctl_base::{Role, Value};

/// Hands a command to a Ray cluster, whose processes have the environment of `ray start` and the job's `runtime_env` (Ray 2.49,
/// "Environment Dependencies").
const RAY_JOB: &str = "ray job submit";
/// Starts the Ray cluster itself.
const RAY_START: &str = "ray start";

/// Gives a value where it wins; None where the program does it without being told.
pub(super) fn append(
    reading: &Reading,
    call: &Call,
    stack: &Stack,
    (knob, value): WantedValue<'_>,
    found: Option<&FoundKnob>,
) -> Result<Option<(TextEdit, Means)>, PatchError> {
    let refused = |why: &str| PatchError::new(&knob.name, why);
    let by_hand = || refused("the value needs quoting; set it by hand");
    let said = FormCounts::of(reading, call, stack);
    let read = call.as_read(knob);
    if found.is_none() && read.spellings.is_empty() {
        let code = call.code.as_ref();
        let edit = code.and_then(|code| in_code(code, knob, value));
        return added(edit).ok_or_else(|| refused("its code has no place for it"));
    }
    let knob = &*read;
    let only_in_files = knob.spellings.iter().all(|s| matches!(s, Spelling::Key(_)));
    let of_files = knob
        .spellings
        .iter()
        .any(|s| !matches!(s, Spelling::Env(_)));
    if found.is_none() && of_files && (only_in_files || said.settings > said.flags.max(said.pairs))
    {
        let mut names = knob.spellings.iter().flat_map(setting_names);
        let edit = names.find_map(|name| in_file(call, stack, &name, value));
        if edit.is_some() || !stack.recognise.words_win {
            let why = "the settings file has no place for it";
            return added(edit).ok_or_else(|| refused(why));
        }
    }
    let none = match found.map(|f| f.way) {
        Some(KnobForm::Setting { shared: true, .. }) => {
            "the same text in the file has another use, or an unusual form".to_owned()
        }
        Some(KnobForm::Code { .. }) => by_hand_in_code(reading, found),
        _ => "the program has no option that overrides the present value".to_owned(),
    };
    let spelling = spelling(call, stack, &said, knob, found).ok_or_else(|| refused(&none))?;
    // The options of what starts the processes do not stand behind the program.
    let counts = knob.role.is_some_and(Role::counts_gpus);
    let told = matches!(spelling, Spelling::Flag(_) | Spelling::Env(_));
    if counts && told || found.is_some_and(|f| f.launcher) {
        return Err(refused(
            "it is an option of the launcher; change it by hand",
        ));
    }
    let way = match spelling {
        Spelling::Flag(_) => KnobForm::Flag,
        Spelling::Switch(_) => KnobForm::Switch,
        Spelling::Env(_) => KnobForm::Variable,
        _ => KnobForm::Override { added: false },
    };
    let new = written(value, way, "").ok_or_else(by_hand)?;
    if let Spelling::Env(name) = spelling {
        let new = quoted(&new, Quote::Bare).ok_or_else(by_hand)?;
        let edit = variable(reading, call, &format!("{name}={new}"));
        return edit
            .map(|edit| Some((edit, Means::Appended)))
            .map_err(refused);
    }
    if call.takes_no_words {
        return Err(refused("the program reads no options"));
    }
    let words = match words(spelling, value, new, found) {
        Ok(words) if words.is_empty() => return Ok(None),
        Ok(words) => behind_the_option(call, spelling, words).map_err(refused)?,
        Err(why) => return Err(refused(why)),
    };
    let end = call.end.as_ref().filter(|end| is_of_one(reading, end));
    let end = end.ok_or_else(|| refused("the command is assembled from several places"))?;
    let words = words.iter().map(|word| quoted(word, end.quote));
    let words: Option<Vec<String>> = words.collect();
    let text = format!("{}{}", end.separator, words.ok_or_else(by_hand)?.join(" "));
    let span = end.span;
    Ok(Some((TextEdit { span, text }, Means::Appended)))
}

/// What is put beside the others.
fn added(edit: Option<TextEdit>) -> Option<Option<(TextEdit, Means)>> {
    edit.map(|edit| Some((edit, Means::Added)))
}

/// A variable for a command; or why not.
fn variable(reading: &Reading, call: &Call, assignment: &str) -> Result<TextEdit, &'static str> {
    let of_ray = call.launchers.iter().any(|l| l == RAY_JOB);
    if of_ray && !shell_holds(reading, &[RAY_START]) {
        return Err(
            "a Ray job does not hand it to its workers; add it to env_vars of --runtime-env-json",
        );
    }
    // Before the command where that stands in one place, else for all that the script starts.
    let edit = match call.start.filter(|_| !of_ray) {
        Some(span) => Some(TextEdit {
            span: Span {
                end: span.start,
                ..span
            },
            text: format!("{assignment} "),
        }),
        None => exported(reading, assignment),
    };
    edit.ok_or("the command appears in several places")
}

/// That somebody has to change a value in the program's code, and where.
fn by_hand_in_code(reading: &Reading, found: Option<&FoundKnob>) -> String {
    let span = found.and_then(FoundKnob::place);
    match span.and_then(|span| reading.place(span)) {
        Some(place) => format!("it stands in {place}, which oomctl cannot change; set it there"),
        None => "the program sets it in its code; set it there".to_owned(),
    }
}

/// An argument more for the class that a program fills, or for the call that takes it.
fn in_code(code: &ProgramCode, knob: &StackKnob, value: &Value) -> Option<TextEdit> {
    let (name, room) = code.room(&knob.spellings)?;
    let text = match value {
        Value::Text(_) => format!("\"{}\"", written(value, KnobForm::Code { own: true }, "")?),
        other => written(other, KnobForm::Code { own: true }, "")?,
    };
    let (span, quote, via) = room.end.stretch()?;
    let text = format!("{}{name}={text}", room.separator);
    let fits = !room.taken.contains(&name) && via.is_empty();
    (fits && matches!(quote, Quote::Raw | Quote::Here)).then_some(TextEdit { span, text })
}

/// Whether words that are put there go to this command alone.
fn is_of_one(reading: &Reading, end: &ArgumentsEnd) -> bool {
    end.through.as_ref().is_none_or(|(span, known, all)| {
        let ours = [(*span, all.clone())];
        !serves_others(reading, *span, known, &ours)
    })
}

/// The words without the option that takes them where that is the last one of the command already. A second one would take the
/// place of the first.
fn behind_the_option(
    call: &Call,
    spelling: &Spelling,
    words: Vec<String>,
) -> Result<Vec<String>, &'static str> {
    let Some(option) = option_of_keys(spelling) else {
        return Ok(words);
    };
    let own = call.own_texts();
    let last = own.iter().rfind(|word| word.starts_with('-'));
    match (own.iter().any(|word| word == option), last) {
        (false, _) => Ok(words),
        (true, Some(last)) if last == option => Ok(words[1..].to_vec()),
        _ => Err("the option that takes it stands before others; set it there by hand"),
    }
}

/// The words that give a value; none where nothing need be said.
fn words(
    spelling: &Spelling,
    value: &Value,
    new: String,
    found: Option<&FoundKnob>,
) -> Result<Vec<String>, &'static str> {
    let added = found.is_some_and(|f| f.way == KnobForm::Override { added: true });
    Ok(match spelling {
        Spelling::Hydra(path) if added => vec![format!("++{path}={new}")],
        Spelling::Hydra(path) => vec![format!("{path}={new}")],
        Spelling::HydraAdd(path) if found.is_none() => vec![format!("+{path}={new}")],
        Spelling::HydraAdd(path) | Spelling::HydraForce(path) => vec![format!("++{path}={new}")],
        // A key behind the option that takes it.
        Spelling::Flag(flag) if flag.contains(' ') => {
            let flag = format!("{flag}{}{new}", if flag.ends_with('=') { "" } else { " " });
            flag.split(' ').map(str::to_owned).collect()
        }
        Spelling::Flag(flag) if flag.ends_with('=') => vec![format!("{flag}{new}")],
        Spelling::Flag(flag) => vec![flag.clone(), new],
        Spelling::Switch(flag) if *value == Value::Bool(true) => vec![flag.clone()],
        Spelling::Switch(_) if found.is_none() => Vec::new(),
        Spelling::Switch(_) => return Err("the flag is set under a condition"),
        Spelling::Env(_) => Vec::new(),
        Spelling::Yaml(_) | Spelling::Key(_) => {
            return Err("only a file sets it, and the same text there has another use");
        }
    })
}

/// A key more in the file that gives most of the stack's knobs, the last one of several.
fn in_file(call: &Call, stack: &Stack, name: &str, value: &Value) -> Option<TextEdit> {
    let gives = |named: &&SettingsFile| {
        let knobs = stack.knobs.iter();
        knobs.filter(|knob| given_by(named, knob)).count()
    };
    let files = call.settings.iter();
    let files = files.filter(|file| !file.reached.by_place());
    // A key in a mapping belongs to a file that has the mapping.
    let outer = name.split_once('.').map(|(outer, _)| outer);
    let holds = |file: &&SettingsFile| outer.is_some_and(|outer| file.says.find(outer).is_some());
    let named = files.max_by_key(|file| (holds(file), gives(file)))?;
    let format = named.says.format();
    let way = KnobForm::Setting {
        format,
        shared: false,
    };
    let textual = matches!(value, Value::Text(_)) && format == SettingsFormat::Json;
    let new = written(value, way, if textual { "\"" } else { "" })?;
    let (at, text) = named.says.room(&named.content.text(), name, &new)?;
    let bytes = named.content.slice(at, at);
    let (span, quote, via) = bytes.stretch()?;
    let lines = text.replace('\n', "");
    let fits = via.is_empty() && matches!(quote, Quote::Raw | Quote::Here);
    (fits && quoted(&lines, quote).as_deref() == Some(&lines)).then_some(TextEdit { span, text })
}

/// Whether a file says a knob itself. A key that another program's file may have (`key:`) says less than one of the
/// stack's own, and `auto` says nothing.
fn given_by(named: &SettingsFile, knob: &StackKnob) -> bool {
    let own = knob
        .spellings
        .iter()
        .any(|s| !matches!(s, Spelling::Key(_)));
    let spellings = knob.spellings.iter();
    let spellings = spellings.filter(|s| !own || !matches!(s, Spelling::Key(_)));
    let mut entries = spellings.flat_map(setting_names);
    entries.any(|name| {
        let entry = named.find(&name);
        entry.is_some_and(|e| e.text.as_deref() != Some("auto"))
    })
}

/// How many knobs a call gives in each form.
struct FormCounts {
    flags: usize,
    pairs: usize,
    settings: usize,
}

impl FormCounts {
    fn of(reading: &Reading, call: &Call, stack: &Stack) -> Self {
        let mut said = Self {
            flags: 0,
            pairs: 0,
            settings: 0,
        };
        for knob in &stack.knobs {
            let Some(found) = find(reading, call, knob).filter(|f| !f.launcher) else {
                continue;
            };
            match found.way {
                KnobForm::Flag | KnobForm::Bare | KnobForm::Switch => said.flags += 1,
                KnobForm::Override { .. } | KnobForm::Composed => said.pairs += 1,
                KnobForm::Setting { .. } => {
                    let mut files = call.settings.iter();
                    said.settings += usize::from(files.any(|named| given_by(named, knob)));
                }
                KnobForm::Variable | KnobForm::Asked | KnobForm::Code { .. } => {}
            }
        }
        said
    }
}

/// The spelling in which a value is added: the form that it has, else the one that most of the words have.
fn spelling<'k>(
    call: &Call,
    stack: &Stack,
    said: &FormCounts,
    knob: &'k StackKnob,
    found: Option<&FoundKnob>,
) -> Option<&'k Spelling> {
    let pair = |s: &&Spelling| {
        matches!(
            s,
            Spelling::Hydra(_) | Spelling::HydraAdd(_) | Spelling::HydraForce(_)
        )
    };
    let flag = |s: &&Spelling| matches!(s, Spelling::Flag(_) | Spelling::Switch(_));
    let variable = |s: &&Spelling| matches!(s, Spelling::Env(_));
    let of_yacs = |s: &&Spelling| matches!(s, Spelling::Flag(key) if !key.starts_with('-'));
    let texts = call.own_texts();
    let given = GivenKeys::of(&texts);
    // The one that the words have, or else a file, comes before the others.
    let in_files = |s: &&Spelling| {
        let names = setting_names(s);
        let says = |file: &SettingsFile| names.iter().any(|name| file.find(name).is_some());
        call.settings.iter().any(says)
    };
    let of = |is: &dyn Fn(&&Spelling) -> bool| {
        let there = |s: &&Spelling| given.has(s.name());
        let mut all = knob.spellings.iter().filter(is);
        let mut words = all.clone();
        let mut files = all.clone();
        let found = words.find(there).or_else(|| files.find(in_files));
        found.or_else(|| all.next())
    };
    if let Some(found) = found {
        let by_text = matches!(found.way, KnobForm::Code { .. } | KnobForm::Composed);
        let keyed = call.keyed(knob).filter(|_| by_text);
        if let Some(keyed) = keyed.and_then(|keyed| knob.spellings.iter().find(|s| **s == keyed)) {
            return Some(keyed);
        }
        return match found.way {
            KnobForm::Override { .. } => of(&pair),
            KnobForm::Composed => of(&pair).or_else(|| of(&of_yacs)),
            KnobForm::Flag | KnobForm::Bare => of(&|s| matches!(s, Spelling::Flag(_))),
            KnobForm::Code { .. } => of(&|s| flag(s) || variable(s)),
            KnobForm::Switch => of(&flag),
            KnobForm::Variable => of(&variable),
            // Words win over a file, in a program that is told by words, too.
            KnobForm::Setting { .. } if said.pairs > 0 => of(&pair),
            KnobForm::Setting { .. } if said.flags > 0 => of(&flag),
            KnobForm::Setting { .. } | KnobForm::Asked => None,
        };
    }
    let (mut flags, mut pairs) = (said.flags, said.pairs);
    if flags + pairs == 0 {
        flags = texts.iter().filter(|w| w.starts_with("--")).count();
        pairs = texts.iter().filter(|w| hydra::read(w).is_some()).count();
    }
    // As most of the others are spelled, where the stack has several ways.
    let style = stack.style(call);
    let all = knob.spellings.iter().zip(&knob.styles);
    let (first, rest): (Vec<_>, Vec<_>) = all.partition(|(_, s)| **s == style);
    let kinds = first.into_iter().chain(rest).map(|(spelling, _)| spelling);
    let kinds: Vec<&Spelling> = kinds.filter(|s| pair(s) || flag(s)).collect();
    let by_words = match (flags + pairs, kinds.as_slice()) {
        (0, [only]) => Some(*only),
        (0, _) => None,
        (_, kinds) if flags > pairs => kinds.iter().copied().find(flag),
        (_, kinds) => kinds.iter().copied().find(pair),
    };
    let any = kinds.first().copied().filter(|_| stack.recognise.words_win);
    by_words
        .or(any)
        .or_else(|| knob.spellings.iter().find(variable))
}
