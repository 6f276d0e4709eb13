//! Values of knobs put into the text of a project file: only the values themselves, everything else byte for byte.

use super::document::ConfigDocument;
use super::node::ConfigContent;
use crate::core::recipe::Preset;
use oomctl_base::Value;
use oomctl_scripts::yaml::{self, Yaml};

/// Values of knobs as YAML, with the key `knobs` above them.
pub fn knobs_yaml(values: &[(String, Value)]) -> String {
    let line = |(knob, value): &(String, Value)| {
        let value = yaml::written(value).unwrap_or_else(|| value.to_string());
        format!("  {knob}: {value}\n")
    };
    let lines: String = values.iter().map(line).collect();
    format!("knobs:\n{lines}")
}

/// The text of a project file with these values.
///
/// # Errors
/// Where the file has a form that cannot be edited: why.
pub fn set_knobs(
    path: &str,
    text: &str,
    preset: &Preset,
    values: &[(String, Value)],
) -> Result<String, String> {
    let parsed = |text: &str| ConfigDocument::parse(path, text).map_err(|e| e.to_string());
    let document = parsed(text)?;
    let entries = match document.get("knobs").map(|n| &n.content) {
        None => {
            let end = if text.is_empty() || text.ends_with('\n') {
                ""
            } else {
                "\n"
            };
            let text = format!("{text}{end}{}", knobs_yaml(values));
            return parsed(&text).map(|_| text);
        }
        Some(ConfigContent::Map(entries)) => entries,
        Some(_) => return Err("`knobs` is not a list of keys and values".to_owned()),
    };
    let mut yaml = Yaml::parse(path, text).map_err(|e| e.to_string())?;
    for (knob, value) in values {
        // A knob may stand there under its whole name.
        let names = entries.iter().map(|(key, _)| &key.name);
        let mut same = names.filter(|name| preset.knob(name).is_some_and(|k| k.name == *knob));
        let key = same.next().unwrap_or(knob).clone();
        let place = ["knobs".to_owned(), key];
        yaml = yaml.set(&place, value).map_err(|e| e.to_string())?;
    }
    Ok(yaml.text().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::config::parse_preset;

    const PRESET: &str = "
preset: toy
summary: a made-up framework
files: [{ name: job.sh, template: job.sh.j2, entry: true }]
knobs:
  - { name: micro, type: int, spelling: { hydra: actor.micro }, doc: d }
  - { name: share, type: float, doc: d }
  - { name: limit, type: duration, doc: d }
";

    fn values() -> Vec<(String, Value)> {
        [
            ("micro", Value::Int(16)),
            ("share", Value::Float(0.7)),
            ("limit", Value::Text("01:30:00".to_owned())),
        ]
        .map(|(k, v)| (k.to_owned(), v))
        .into()
    }

    fn set(text: &str) -> Result<String, String> {
        let file = parse_preset("toy.yaml", PRESET).unwrap();
        let preset = Preset::assemble(file, Vec::new(), None).unwrap();
        set_knobs("oomctl.yaml", text, &preset, &values())
    }

    #[test]
    fn values_that_are_there_are_changed_and_others_added() {
        let before = "# mine\npreset: toy\nknobs:\n    # why\n    actor.micro: 4  # was 8\n    share: 0.5\nbackend: local\n";
        let after = set(before).unwrap();
        let expected = "# mine\npreset: toy\nknobs:\n    # why\n    actor.micro: 16  # was 8\n    share: 0.7\n    \
            limit: '01:30:00'\nbackend: local\n";
        assert_eq!(after, expected);
        assert_eq!(set(&after).unwrap(), after);
    }

    #[test]
    fn a_file_without_knobs_gets_them_at_its_end() {
        let added = knobs_yaml(&values());
        assert!(added.starts_with("knobs:\n  micro: 16\n  share: 0.7\n"));
        assert_eq!(set("").unwrap(), added);
        assert_eq!(set("preset: toy").unwrap(), format!("preset: toy\n{added}"));
    }

    #[test]
    fn knobs_between_braces_are_changed_there_and_what_is_no_mapping_is_left_alone() {
        let braces = set("knobs: { micro: 4 }\n").unwrap();
        assert_eq!(
            braces,
            "knobs: { micro: 16, share: 0.7, limit: '01:30:00' }\n"
        );
        for text in ["knobs: 4\n", "knobs:\n", "knobs: { micro: [4] }\n"] {
            assert!(set(text).is_err(), "{text}");
        }
    }
}
