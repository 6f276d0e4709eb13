//! Presets, knob sets and ladders from text.

use serde::de::DeserializeOwned;

use super::ConfigError;
use super::document::LadderEntry;
use super::node::MAX_FILE;
use crate::core::recipe::{KnobSetFile, PresetFile, RungSpec, changed};
use oomctl_base::{Problem, ProblemPlace, meant};

/// Reads a preset file.
///
/// # Errors
/// Unknown fields, wrong types and missing fields, with their place.
pub fn parse_preset(path: &str, text: &str) -> Result<PresetFile, ConfigError> {
    parse_data(path, text)
}

/// Reads a knob set file.
///
/// # Errors
/// As `parse_preset`.
pub fn parse_knob_set(path: &str, text: &str) -> Result<KnobSetFile, ConfigError> {
    parse_data(path, text)
}

/// Reads a file of data whose type another part owns.
///
/// # Errors
/// As `parse_preset`.
pub fn parse_data<T: DeserializeOwned>(path: &str, text: &str) -> Result<T, ConfigError> {
    if text.len() > MAX_FILE {
        return Err(ConfigError::plain(path, "the file is larger than 1 MiB"));
    }
    let options = serde_yaml::options! { strict_booleans: true };
    serde_yaml::from_str_with_options(text, options).map_err(|e| ConfigError::yaml(path, text, &e))
}

/// The ladder of a project over that of its preset: entries in their order; a name takes the
/// preset's rung, fields change it, or define a new one.
///
/// # Errors
/// Names that the preset lacks and fields that no rung has.
pub fn merge_ladder(
    preset: &[RungSpec],
    entries: Option<&[LadderEntry]>,
) -> Result<Vec<RungSpec>, Problem> {
    let Some(entries) = entries else {
        return Ok(preset.to_vec());
    };
    entries.iter().map(|e| merge_rung(preset, e)).collect()
}

fn merge_rung(preset: &[RungSpec], entry: &LadderEntry) -> Result<RungSpec, Problem> {
    let known = preset.iter().find(|r| r.rung == entry.rung);
    if let (Some(rung), true) = (known, entry.fields.is_empty()) {
        return Ok(rung.clone());
    }
    let fault = |what: String| Problem {
        what,
        places: vec![ProblemPlace {
            label: entry.rung.clone(),
            origin: entry.origin.clone(),
        }],
        hint: None,
    };
    if known.is_none() && !entry.fields.contains_key("moves") {
        let problem = fault(format!("the preset has no rung named {}", entry.rung));
        let question = meant(&entry.rung, preset.iter().map(|r| r.rung.as_str()));
        let new = || "a new rung needs `title` and `moves`".to_owned();
        return Err(problem.hint(question.unwrap_or_else(new)));
    }
    let fields = entry.fields.clone();
    let merged = match known {
        Some(rung) => changed(rung, fields),
        None => serde_json::from_value(fields.into()),
    };
    merged.map_err(|e| fault(format!("rung {}: {e}", entry.rung)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_which_everything_is_missing_is_refused_at_its_start() {
        for text in ["", "!tag"] {
            let error = parse_preset("p.yaml", text).unwrap_err();
            assert_eq!((error.line, error.column), (Some(1), Some(1)), "{text:?}");
        }
    }
}
