//! The smallest changes of texts that give a knob another value.

use std::collections::BTreeMap;

use super::append::append;
use super::ask::{Ask, ask as ask_for};
use super::change::{Means, PatchError, TextEdit, WantedValue};
use super::knobs::{FoundKnob, KnobForm, KnobState, find};
use super::stack::Stack;
use super::traced::Span;
use super::uses::{serves_others, ways};
use super::walk::{Call, Reading, ScriptSource};
use super::written::{quoted, written};
use oomctl_base::Value;

/// The changes for one call.
pub(super) fn edits(
    reading: &Reading,
    call: &Call,
    stack: &Stack,
    wishes: &[WantedValue<'_>],
) -> Result<Vec<(String, TextEdit, Means)>, PatchError> {
    let given: Vec<Option<FoundKnob>> =
        wishes.iter().map(|(k, _)| find(reading, call, k)).collect();
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
        if found
            .as_ref()
            .is_some_and(|found| found.way == KnobForm::Asked)
        {
            let ask = knob.role.and_then(|role| Ask::of(role, value));
            let edits = ask.map_or(Ok(Vec::new()), |wish| ask_for(reading, &wish))?;
            done.extend(
                edits
                    .into_iter()
                    .map(|e| (knob.name.clone(), e, Means::InPlace)),
            );
            continue;
        }
        let in_place = found
            .as_ref()
            .and_then(|found| in_place(reading, found, value, ours));
        match in_place {
            Some(edit) => done.push((knob.name.clone(), edit, Means::InPlace)),
            None => {
                let added = append(reading, call, stack, (knob, value), found.as_ref())?;
                let mut added = added.map(|(edit, means)| (knob.name.clone(), edit, means));
                if let Some((_, edit, Means::Appended)) = &mut added {
                    under_one_option(&done, edit);
                }
                done.extend(added);
            }
        }
    }
    Ok(done)
}

/// Leaves out the option before a key that is put behind another key of the same option, of which the last would count alone.
fn under_one_option(done: &[(String, TextEdit, Means)], edit: &mut TextEdit) {
    let option = |text: &str| {
        let word = text.split_whitespace().next().unwrap_or_default();
        word.starts_with('-').then(|| word.to_owned())
    };
    let Some(own) = option(&edit.text).filter(|own| !own.contains('=')) else {
        return;
    };
    let before = |(_, other, _): &(String, TextEdit, Means)| {
        other.span == edit.span && option(&other.text).as_ref() == Some(&own)
    };
    if done.iter().any(before) {
        edit.text = edit.text.replacen(&format!("{own} "), "", 1);
    }
}

/// Changes a value where it stands; None where nothing there says only this value.
fn in_place(
    reading: &Reading,
    found: &FoundKnob,
    value: &Value,
    ours: &[(Span, Vec<Span>)],
) -> Option<TextEdit> {
    let known = matches!(found.state, KnobState::Known(_));
    if !known || found.maybe {
        return None;
    }
    let old = found.value.text();
    if let KnobForm::Setting { shared: true, .. }
    | KnobForm::Composed
    | KnobForm::Code { own: false } = found.way
    {
        return None;
    }
    if found.way == KnobForm::Bare {
        let (span, ..) = found.value.stretch()?;
        let alone = *value == Value::Bool(false) && !serves_others(reading, span, &[], ours);
        let span = Span {
            start: span.end,
            ..span
        };
        let text = "=False".to_owned();
        return alone.then_some(TextEdit { span, text });
    }
    if found.way == KnobForm::Switch {
        let gone = *value == Value::Bool(false);
        let (span, ..) = found.value.stretch()?;
        let alone = !serves_others(reading, span, &[], ours);
        return (gone && alone).then(|| TextEdit {
            span: with_blanks_before(&reading.sources, span),
            text: String::new(),
        });
    }
    let new = written(value, found.way, &old)?;
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
            return quoted(&new, quote).map(|text| TextEdit { span, text });
        }
    }
    None
}

/// The bytes of a word, and the blanks and continued lines before it.
fn with_blanks_before(sources: &[ScriptSource], span: Span) -> Span {
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
