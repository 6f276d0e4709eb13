//! What Python makes of a YAML file where its author, and YAML 1.2, mean something else.
//!
//! PyYAML reads YAML 1.1 with patterns of its own (`yaml/resolver.py` of 6.0; the readings below were measured with
//! 6.0.3): a number with an exponent needs a point and a sign, words stand for truth values, colons for base 60.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_yaml::granit_parser::ScalarStyle;

use super::Yaml;
use super::tree::{YamlContent, YamlNode};

/// Misreadings of one file that are told; the rest is only counted by who tells them.
const MOST: usize = 1_000;

/// A place that Python reads differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misreading {
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
    /// What stands there, and what Python makes of it.
    pub what: String,
    /// What to write instead.
    pub instead: String,
    /// OmegaConf, and so Hydra, reads it as it is meant: its loader has a pattern for numbers of its own and none for dates (2.3
    /// `omegaconf/_utils.py`, `get_yaml_loader`).
    pub omegaconf_agrees: bool,
}

impl Yaml {
    /// Where Python reads something else than is meant, in the order of the file.
    pub fn misread(&self) -> Vec<Misreading> {
        let nodes = self.root.as_ref().map_or_else(Vec::new, YamlNode::all);
        let mut found: Vec<Misreading> =
            nodes.iter().flat_map(|node| of(node)).take(MOST).collect();
        found.sort_by_key(|m| (m.line, m.column));
        found
    }
}

fn of(node: &YamlNode) -> Vec<Misreading> {
    match &node.content {
        YamlContent::Scalar {
            text,
            style: ScalarStyle::Plain,
        } if !node.tagged => {
            let reading = reading(text);
            let agrees =
                with_point(text).is_some() || DATE.as_ref().is_some_and(|date| date.is_match(text));
            reading
                .map(|(what, instead)| Misreading {
                    omegaconf_agrees: agrees,
                    ..told(node, what, instead)
                })
                .into_iter()
                .collect()
        }
        YamlContent::Map { entries, .. } => twice(entries),
        _ => Vec::new(),
    }
}

fn told(node: &YamlNode, what: String, instead: String) -> Misreading {
    Misreading {
        omegaconf_agrees: false,
        line: node.line,
        column: node.column,
        what,
        instead,
    }
}

/// Keys that stand twice in one map: the last one wins in silence.
fn twice(entries: &[(YamlNode, YamlNode)]) -> Vec<Misreading> {
    let mut first: BTreeMap<&str, u32> = BTreeMap::new();
    let mut found = Vec::new();
    for key in entries.iter().map(|(key, _)| key) {
        let Some(text) = key.text().filter(|t| *t != "<<") else {
            continue;
        };
        match first.get(text) {
            Some(line) => {
                let what = format!(
                    "`{text}` is already in line {line}; Python silently uses the last one"
                );
                found.push(told(key, what, "remove one of the two".to_owned()));
            }
            None => drop(first.insert(text, key.line)),
        }
    }
    found
}

static EXPONENT: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^([-+]?)(\d+)(?:(\.)(\d*))?[eE]([-+]?)(\d+)$").ok());
static SIXTY: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^[-+]?[1-9]\d*(?::[0-5]?\d)+(?:\.\d*)?$").ok());
static DATE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^\d{4}-\d\d-\d\d$|^\d{4}-\d\d?-\d\d?(?:[Tt]|[ \t]+)\d\d?:\d\d:\d\d").ok()
});

/// What Python makes of a plain scalar, and what to write instead, where that differs from what stands there.
fn reading(text: &str) -> Option<(String, String)> {
    let is = |pattern: &LazyLock<Option<Regex>>| pattern.as_ref().is_some_and(|p| p.is_match(text));
    let digits = text.trim_start_matches(['-', '+']);
    let all = |set: fn(char) -> bool, from: &str| !from.is_empty() && from.chars().all(set);
    if let Some(truth) = truth(text) {
        return Some((
            format!(
                "`{text}` is {} to Python, not text",
                if truth { "True" } else { "False" }
            ),
            format!("{truth}, or '{text}' where the word is meant"),
        ));
    }
    if let Some(number) = with_point(text) {
        return Some((format!("`{text}` is text to PyYAML, not a number"), number));
    }
    if is(&SIXTY) {
        let seconds = digits.split(':').try_fold(0.0, |sum, part| {
            Some(sum * 60.0 + part.parse::<f64>().ok()?)
        });
        let seconds: f64 = seconds?;
        return Some((
            format!("`{text}` is the number {seconds} to Python, in base 60"),
            format!("'{text}'"),
        ));
    }
    if is(&DATE) {
        return Some((
            format!("`{text}` is a date to Python, not text"),
            format!("'{text}'"),
        ));
    }
    if digits.len() > 1 && digits.starts_with('0') && all(|c| matches!(c, '0'..='7' | '_'), digits)
    {
        let decimal = digits.trim_start_matches(['0', '_']);
        let value = i64::from_str_radix(&digits.replace('_', ""), 8).ok()?;
        let plain = if decimal.is_empty() { "0" } else { decimal };
        return Some((
            format!("`{text}` is the number {value} to Python, in base 8"),
            format!("{plain}, or '{text}' where the text is meant"),
        ));
    }
    if let Some(octal) = digits
        .strip_prefix("0o")
        .filter(|o| all(|c| matches!(c, '0'..='7'), o))
    {
        let value = i64::from_str_radix(octal, 8).ok()?;
        return Some((
            format!("`{text}` is text to PyYAML, not a number"),
            value.to_string(),
        ));
    }
    let grouped = digits.contains('_') && digits.starts_with(|c: char| c.is_ascii_digit());
    if grouped && all(|c| c.is_ascii_digit() || c == '_', digits) {
        let plain = text.replace('_', "");
        return Some((
            format!("`{text}` is the number {plain} to Python, not text"),
            format!("{plain}, or '{text}' where the text is meant"),
        ));
    }
    None
}

/// The words of YAML 1.1 for truth values that YAML 1.2 reads as text.
fn truth(text: &str) -> Option<bool> {
    match text {
        "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Some(true),
        "no" | "No" | "NO" | "off" | "Off" | "OFF" => Some(false),
        _ => None,
    }
}

/// A number as PyYAML takes it for one, where it does not as it stands.
fn with_point(text: &str) -> Option<String> {
    let parts = EXPONENT.as_ref()?.captures(text)?;
    let part = |n: usize| parts.get(n).map_or("", |m| m.as_str());
    let (sign, whole, point, fraction, of_exponent, exponent) =
        (part(1), part(2), part(3), part(4), part(5), part(6));
    if !point.is_empty() && !of_exponent.is_empty() {
        return None;
    }
    let fraction = if fraction.is_empty() { "0" } else { fraction };
    let of_exponent = if of_exponent.is_empty() {
        "+"
    } else {
        of_exponent
    };
    Some(format!("{sign}{whole}.{fraction}e{of_exponent}{exponent}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn omegaconf_reads_an_exponent_and_a_date_as_they_are_meant() {
        for (scalar, agrees) in [
            ("4e-4", true),
            ("2024-01-01", true),
            ("no", false),
            ("0o17", false),
        ] {
            let yaml = Yaml::parse("a.yaml", &format!("a: {scalar}\n")).unwrap();
            let told: Vec<bool> = yaml.misread().iter().map(|m| m.omegaconf_agrees).collect();
            assert_eq!(told, [agrees], "{scalar}");
        }
    }

    fn misread(text: &str) -> Vec<String> {
        let yaml = Yaml::parse("f.yaml", text).unwrap();
        let told = yaml.misread().into_iter();
        told.map(|m| format!("{}:{} {} -> {}", m.line, m.column, m.what, m.instead))
            .collect()
    }

    #[test]
    fn each_trap_is_told_with_its_place_and_what_to_write() {
        for (scalar, what, instead) in [
            ("1e-6", "text to PyYAML", "1.0e-6"),
            ("-1E5", "text to PyYAML", "-1.0e+5"),
            ("1.5e6", "text to PyYAML", "1.5e+6"),
            ("1.e5", "text to PyYAML", "1.0e+5"),
            (
                "no",
                "False to Python",
                "false, or 'no' where the word is meant",
            ),
            ("Off", "False to Python", "false, or 'Off'"),
            ("ON", "True to Python", "true, or 'ON'"),
            ("yes", "True to Python", "true"),
            (
                "12:00:00",
                "the number 43200 to Python, in base 60",
                "'12:00:00'",
            ),
            ("12:30", "the number 750 ", "'12:30'"),
            ("010", "the number 8 to Python, in base 8", "10, or '010'"),
            ("0o17", "text to PyYAML", "15"),
            ("1_000", "the number 1000 to Python", "1000, or '1_000'"),
            ("2024-01-01", "a date to Python", "'2024-01-01'"),
        ] {
            let told = misread(&format!("a:\n  b: {scalar}\n"));
            assert_eq!(told.len(), 1, "{scalar}: {told:?}");
            assert!(told[0].starts_with("2:6 "), "{told:?}");
            assert!(
                told[0].contains(what) && told[0].contains(&format!("-> {instead}")),
                "{told:?}"
            );
        }
    }

    #[test]
    fn what_python_reads_as_everybody_does_is_left_alone() {
        for scalar in [
            "1.0e-6",
            "0.000001",
            "1.5e+3",
            "true",
            "False",
            "null",
            "~",
            "",
            "'no'",
            "\"1e-6\"",
            "04:00:00",
            "1:2:x",
            "0",
            "10",
            "-3",
            "0x1f",
            "08",
            "0.10",
            "1.10",
            ".5",
            "y",
            "n",
            "none",
            "nobody",
            "12h",
            "v1_000",
            "2024-01",
            "2024-1-1",
            "2024-01-01 x",
            "!!str no",
            "a:b",
            "1e",
            "e5",
            "_1",
        ] {
            assert_eq!(
                misread(&format!("a: {scalar}\n")),
                Vec::<String>::new(),
                "{scalar}"
            );
        }
    }

    #[test]
    fn keys_that_stand_twice_are_told_and_keys_are_scalars_too() {
        let told = misread("a: 1\nb: {c: 1, c: 2}\na: 3\nno: 1\n");
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(
            told[0].starts_with("2:11 `c` is already in line 2"),
            "{told:?}"
        );
        assert!(
            told[1].starts_with("3:1 `a` is already in line 1"),
            "{told:?}"
        );
        assert!(told[2].starts_with("4:1 `no` is False"), "{told:?}");
        assert_eq!(
            misread("- &a {b: 1}\n- {<<: *a, <<: *a}\n"),
            Vec::<String>::new()
        );
    }
}
