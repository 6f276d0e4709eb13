//! What Python will read differently in the YAML files that a run hands to it.

use std::path::Path;

use super::print;
use crate::core::patch::yaml::Yaml;
use crate::core::supervise::Request;

/// Misreadings of a file that are told; the others are counted.
const MOST_TOLD: usize = 8;

/// Tells them for the files of which attempts get a copy, and for those that scripts of the user's name.
pub fn tell(request: &Request) {
    let inputs = request.inputs();
    for original in inputs.originals.values() {
        of(&original.path, &original.text);
    }
    let named = inputs.scripts.iter().flat_map(|scripts| &scripts.files);
    for (path, text) in named.filter(|(path, _)| is_yaml(path)) {
        of(path, text);
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
            "{path}: {} more places that Python reads differently",
            found.len() - MOST_TOLD
        ));
    }
}

fn is_yaml(path: &str) -> bool {
    let extension = Path::new(path).extension();
    extension.is_some_and(|e| e == "yaml" || e == "yml")
}
