//! The attempts of a history added up, in the text format of Prometheus (node_exporter's textfile collector reads it).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::history_summary::{Efficiency, by_run, efficiency};
use super::history_view::HistoryRow;

/// What a sum is of: names of labels with their values.
type Labels = Vec<(&'static str, String)>;
type LabelledSums = BTreeMap<Labels, f64>;

/// Runs by where they stand, attempts and GPU time by how they ended, what ran out of memory cost, resubmissions by what they
/// followed, how much completed jobs used of what they held, and how many folders and ledgers are in no sum. Gauges, for a
/// run's folder may be removed, and a sum over the last days falls.
pub fn prometheus(rows: &[HistoryRow], unread: usize) -> String {
    let mut attempts = LabelledSums::new();
    let mut seconds = LabelledSums::new();
    let mut resubmissions = LabelledSums::new();
    let mut burnt = 0.0;
    for row in rows {
        let labels = row.ended_so();
        *attempts.entry(labels.clone()).or_default() += 1.0;
        *seconds.entry(labels).or_default() += row.gpu_seconds;
        if row.is_out_of_memory() {
            burnt += row.gpu_seconds;
        }
        if let Some(cause) = row.after.clone().filter(|_| row.is_submitted()) {
            *resubmissions.entry(vec![("after", cause)]).or_default() += 1.0;
        }
    }
    let labelled = |of: fn(&Efficiency) -> f64| {
        let one = |e: &Efficiency| (vec![("resource", e.resource.to_owned())], of(e));
        efficiency(rows).iter().map(one).collect::<LabelledSums>()
    };
    let alone = |sum: f64| BTreeMap::from([(Vec::new(), sum)]);
    let unread = unread as f64;
    let mut out = String::new();
    for (name, help, sums) in [
        ("runs", "Runs by where they stand.", states(rows)),
        (
            "attempts",
            "Attempts by state of their job and cause of their end.",
            attempts,
        ),
        ("gpu_seconds", "GPU time of attempts, in seconds.", seconds),
        (
            "oom_gpu_seconds",
            "GPU time of attempts that ran out of memory, in seconds.",
            alone(burnt),
        ),
        (
            "resubmissions",
            "Attempts after the first of a run, by how the attempt before ended.",
            resubmissions,
        ),
        (
            "efficiency_ratio",
            "Mean share that completed jobs used of what they held.",
            labelled(|e| e.mean),
        ),
        (
            "efficiency_attempts",
            "Attempts behind that mean: those that were measured.",
            labelled(Efficiency::attempts),
        ),
        (
            "unread_paths",
            "Folders and ledgers that could not be read, and are in no sum.",
            alone(unread),
        ),
    ] {
        family(&mut out, name, help, &sums);
    }
    out
}

/// Runs by where they stand.
fn states(rows: &[HistoryRow]) -> LabelledSums {
    let mut sums = LabelledSums::new();
    for row in by_run(rows).iter().filter_map(|run| run.last()) {
        let labels = vec![("state", row.run_state.clone())];
        *sums.entry(labels).or_default() += 1.0;
    }
    sums
}

/// The lines of one metric; none where nothing is known of it.
fn family(out: &mut String, name: &str, help: &str, sums: &LabelledSums) {
    if sums.is_empty() {
        return;
    }
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
