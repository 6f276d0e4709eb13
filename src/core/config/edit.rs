//! Values of knobs put into the text of a project file: only the values themselves, everything else byte for byte.

use super::document::ConfigDocument;
use super::node::{ConfigContent, ConfigKey, ConfigNode};
use crate::core::recipe::{Layer, LayerKind, Preset};
use oomctl_base::Value;

/// Spaces before a knob, where the file has none yet.
const INDENT: usize = 2;

/// Values of knobs as YAML, with the key `knobs` above them.
pub fn knobs_yaml(values: &[(String, Value)]) -> String {
    let line = |(knob, value): &(String, Value)| line(INDENT, knob, value);
    let lines: Vec<String> = values.iter().map(line).collect();
    format!("knobs:\n{}\n", lines.join("\n"))
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
    let document = ConfigDocument::parse(path, text).map_err(|e| e.to_string())?;
    let edited = match document.get("knobs").map(|n| &n.content) {
        None => format!("{}{}", ended(text), knobs_yaml(values)),
        Some(ConfigContent::Map(entries)) => put(text, entries, preset, values)?,
        Some(_) => return Err("`knobs` is not a list of keys and values".to_owned()),
    };
    // What was written must read as what was meant.
    let read = |text: &str| {
        let document = ConfigDocument::parse(path, text).map_err(|e| e.to_string())?;
        let layer = document.layer(LayerKind::Project, preset);
        layer.map_err(|all| {
            all.iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("; ")
        })
    };
    let mut meant = plain(&read(text)?);
    for (knob, value) in values {
        meant.retain(|(k, _)| k != knob);
        meant.push((knob.clone(), value.clone()));
    }
    meant.sort_by(|a, b| a.0.cmp(&b.0));
    match plain(&read(&edited)?) == meant {
        true => Ok(edited),
        false => Err("its `knobs` are written in a way that cannot be edited".to_owned()),
    }
}

/// The values of a layer, by knob.
fn plain(layer: &Layer) -> Vec<(String, Value)> {
    let values = layer.settings.iter();
    values.map(|(k, s)| (k.clone(), s.value.clone())).collect()
}

fn ended(text: &str) -> String {
    match text.is_empty() || text.ends_with('\n') {
        true => text.to_owned(),
        false => format!("{text}\n"),
    }
}

/// Changes the lines of the knobs that are there, and adds the others above the first and the remarks on it.
fn put(
    text: &str,
    entries: &[(ConfigKey, ConfigNode)],
    preset: &Preset,
    values: &[(String, Value)],
) -> Result<String, String> {
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let Some((first, _)) = entries.first() else {
        return Err("`knobs` is empty".to_owned());
    };
    let (at, indent) = (first.line as usize - 1, first.column as usize - 1);
    let stands_alone = |line: &String| line.chars().take(indent).all(|c| c == ' ');
    if !lines.get(at).is_some_and(stands_alone) {
        return Err("`knobs` is on one line".to_owned());
    }
    let mut added = Vec::new();
    for (knob, value) in values {
        let is_it = |key: &ConfigKey| preset.knob(&key.name).is_some_and(|k| k.name == *knob);
        match entries.iter().find(|(key, _)| is_it(key)) {
            None => added.push(line(indent, knob, value)),
            Some((key, node)) => {
                let there = lines.get_mut(node.line as usize - 1);
                let there = there.filter(|_| node.line == key.line);
                let there = there.ok_or_else(|| format!("{knob} takes several lines"))?;
                *there = with_value(there, node.column as usize - 1, value);
            }
        }
    }
    let remark = |line: &&String| line.trim().is_empty() || line.trim_start().starts_with('#');
    let top = at - lines[..at].iter().rev().take_while(remark).count();
    lines.splice(top..top, added);
    Ok(lines.join("\n"))
}

/// A line with another value from a column on; a remark behind it stays.
fn with_value(line: &str, column: usize, value: &Value) -> String {
    let before: String = line.chars().take(column).collect();
    let rest: String = line.chars().skip(column).collect();
    let remark = rest.find(" #").map_or("", |at| &rest[at..]);
    format!("{before}{}{remark}", written(value))
}

fn line(indent: usize, knob: &str, value: &Value) -> String {
    format!("{:indent$}{knob}: {}", "", written(value))
}

/// A value as YAML in one line. What a double-quoted text of JSON says, YAML says too.
fn written(value: &Value) -> String {
    let text = |text: &String| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
        let word = text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(plain);
        let special = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
        match word && !special.contains(&text.to_ascii_lowercase().as_str()) {
            true => text.clone(),
            false => serde_json::Value::from(text.as_str()).to_string(),
        }
    };
    match value {
        Value::Null => "null".to_owned(),
        Value::Text(t) => text(t),
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(text).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(map) => {
            let pairs = map.iter().map(|(k, v)| format!("{}: {}", text(k), text(v)));
            format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
        }
        Value::Bool(_) | Value::Int(_) | Value::Float(_) => value.to_string(),
    }
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
  - { name: words, type: list, doc: d }
";

    fn values() -> Vec<(String, Value)> {
        [
            ("micro", Value::Int(16)),
            ("share", Value::Float(0.7)),
            ("limit", Value::Text("01:30:00".to_owned())),
            (
                "words",
                Value::List(vec!["a b".to_owned(), "on".to_owned()]),
            ),
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
        let expected = "# mine\npreset: toy\nknobs:\n    limit: \"01:30:00\"\n    \
            words: [\"a b\", \"on\"]\n    # why\n    actor.micro: 16 # was 8\n    share: 0.7\nbackend: local\n";
        assert_eq!(after.replace("16  #", "16 #"), expected);
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
    fn a_file_that_is_written_otherwise_is_left_alone() {
        for text in [
            "knobs: { micro: 4 }\n",
            "knobs: 4\n",
            "knobs:\n  micro:\n    4\n",
            "knobs:\n  words: [a,\n    b]\n",
        ] {
            assert!(set(text).is_err(), "{text}");
        }
    }
}
