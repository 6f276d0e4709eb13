//! The keys of a `config.json`: which section describes the decoder, and numbers within their bounds.

use serde_json::{Map, Value};

use crate::Unknown;
use oomctl_base::line_and_column;

/// Keys under which a model of several parts keeps the configuration of its decoder.
const SECTIONS: [&str; 3] = ["text_config", "llm_config", "language_config"];

/// The keys that describe the decoder. `null` counts as absent.
pub(super) struct DecoderFields<'a> {
    /// Name of the section, with a point; empty where the decoder stands at the top.
    section: String,
    decoder: &'a Map<String, Value>,
    top: &'a Map<String, Value>,
}

fn given<'a>(map: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    map.get(name).filter(|v| !v.is_null())
}

impl<'a> DecoderFields<'a> {
    pub(super) fn new(top: &'a Map<String, Value>) -> Self {
        let mut sections = SECTIONS.iter().filter_map(|s| Some((s, top.get(*s)?)));
        let section = sections.find_map(|(s, v)| Some((s, v.as_object()?)));
        match section {
            Some((name, decoder)) => Self {
                section: format!("{name}."),
                decoder,
                top,
            },
            None => Self::part(top, ""),
        }
    }

    /// The keys of another part, under `section`.
    pub(super) fn part(map: &'a Map<String, Value>, section: &str) -> Self {
        Self {
            section: section.to_owned(),
            decoder: map,
            top: map,
        }
    }

    /// A part beside the decoder.
    pub(super) fn beside(&self, name: &str) -> Option<&'a Value> {
        given(self.top, name)
    }

    /// The name of a key, with its section.
    pub(super) fn name(&self, key: &str) -> String {
        format!("{}{key}", self.section)
    }

    pub(super) fn fault(&self, key: &str, why: impl Into<String>) -> Unknown {
        Unknown::new(&self.name(key), why)
    }

    pub(super) fn get(&self, key: &str) -> Option<&'a Value> {
        given(self.decoder, key)
    }

    /// Names of the decoder's keys that have a value.
    pub(super) fn keys(&self) -> impl Iterator<Item = &'a str> {
        let keys = self.decoder.iter().filter(|(_, v)| !v.is_null());
        keys.map(|(k, _)| k.as_str())
    }

    /// Text, from the decoder's section or else from the top.
    pub(super) fn text(&self, key: &str) -> Option<&'a str> {
        self.get(key).or_else(|| given(self.top, key))?.as_str()
    }

    /// A switch, from the decoder's section or else from the top.
    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, Unknown> {
        match self.get(key).or_else(|| given(self.top, key)) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(other) => Err(self.fault(key, format!("{other} is neither true nor false"))),
        }
    }

    /// A whole number from 0 to `most`, under any of its names; those that are given must agree.
    pub(super) fn count(&self, names: &[&str], most: f64) -> Result<Option<f64>, Unknown> {
        let mut found: Option<(&str, f64)> = None;
        for name in names {
            let Some(value) = self.get(name) else {
                continue;
            };
            let number = value.as_f64().filter(|x| x.fract() == 0.0 && *x >= 0.0);
            let Some(number) = number else {
                return Err(self.fault(name, format!("{value} is not a whole number")));
            };
            if number > most {
                let why = format!("{value} is more than any model has (at most {most})");
                return Err(self.fault(name, why));
            }
            match found {
                Some((other, x)) if x != number => {
                    return Err(self.fault(name, format!("{number} contradicts {other} = {x}")));
                }
                Some(_) => {}
                None => found = Some((name, number)),
            }
        }
        Ok(found.map(|(_, x)| x))
    }

    /// As `count`, but not 0.
    pub(super) fn size(&self, names: &[&str], most: f64) -> Result<Option<f64>, Unknown> {
        match self.count(names, most)? {
            Some(0.0) => Err(self.fault(self.first_given(names), "0 is no size")),
            other => Ok(other),
        }
    }

    /// As `size`, for what no model lacks.
    pub(super) fn needed(&self, names: &[&str], most: f64) -> Result<f64, Unknown> {
        self.size(names, most)?.ok_or_else(|| self.missing(names))
    }

    /// The fault of a key that is missing under all its names.
    pub(super) fn missing(&self, names: &[&str]) -> Unknown {
        let why = match names.get(1..) {
            Some(others) if !others.is_empty() => {
                format!(
                    "is required, under its other names ({}) too",
                    others.join(", ")
                )
            }
            _ => "is required".to_owned(),
        };
        self.fault(names.first().unwrap_or(&""), why)
    }

    /// The name under which a key was given.
    pub(super) fn first_given<'n>(&self, names: &[&'n str]) -> &'n str {
        let given = names.iter().find(|n| self.get(n).is_some());
        given.or(names.first()).unwrap_or(&"")
    }
}

/// Line and column, from 1, of a key in the text of a `config.json`; the start of the text for one that does
/// not stand there. Of `section.key` the first key behind the section's name.
pub fn place_of(text: &str, field: &str) -> (u32, u32) {
    let mut at = 0;
    for part in field.split('.') {
        let Some(found) = key_at(text, part, at) else {
            break;
        };
        at = found;
    }
    let (line, column) = line_and_column(text, at);
    let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    (small(line), small(column))
}

/// Where a key stands behind `from`: its quoted name with a colon after it.
fn key_at(text: &str, key: &str, from: usize) -> Option<usize> {
    let quoted = format!("\"{key}\"");
    let mut places = text.get(from..)?.match_indices(&quoted);
    let place = places.find(|(at, _)| {
        let rest = text.get(from + at + quoted.len()..).unwrap_or("");
        rest.trim_start().starts_with(':')
    });
    place.map(|(at, _)| from + at)
}
