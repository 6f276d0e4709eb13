//! Knobs that stand in a YAML file: which file, where in it, and what a preset may say about that.

use super::knob::Knob;
use super::preset::FileSpec;
use oomctl_base::ValueKind;
use oomctl_scripts::Spelling;

/// What is wrong with a preset's files, and with knobs that stand in one.
pub(super) fn faults(files: &[FileSpec], knobs: &[Knob]) -> Vec<String> {
    let mut faults = Vec::new();
    for file in files {
        let name = &file.name;
        match (&file.template, &file.copy) {
            (Some(_), None) => {}
            (None, Some(_)) if file.entry => {
                faults.push(format!("file {name} is a copy, and the entry is a script"))
            }
            (None, Some(knob)) => {
                let named = knobs.iter().find(|k| k.name == *knob);
                if named.is_none_or(|k| k.kind != ValueKind::Text) {
                    faults.push(format!("file {name}: copy names a knob that holds a path, a text; there is no such knob {knob}"));
                }
            }
            _ => faults.push(format!("file {name} has either a template or a copy")),
        }
    }
    for knob in knobs {
        let spellings = knob.by_version.iter().filter_map(|v| v.spelling.as_ref());
        for spelling in spellings.chain(&knob.spelling) {
            let Spelling::Yaml(place) = spelling else {
                continue;
            };
            let copied = files
                .iter()
                .any(|f| f.name == place.file && f.copy.is_some());
            if !copied {
                faults.push(format!(
                    "{}: {} is not a file of the preset with `copy`",
                    knob.name, place.file
                ));
            }
            if place.keys().iter().any(String::is_empty) || place.path.matches('"').count() % 2 == 1
            {
                faults.push(format!(
                    "{}: `{}` is not a path of keys",
                    knob.name, place.path
                ));
            }
            if matches!(knob.kind, ValueKind::List | ValueKind::Map) {
                faults.push(format!(
                    "{}: a file can hold only single values, not {}",
                    knob.name,
                    knob.kind.noun()
                ));
            }
        }
    }
    faults
}
