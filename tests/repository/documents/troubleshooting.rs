//! `docs/troubleshooting.md` quotes what is really said: each message of ours stands in the program, each line of a log
//! is of the kind that the page says, and what helps is what the program advises.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use super::messages::{Section, is_said, sections};
use super::{document, kinds, oomctl, said};
use crate::source::{Source, code_tokens, files, in_sources};

/// Every text in the program's own code and in the table of mistakes, `…` in place of what is put into it.
fn texts() -> Vec<String> {
    let mistakes = "tests/stories/errors.rs";
    let mut texts = texts_of(&[&Source::parse(mistakes, &document(mistakes))]);
    texts.extend(in_sources(|sources| {
        let shipped: Vec<_> = sources.iter().filter(|s| !s.is_test()).collect();
        texts_of(&shipped)
    }));
    texts.extend(of_tables());
    texts
}

/// What the tables of failures look for, and what they say of a kind.
fn of_tables() -> Vec<String> {
    let tables = files("presets/signatures", &["yaml"]);
    let rows = tables
        .iter()
        .filter_map(|(_, text)| serde_yaml::from_str(text).ok());
    let mut texts = Vec::new();
    for row in rows.flat_map(|rows: Vec<Value>| rows) {
        let more = row["contains"].as_array().into_iter().flatten();
        let said = more.chain([&row["contains"], &row["words"]]);
        texts.extend(said.filter_map(Value::as_str).map(str::to_owned));
    }
    texts
}

fn texts_of(sources: &[&Source]) -> Vec<String> {
    let put_in = regex::Regex::new(r"\{[^{}]*\}").unwrap();
    // What an error says of itself stands in an attribute.
    let of_error = regex::Regex::new(r#"#\[error\(\s*("(?:[^"\\]|\\.)*")"#).unwrap();
    let errors = sources.iter();
    let errors = errors.flat_map(|source| of_error.captures_iter(&source.text));
    let errors = errors.map(|found| found[1].to_owned());
    let tokens = sources
        .iter()
        .flat_map(|s| code_tokens(s))
        .map(|(token, _)| token);
    let literals = tokens.chain(errors);
    literals
        .filter_map(|token| syn::parse_str::<syn::LitStr>(&token).ok())
        .map(|text| put_in.replace_all(&text.value(), "…").replace('\n', " "))
        .collect()
}

#[test]
fn every_quoted_message_is_said_by_the_program() {
    let texts = texts();
    let sections = sections();
    assert!(sections.len() > 80, "{}", sections.len());
    let missing: Vec<&String> = sections
        .iter()
        .flat_map(|section| section.quoted.iter().map(move |quoted| (section, quoted)))
        .filter(|(section, quoted)| {
            let in_log = section.lines().iter().any(|line| is_said(quoted, line));
            !in_log && !texts.iter().any(|text| is_said(quoted, text))
        })
        .map(|(_, quoted)| quoted)
        .collect();
    assert!(missing.is_empty(), "nothing says {missing:#?}");
}

/// What the program says of one line.
fn diagnosed(line: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("x.log"), format!("{line}\n")).unwrap();
    let words = ["diagnose", "--json", "x.log"].map(str::to_owned);
    let out = oomctl(folder.path(), &words);
    said(&out, 0, line);
    let mut document: Value = serde_json::from_slice(&out.stdout).unwrap();
    document["files"][0].take()
}

fn advice<'a>(incident: &'a Value, key: &str) -> impl Iterator<Item = &'a str> {
    incident[key]
        .as_array()
        .unwrap()
        .iter()
        .map(|a| a.as_str().unwrap())
}

/// Checks one section, and gives its kind.
fn checked(section: &Section) -> String {
    let text = section
        .text
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let kind = text
        .split("Kind `")
        .nth(1)
        .and_then(|t| t.split('`').next());
    let kind = kind.unwrap_or_else(|| panic!("{:?} has no kind", section.quoted));
    for (place, line) in section.lines().iter().enumerate() {
        let incident = diagnosed(line);
        assert_eq!(incident["kind"], kind, "{line}");
        if place > 0 {
            continue;
        }
        for helps in advice(&incident, "helps") {
            assert!(text.contains(&format!("- {helps}")), "{line}: {helps}");
        }
        for worse in advice(&incident, "worse") {
            assert!(
                text.contains(&format!("- beware: {worse}")),
                "{line}: {worse}"
            );
        }
    }
    kind.to_owned()
}

#[test]
fn every_line_of_a_log_is_of_its_kind_and_every_kind_has_a_line() {
    let sections = sections();
    let logs = sections.iter().filter(|s| !s.lines().is_empty());
    let shown: BTreeSet<String> = logs.map(checked).collect();
    // Of a kill that was not for memory only accounting tells.
    let without = ["no_failure", "killed"];
    for kind in kinds().iter().filter(|k| !without.contains(&k.as_str())) {
        assert!(shown.contains(kind), "no line of a log is shown for {kind}");
    }
}
