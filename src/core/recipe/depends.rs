//! The knobs on which expressions depend.

use std::collections::BTreeSet;

use super::expr::{self, Scope};
use super::preset::Rule;
use super::stack::Preset;

/// The knobs that a rule looks at, through derived values too.
pub fn knobs_of(preset: &Preset, rule: &Rule) -> BTreeSet<String> {
    let texts = std::iter::once(rule.must.as_str()).chain(rule.when.as_deref());
    knobs_in(preset, texts)
}

/// The rules that look at a knob and apply to these values, with their names.
pub fn rules_about(preset: &Preset, knob: &str, scope: &Scope) -> Vec<String> {
    let applies = |when: &String| expr::holds(preset.env(), when, scope).unwrap_or(true);
    let rules = preset.rules.iter();
    let about = rules.filter(|rule| knobs_of(preset, rule).contains(knob));
    let about = about.filter(|rule| rule.when.as_ref().is_none_or(applies));
    about.map(|r| format!("{}: {}", r.name, r.must)).collect()
}

/// The knobs that some expressions look at, through derived values too.
pub fn knobs_in<'a>(preset: &Preset, texts: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let mut knobs = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let uses = |text: &str| {
        preset
            .env()
            .compile_expression(text)
            .map(|e| expr::names(&e))
            .unwrap_or_default()
    };
    let mut open: Vec<String> = texts.flat_map(uses).collect();
    while let Some(name) = open.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        let first = name.split('.').next().unwrap_or(&name).to_owned();
        if preset.knobs.iter().any(|k| k.name == name) {
            knobs.insert(name);
        } else if let Some(d) = preset.derived.iter().find(|d| d.name == first) {
            open.extend(uses(&d.expr));
        } else if preset.knobs.iter().any(|k| k.name == first) {
            knobs.insert(first);
        }
    }
    knobs
}
