//! Reports of any ledger.

use clap::ValueEnum;
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::Value;

use super::{ReportFormat, ReportedRun, in_full, render, report};
use crate::core::engine::{History, Record};
use crate::view::row::RunRow;
use crate::view::run_view::run_view;

/// Every kind of fact, and a run from out of memory to its end.
const LEDGERS: [&str; 2] = [
    include_str!("../../../tests/fixtures/ledger-v1.jsonl"),
    include_str!("../../../tests/fixtures/picture/runs/diamonds-seed0-1/ledger.jsonl"),
];

/// The paths of all fields, the outer ones first.
fn fields(value: &Value, path: &str, all: &mut Vec<String>) {
    let within: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(k, v)| (k.clone(), v)).collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(i, v)| (i.to_string(), v))
            .collect(),
        _ => Vec::new(),
    };
    for (name, value) in within {
        let path = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
        fields(value, &path, all);
        all.push(path);
    }
}

fn without(record: &Value, path: &str) -> Option<Record> {
    let mut record = record.clone();
    let (parent, name) = path.rsplit_once('/')?;
    match record.pointer_mut(parent)? {
        Value::Object(map) => drop(map.remove(name)),
        Value::Array(items) => drop(items.remove(name.parse().ok()?)),
        _ => {}
    }
    serde_json::from_value(record).ok()
}

/// The records of a ledger, each whole, without a field that it need not have, or not there.
fn records(ledger: &str, draws: &[(bool, prop::sample::Index)]) -> Vec<Record> {
    let lines = ledger
        .lines()
        .filter_map(|l| serde_json::from_str::<Value>(l).ok());
    let left = lines.zip(draws).filter_map(|(line, (whole, draw))| {
        let mut paths = Vec::new();
        fields(&line, "", &mut paths);
        // An empty path leaves the record out.
        paths.retain(|path| without(&line, path).is_some());
        paths.push(String::new());
        match whole {
            true => serde_json::from_value(line).ok(),
            false => without(&line, draw.get::<String>(&paths)),
        }
    });
    left.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_report_of_any_ledger_is_made_in_every_format(
        one in prop::collection::vec(any::<(bool, prop::sample::Index)>(), 40),
        other in prop::collection::vec(any::<(bool, prop::sample::Index)>(), 40),
        several in any::<bool>(),
    ) {
        let now = Timestamp::from_second(1_795_000_000).unwrap();
        let all = LEDGERS.iter().zip([one, other]).map(|(l, draws)| History::replay(&records(l, &draws)));
        let all: Vec<History> = all.skip(usize::from(!several)).collect();
        let rows: Vec<RunRow> = all.iter().map(|h| RunRow::of(&run_view(h, now))).collect();
        let told = all.iter().map(|history| ReportedRun { history, asked: &|| None, tracks: &|_| Vec::new(), tail: &|_| vec!["`last` <line>".to_owned()] });
        let told: Vec<ReportedRun<'_>> = told.collect();
        prop_assert_eq!(in_full(&rows).len(), told.len());
        let report = report("all", &rows, &told, now);
        for format in ReportFormat::value_variants() {
            let made = render(&report, *format).map_err(|f| format!("{format:?}: {f:?}"));
            prop_assert!(made.is_ok(), "{:?}", made);
        }
    }
}
