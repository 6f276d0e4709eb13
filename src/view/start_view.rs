//! Where a run starts after what earlier runs taught, in two lines.

use super::measured;
use crate::core::ladder::Change;
use crate::core::learn::{AttemptEnd, LearnedEntry};
use crate::core::request::{Ground, Start};

/// The start, and why.
pub fn text(start: &Start) -> String {
    let of = &start.because;
    let who = of.told_by();
    let why = match start.ground {
        Ground::FitsAsAsked => {
            return format!("start      unchanged: {who} fitted{}\n", peak(of));
        }
        Ground::NoneKnown => {
            return format!(
                "start      unchanged, although {who}, {} with this or less: nothing smaller is left to try: the rest failed too, or you set it\n",
                died(of)
            );
        }
        Ground::Fits => format!("as in {who}, which fitted{}", peak(of)),
        Ground::Untried => format!(
            "{who}, {} with this or less, so it starts with less",
            died(of)
        ),
    };
    let changes: Vec<String> = start.changes.iter().map(change).collect();
    format!(
        "start      {why}\n           {} ({}); --fresh starts unchanged\n",
        changes.join(", "),
        start.effect.describe()
    )
}

/// What an earlier attempt proves of a configuration.
pub fn proof(entry: &LearnedEntry) -> String {
    let who = entry.told_by();
    match entry.fitted() {
        true => format!("proven     {who} fitted with this or more{}", peak(entry)),
        false => format!("proven     {who}, {} with this or less", died(entry)),
    }
}

fn change(change: &Change) -> String {
    format!("{} {}", change.name(), change.values("->"))
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
