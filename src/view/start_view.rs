//! Where a run starts after what earlier runs taught, in two lines.

use super::measured;
use crate::core::ladder::Change;
use crate::core::learn::{AttemptEnd, LearnedEntry};
use crate::core::request::{Ground, Start};

/// The start, and why.
pub fn text(start: &Start) -> String {
    let of = &start.because;
    let who = format!("run {}, attempt {}", of.run, of.attempt);
    let rungs = start.rungs.join(", ");
    let why = match start.ground {
        Ground::FitsAsAsked => {
            return format!("start      as asked: {who}, fitted{}\n", peak(of));
        }
        Ground::NoneKnown => {
            return format!(
                "start      as asked, although {who}, {} with no more than this: what the ladder would change is set here, or known to fail too\n",
                died(of)
            );
        }
        Ground::Fits => format!("as {who}, which fitted{}: {rungs}", peak(of)),
        Ground::Untried => format!(
            "{who}, {} with no more than what is asked; first rungs that are not known to fail: {rungs}",
            died(of)
        ),
    };
    let changes: Vec<String> = start.changes.iter().map(change).collect();
    format!(
        "start      {why}\n           {} ({}); --fresh starts as asked\n",
        changes.join(", "),
        start.effect.describe()
    )
}

fn change(change: &Change) -> String {
    format!("{} {} -> {}", change.knob, change.from, change.to)
}

fn peak(entry: &LearnedEntry) -> String {
    measured::peak(&entry.measured).map_or_else(String::new, |p| format!(" (peak {p})"))
}

fn died(entry: &LearnedEntry) -> String {
    match &entry.end {
        AttemptEnd::Failed { phase, .. } if phase != "unknown" => {
            format!("ran out of GPU memory in {phase}")
        }
        _ => "ran out of GPU memory".to_owned(),
    }
}
