//! What will be read differently than it was meant: by Python in YAML files that a run hands to it, and by us in
//! variables that set nothing.

use std::path::Path;

use crate::core::config::near_misses;
use crate::core::recipe::Preset;
use crate::core::request::Request;
use crate::view::print;
use oomctl_scripts::yaml::Yaml;

/// Misreadings of a file that are told; the others are counted.
const MOST_TOLD: usize = 8;

/// Tells them for the files of which attempts get a copy, and for those that scripts of the user's name.
pub fn tell(request: &Request) {
    let inputs = request.inputs();
    for original in inputs.originals.values() {
        of(&original.path, &original.text);
    }
    let named = inputs
        .scripts
        .iter()
        .flat_map(|scripts| scripts.files.iter());
    for (path, text) in named.filter(|(path, _)| is_yaml(path)) {
        of(path, text);
    }
}

/// Tells variables that were meant to set a knob and do not.
pub fn variables<'a>(preset: &Preset, names: impl Iterator<Item = &'a str>) {
    for (name, near) in near_misses(preset, names) {
        print::warn(&format!("${name} sets nothing; did you mean ${near}?"));
    }
}

/// Tells those of one file. What is no YAML is told where it is read.
pub fn of(path: &str, text: &str) {
    let Ok(yaml) = Yaml::parse(path, text) else {
        return;
    };
    let found = yaml.misread();
    for at in found.iter().take(MOST_TOLD) {
        print::warn(&format!(
            "{path}:{}:{}: {}; write {}",
            at.line, at.column, at.what, at.instead
        ));
    }
    if found.len() > MOST_TOLD {
        print::warn(&format!(
            "{path}: {} more values that Python reads differently",
            found.len() - MOST_TOLD
        ));
    }
}

fn is_yaml(path: &str) -> bool {
    let extension = Path::new(path).extension();
    extension.is_some_and(|e| e == "yaml" || e == "yml")
}
