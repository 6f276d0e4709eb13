//! The smallest changes of texts that give a knob another value.

use std::collections::BTreeMap;

use super::knobs::{Found, State, Way, find, ways};
use super::settings::Format;
use super::stack::StackKnob;
use super::traced::{Quote, Span};
use super::walk::{Call, Reading, Source};
use crate::core::recipe::{Kind, Spelling, Value};

/// Other bytes at a place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edit {
    /// The bytes that go; none where something is added.
    pub span: Span,
    /// What stands there instead.
    pub text: String,
}

/// How a knob comes to its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// The value was changed where it stands.
    InPlace,
    /// The value could not be changed where it stands, or was not given: it is given behind all others, where it
    /// wins.
    Appended,
}

/// A change that cannot be made, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The knob.
    pub knob: String,
    /// Why, for people.
    pub why: String,
}

/// A knob and the value that it is to have.
pub(super) type Wish<'a> = (&'a StackKnob, &'a Value);

/// The changes for one call.
pub(super) fn edits(
    reading: &Reading,
    call: &Call,
    wishes: &[Wish<'_>],
) -> Result<Vec<(String, Edit, Means)>, Refused> {
    let given: Vec<Option<Found>> = wishes.iter().map(|(k, _)| find(reading, call, k)).collect();
    // The ways of all values that become the same text: a literal that they share may change for all of them.
    let mut shared: BTreeMap<String, Vec<(Span, Vec<Span>)>> = BTreeMap::new();
    for ((_, value), found) in wishes.iter().zip(&given) {
        if let Some(found) = found {
            let all = shared.entry(value.to_string()).or_default();
            all.extend(ways(&found.value));
        }
    }
    let mut done = Vec::new();
    for ((knob, value), found) in wishes.iter().zip(&given) {
        let ours = shared
            .get(&value.to_string())
            .map_or(&[][..], Vec::as_slice);
        let in_place = found
            .as_ref()
            .and_then(|found| in_place(reading, found, value, knob.kind, ours));
        match in_place {
            Some(edit) => done.push((knob.name.clone(), edit, Means::InPlace)),
            None => {
                let added = append(call, knob, value, found.as_ref())?;
                done.extend(added.map(|edit| (knob.name.clone(), edit, Means::Appended)));
            }
        }
    }
    Ok(done)
}

/// Changes a value where it stands; None where nothing there says only this value.
fn in_place(
    reading: &Reading,
    found: &Found,
    value: &Value,
    kind: Kind,
    ours: &[(Span, Vec<Span>)],
) -> Option<Edit> {
    let known = matches!(found.state, State::Known(_));
    if !known || found.maybe {
        return None;
    }
    let old = found.value.text();
    if found.way == Way::Switch {
        let gone = *value == Value::Bool(false);
        let (span, ..) = found.value.stretch()?;
        let alone = !serves_others(reading, span, &[], ours);
        return (gone && alone).then(|| Edit {
            span: with_blanks_before(&reading.sources, span),
            text: String::new(),
        });
    }
    let new = written(value, kind, found.way, &old)?;
    let (literal, quote, via) = found.value.stretch()?;
    let uses: Vec<Span> = via.iter().rev().map(|u| u.span).collect();
    for level in 0..=uses.len() {
        if level > 0 && *via[via.len() - level].whole != *old {
            return None;
        }
        if !serves_others(reading, literal, &uses[..level], ours) {
            let (span, quote) = match level {
                0 => (literal, quote),
                _ => (uses[level - 1], via[via.len() - level].quote),
            };
            return fits(&new, quote).then_some(Edit { span, text: new });
        }
    }
    None
}

/// Whether a literal, on the way `uses` so far, goes on to anything but the values that change.
fn serves_others(
    reading: &Reading,
    literal: Span,
    uses: &[Span],
    ours: &[(Span, Vec<Span>)],
) -> bool {
    let here = |span: &Span| {
        span.file == literal.file
            && span.start < literal.end.max(literal.start + 1)
            && literal.start < span.end.max(span.start + 1)
    };
    let on_the_way = |way: &[Span]| way.starts_with(uses);
    let mut others = reading.uses.iter();
    reading.cut
        || others.any(|(span, way)| {
            let known = |(own, all): &(Span, Vec<Span>)| here(own) && all.starts_with(way);
            here(span) && on_the_way(way) && !ours.iter().any(known)
        })
}

/// A value as it is written in place of `old`; None where it would have to be quoted.
fn written(value: &Value, kind: Kind, way: Way, old: &str) -> Option<String> {
    let quote = old.chars().next().filter(|c| matches!(c, '"' | '\''));
    let text = match value {
        Value::Bool(on) => {
            let small = old
                .trim_matches(['"', '\''])
                .starts_with(char::is_lowercase);
            let small = small || matches!(way, Way::Setting(_));
            match (on, small) {
                (true, true) => "true",
                (true, false) => "True",
                (false, true) => "false",
                (false, false) => "False",
            }
            .to_owned()
        }
        Value::Null | Value::List(_) | Value::Map(_) => return None,
        other => other.to_string(),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./:@%+-".contains(c);
    if text.is_empty() || !text.chars().all(plain) {
        return None;
    }
    let textual = !matches!(kind, Kind::Int | Kind::Float | Kind::Bool);
    let quoted = |q: char| Some(format!("{q}{text}{q}"));
    match (way, quote) {
        // Text that reads as something else is text between quotes only.
        (Way::Override { .. } | Way::Setting(_), Some(q)) => quoted(q),
        (Way::Setting(Format::Json | Format::Toml), None) if textual => quoted('"'),
        (Way::Override { .. } | Way::Setting(_), None) if textual && ambiguous(&text) => None,
        _ => Some(text),
    }
}

/// Whether text would be read as a number, a boolean or null.
fn ambiguous(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    matches!(
        lower.as_str(),
        "true" | "false" | "null" | "yes" | "no" | "on" | "off"
    ) || text.replace('_', "").parse::<f64>().is_ok()
        || text.ends_with(':')
}

/// Whether bytes mean themselves in these quotes.
fn fits(text: &str, quote: Quote) -> bool {
    match quote {
        Quote::Raw => true,
        Quote::Single => !text.contains('\''),
        Quote::Double | Quote::Here => !text.contains(['"', '$', '`', '\\']),
        Quote::Bare | Quote::Nested => {
            let plain = |c: char| c.is_ascii_alphanumeric() || "_./:@%+-=".contains(c);
            text.chars().all(plain)
        }
    }
}

/// The bytes of a word, and the blanks and continued lines before it.
fn with_blanks_before(sources: &[Source], span: Span) -> Span {
    let text = sources.get(span.file).map_or("", |s| s.text.as_str());
    let before = text.get(..span.start).unwrap_or_default();
    let kept = before.trim_end_matches([' ', '\t']);
    let kept = match kept.strip_suffix("\\\n") {
        Some(line) => line.trim_end_matches([' ', '\t']),
        None => kept,
    };
    Span {
        start: kept.len(),
        ..span
    }
}

/// Gives a value behind all others; None where the program does it without being told.
fn append(
    call: &Call,
    knob: &StackKnob,
    value: &Value,
    found: Option<&Found>,
) -> Result<Option<Edit>, Refused> {
    let refused = |why: &str| Refused {
        knob: knob.name.clone(),
        why: why.to_owned(),
    };
    let spelling = spelling(call, knob, found).ok_or_else(|| {
        refused("the program has no option that would win over the value that it is given")
    })?;
    let way = match spelling {
        Spelling::Flag(_) => Way::Flag,
        Spelling::Switch(_) => Way::Switch,
        Spelling::Env(_) => Way::Variable,
        _ => Way::Override { added: false },
    };
    let new = match way {
        Way::Switch => String::new(),
        _ => written(value, knob.kind, way, "")
            .ok_or_else(|| refused("the value would have to be quoted; put it in by hand"))?,
    };
    if let Spelling::Env(name) = spelling {
        let span = call
            .start
            .ok_or_else(|| refused("the command stands in several places"))?;
        let span = Span {
            end: span.start,
            ..span
        };
        let text = format!("{name}={new} ");
        return Ok(Some(Edit { span, text }));
    }
    let words = match spelling {
        Spelling::Hydra(path) if added(found) => format!("++{path}={new}"),
        Spelling::Hydra(path) => format!("{path}={new}"),
        Spelling::HydraAdd(path) if found.is_none() => format!("+{path}={new}"),
        Spelling::HydraAdd(path) | Spelling::HydraForce(path) => format!("++{path}={new}"),
        Spelling::Flag(flag) if flag.ends_with('=') => format!("{flag}{new}"),
        Spelling::Flag(flag) => format!("{flag} {new}"),
        Spelling::Switch(flag) if *value == Value::Bool(true) => flag.clone(),
        Spelling::Switch(_) if found.is_none() => return Ok(None),
        Spelling::Switch(_) => return Err(refused("the flag is given under a condition")),
        Spelling::Env(_) => String::new(),
        Spelling::Yaml(_) => return Err(refused("its place is a file that is not read here")),
    };
    let end = call.end.as_ref();
    let end = end.ok_or_else(|| refused("the command is put together from several places"))?;
    if end.quote == Quote::Nested {
        return Err(refused("the command stands in quotes within quotes"));
    }
    let text = format!("{}{words}", end.separator);
    Ok(Some(Edit {
        span: end.span,
        text,
    }))
}

fn added(found: Option<&Found>) -> bool {
    found.is_some_and(|f| f.way == Way::Override { added: true })
}

/// The spelling in which a value is added: the form that it has, else the one that most of the words have.
fn spelling<'k>(call: &Call, knob: &'k StackKnob, found: Option<&Found>) -> Option<&'k Spelling> {
    let is = |s: &&Spelling, way: Way| match way {
        Way::Override { .. } => matches!(
            s,
            Spelling::Hydra(_) | Spelling::HydraAdd(_) | Spelling::HydraForce(_)
        ),
        Way::Flag => matches!(s, Spelling::Flag(_)),
        Way::Switch => matches!(s, Spelling::Switch(_) | Spelling::Flag(_)),
        Way::Variable => matches!(s, Spelling::Env(_)),
        Way::Setting(_) => false,
    };
    let same = found.and_then(|found| knob.spellings.iter().find(|s| is(s, found.way)));
    let words = &call.words[call.args.min(call.words.len())..];
    let flags = words
        .iter()
        .filter(|w| w.text.text().starts_with("--"))
        .count();
    let pairs = words
        .iter()
        .filter(|w| super::hydra::read(&w.text.text()).is_some())
        .count();
    let kinds = |s: &&Spelling| !matches!(s, Spelling::Env(_));
    let only = knob.spellings.iter().filter(kinds).count() == 1;
    let styled = || {
        if flags + pairs == 0 {
            return knob.spellings.iter().find(kinds).filter(|_| only);
        }
        let way = match flags > pairs {
            true => Way::Flag,
            false => Way::Override { added: false },
        };
        let mut all = knob.spellings.iter();
        let switch = |s: &&Spelling| flags > pairs && matches!(s, Spelling::Switch(_));
        all.find(|s| is(s, way) || switch(s))
    };
    let none = flags + pairs == 0 && found.is_some();
    same.or_else(|| if none { None } else { styled() })
        .or_else(|| {
            knob.spellings
                .iter()
                .find(|s| matches!(s, Spelling::Env(_)))
        })
}
