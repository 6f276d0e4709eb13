//! Files of the user's of which attempts get a copy: found by the knobs that name them, and read.

use std::collections::BTreeMap;
use std::path::Path;

use crate::cli::request::known::ENVIRONMENT;
use crate::core::memory::naming;
use crate::core::recipe::copies::{Original, asked_variables, layer};
use crate::core::recipe::{Layer, Preset, Scalar};
use crate::core::request::split;
use crate::io::environment;
use crate::io::files::read_text;
use crate::view::CommandFailure;
use oomctl_base::{Origin, Value};

/// Largest file that is copied, in bytes.
const MAX_FILE: u64 = 1 << 20;
/// The knob for lines of shell before the program.
const SETUP: &str = "setup";

/// Reads the files that a preset copies, and puts what they say below all layers.
pub fn read(
    folder: &Path,
    preset: &Preset,
    layers: &mut Vec<Layer>,
) -> Result<BTreeMap<String, Original>, CommandFailure> {
    let mut originals = BTreeMap::new();
    for file in &preset.files {
        let named = file
            .copy
            .as_ref()
            .and_then(|knob| path(preset, layers, knob));
        let Some((path, origin)) = named else {
            continue;
        };
        let text = read_text(&folder.join(&path), MAX_FILE).map_err(|e| {
            let knob = file.copy.as_deref().unwrap_or_default();
            let mut failure = CommandFailure::configuration(e.to_string());
            if let Some(origin) = &origin {
                failure = failure.at(origin);
            }
            failure.hint(format!("{knob} names the file, below {}", folder.display()))
        })?;
        let original = Original {
            variables: variables(&text, layers),
            path,
            text,
        };
        originals.insert(file.name.clone(), original);
    }
    let said = layer(preset, &originals)?;
    if !said.settings.is_empty() {
        layers.insert(0, said);
    }
    Ok(originals)
}

/// The variables that a text asks for, as far as the job has them: of the configuration, or else of this process.
fn variables(text: &str, layers: &[Layer]) -> BTreeMap<String, Option<String>> {
    let given = |knob: &str| {
        let mut from_top = layers.iter().rev();
        from_top.find_map(|layer| Some(&layer.settings.get(knob)?.value))
    };
    let own = environment::variables();
    let written_down = split(&own, &[]).variables;
    let value = |name: &str| match (given(ENVIRONMENT), given(SETUP)) {
        (Some(Value::Map(map)), _) if map.contains_key(name) => Some(map.get(name).cloned()),
        // What lines of shell make of it is not followed.
        (_, Some(Value::List(lines))) if lines.iter().any(|line| line.contains(name)) => Some(None),
        _ => own
            .contains_key(name)
            .then(|| written_down.get(name).cloned()),
    };
    let asked = asked_variables(text).filter_map(|name| Some((name.to_owned(), value(name)?)));
    asked.collect()
}

/// The path that a knob holds, and where it was given.
fn path(preset: &Preset, layers: &[Layer], knob: &str) -> Option<(String, Option<Origin>)> {
    if let Some(named) = naming(preset, layers, knob) {
        return Some((named.name, Some(named.origin)));
    }
    match &preset.knob(knob)?.default {
        Some(Scalar::Text(path)) => Some((path.clone(), None)),
        _ => None,
    }
}
