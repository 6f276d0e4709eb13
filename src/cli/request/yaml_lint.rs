//! What will be read differently than it was meant: by Python in YAML files that a run hands to it, and by us in
//! variables that set nothing.

use std::cell::LazyCell;
use std::collections::BTreeSet;
use std::path::Path;

use crate::core::config::near_misses;
use crate::core::recipe::Preset;
use crate::core::request::Request;
use crate::view::print;
use oomctl_scripts::Reached;
use oomctl_scripts::yaml::Yaml;

/// Misreadings of a file that are told; the others are counted.
const MOST_TOLD: usize = 8;

/// How programs load YAML by PyYAML.
const PYYAML: [&str; 3] = ["yaml.safe_load", "yaml.load", "yaml.full_load"];

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
    // The scripts are read again only where a file has what OmegaConf reads otherwise.
    let composed = LazyCell::new(|| composed(request));
    // Other loaders, and frameworks that convert what they load, take `1e-6` for a number.
    let by_pyyaml = named.clone().any(|(path, text)| {
        let mut loads = PYYAML.iter();
        !is_yaml(path) && loads.any(|call| text.contains(call)) && !text.contains("OmegaConf.load")
    });
    for (path, text) in named.filter(|(path, _)| is_yaml(path)) {
        lint(path, text, || !by_pyyaml || composed.contains(path));
    }
}

/// Tells variables that were meant to set a knob and do not.
pub fn variables<'a>(preset: &Preset, names: impl Iterator<Item = &'a str>) {
    for (name, near) in near_misses(preset, names) {
        print::warn(&format!("${name} sets nothing; did you mean ${near}?"));
    }
}

/// The files of which programs compose their configuration.
fn composed(request: &Request) -> BTreeSet<String> {
    let adoption = request.adoption();
    let calls = adoption.iter().flat_map(|a| &a.reading.calls);
    let files = calls.flat_map(|call| &call.settings);
    let files = files.filter(|file| file.reached == Reached::Composed);
    files.map(|file| file.path.clone()).collect()
}

/// Tells those of one file. What is no YAML is told where it is read.
pub fn of(path: &str, text: &str) {
    lint(path, text, || false);
}

fn lint(path: &str, text: &str, is_omegaconf: impl Fn() -> bool) {
    let Ok(yaml) = Yaml::parse(path, text) else {
        return;
    };
    let mut found = yaml.misread();
    found.retain(|at| !(at.omegaconf_agrees && is_omegaconf()));
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
