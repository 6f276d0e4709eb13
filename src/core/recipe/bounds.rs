//! What a value may be by itself: least, greatest, one of some choices.

use std::cell::OnceCell;

use regex::Regex;

use super::knob::Knob;
use oomctl_base::Value;

/// What is wrong with a value by itself, if anything.
pub fn bounds(knob: &Knob, value: &Value) -> Option<String> {
    bounds_by(knob, value, &OnceCell::new())
}

/// The same with a place for the compiled pattern.
pub(super) fn bounds_by(
    knob: &Knob,
    value: &Value,
    compiled: &OnceCell<Option<Regex>>,
) -> Option<String> {
    if value.is_null() {
        return knob
            .required
            .then(|| format!("{} must have a value", knob.name));
    }
    if let Some(x) = value.number(knob.kind) {
        let end = |end: f64| Value::from_number(knob.kind, end);
        if let Some(min) = knob.min.filter(|min| x < *min) {
            let (name, min) = (&knob.name, end(min));
            return Some(format!("{name} = {value} is below its least value {min}"));
        }
        if let Some(max) = knob.max.filter(|max| x > *max) {
            let (name, max) = (&knob.name, end(max));
            return Some(format!(
                "{name} = {value} is above its greatest value {max}"
            ));
        }
    }
    let text = value.to_string();
    let chosen = match value {
        Value::List(items) => items.iter().find(|i| !knob.choices.contains(i)),
        _ => Some(&text).filter(|t| !knob.choices.contains(t)),
    };
    if let Some(text) = chosen.filter(|_| !knob.choices.is_empty()) {
        return Some(format!(
            "{} = {text} is not one of {}",
            knob.name,
            knob.choices.join(", ")
        ));
    }
    let pattern = knob.pattern.as_ref()?;
    let compile = || Regex::new(&format!(r"\A(?:{pattern})\z")).ok();
    let whole = compiled.get_or_init(compile).as_ref()?;
    let fits = match value {
        Value::List(items) => items.iter().all(|i| whole.is_match(i)),
        _ => whole.is_match(&text),
    };
    (!fits).then(|| {
        format!(
            "{} = {text:?} has characters that are not allowed there",
            knob.name
        )
    })
}
