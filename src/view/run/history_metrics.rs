//! The attempts of a history added up, in the text format of Prometheus (node_exporter's textfile collector reads it).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::history_summary::{Efficiency, by_run, efficiency};
use super::history_view::HistoryRow;

/// What a sum is of: names of labels with their values.
type Labels = Vec<(&'static str, String)>;

/// Attempts and GPU time by how they ended, what ran out of memory cost, how much completed jobs used of what they held, and
/// runs by where they stand. Gauges, for a run's folder may be removed.
pub fn prometheus(rows: &[HistoryRow]) -> String {
    let mut attempts: BTreeMap<Labels, f64> = BTreeMap::new();
    let mut seconds: BTreeMap<Labels, f64> = BTreeMap::new();
    let mut burnt = 0.0;
    for row in rows {
        let labels = row.ended_so();
        *attempts.entry(labels.clone()).or_default() += 1.0;
        *seconds.entry(labels).or_default() += row.gpu_seconds;
        if row.is_out_of_memory() {
            burnt += row.gpu_seconds;
        }
    }
    let labelled = |of: fn(&Efficiency) -> f64| {
        let one = |e: &Efficiency| (vec![("resource", e.resource.to_owned())], of(e));
        efficiency(rows)
            .iter()
            .map(one)
            .collect::<BTreeMap<Labels, f64>>()
    };
    let mut out = String::new();
    for (name, help, sums) in [
        (
            "attempts",
            "Attempts by state of their job and cause of their end.",
            attempts,
        ),
        ("gpu_seconds", "GPU time of attempts, in seconds.", seconds),
        (
            "oom_gpu_seconds",
            "GPU time of attempts that ran out of memory, in seconds.",
            BTreeMap::from([(Vec::new(), burnt)]),
        ),
        (
            "efficiency",
            "Mean share that completed jobs used of what they held.",
            labelled(|e| e.mean),
        ),
        (
            "efficiency_attempts",
            "Attempts behind that mean: those that were measured.",
            labelled(Efficiency::attempts),
        ),
        ("runs", "Runs by outcome.", outcomes(rows)),
    ] {
        family(&mut out, name, help, &sums);
    }
    out
}

/// Runs by outcome, as their last attempt has it.
fn outcomes(rows: &[HistoryRow]) -> BTreeMap<Labels, f64> {
    let mut stand: BTreeMap<Labels, f64> = BTreeMap::new();
    for row in by_run(rows).iter().filter_map(|run| run.last()) {
        let outcome = row.outcome.unwrap_or("unfinished").to_owned();
        *stand.entry(vec![("outcome", outcome)]).or_default() += 1.0;
    }
    stand
}

/// The lines of one metric.
fn family(out: &mut String, name: &str, help: &str, sums: &BTreeMap<Labels, f64>) {
    let _ = writeln!(
        out,
        "# HELP oomctl_{name} {help}\n# TYPE oomctl_{name} gauge"
    );
    for (labels, sum) in sums {
        let labels = labels
            .iter()
            .map(|(label, value)| format!("{label}=\"{}\"", escaped(value)));
        let labels: Vec<String> = labels.collect();
        let braces = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", labels.join(",")),
        };
        let _ = writeln!(out, "oomctl_{name}{braces} {sum}");
    }
}

/// A label's value, with what the format escapes (Prometheus, "Text-based format").
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
