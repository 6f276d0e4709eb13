//! The attempts of a history added up, in the text format of Prometheus (node_exporter's textfile collector reads it).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::history_view::HistoryRow;

/// What a sum is of: names of labels with their values.
type Labels = Vec<(&'static str, String)>;

/// Attempts and GPU time by how they ended, and runs by where they stand. Gauges, for a run's folder may be removed.
pub fn prometheus(rows: &[HistoryRow]) -> String {
    let mut attempts: BTreeMap<Labels, f64> = BTreeMap::new();
    let mut seconds: BTreeMap<Labels, f64> = BTreeMap::new();
    let mut runs: BTreeMap<(&str, &str), &HistoryRow> = BTreeMap::new();
    for row in rows {
        let labels = row.ended_so();
        *attempts.entry(labels.clone()).or_default() += 1.0;
        *seconds.entry(labels).or_default() += row.gpu_seconds;
        let newest = runs.entry((&row.folder, &row.run)).or_insert(row);
        if row.attempt > newest.attempt {
            *newest = row;
        }
    }
    let mut stand: BTreeMap<Labels, f64> = BTreeMap::new();
    for row in runs.values() {
        let outcome = row.outcome.unwrap_or("unfinished").to_owned();
        *stand.entry(vec![("outcome", outcome)]).or_default() += 1.0;
    }
    let mut out = String::new();
    for (name, help, sums) in [
        (
            "attempts",
            "Attempts by state of their job and cause of their end.",
            &attempts,
        ),
        ("gpu_seconds", "GPU time of attempts, in seconds.", &seconds),
        ("runs", "Runs by outcome.", &stand),
    ] {
        let _ = writeln!(
            out,
            "# HELP oomctl_{name} {help}\n# TYPE oomctl_{name} gauge"
        );
        for (labels, sum) in sums {
            let labels = labels
                .iter()
                .map(|(label, value)| format!("{label}=\"{}\"", escaped(value)));
            let labels: Vec<String> = labels.collect();
            let _ = writeln!(out, "oomctl_{name}{{{}}} {sum}", labels.join(","));
        }
    }
    out
}

/// A label's value, with what the format escapes (Prometheus, "Text-based format").
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
