//! Why one GPU of a process that drives several is full, in lines for people.

use std::path::Path;

use super::style::{DIM, Paint};
use crate::core::request::Explanation;

/// Lines of the story: each reason, then where the changes of the script are proposed.
pub fn explained(explanation: &Explanation, saved: Option<&Path>) -> String {
    let mut lines: Vec<String> = explanation.lines.clone();
    if let Some(path) = saved {
        let titles = explanation.proposals.iter().map(|p| p.title.as_str());
        let titles: Vec<&str> = titles.collect();
        lines.push(format!(
            "proposed for the script, not applied: {} ({})",
            path.display(),
            titles.join("; ")
        ));
    }
    let lines = lines.iter().enumerate().map(|(number, line)| {
        let head = if number == 0 {
            "why        "
        } else {
            "           "
        };
        format!("{}{line}", Paint(DIM, head))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The same for a command that prints the changes themselves.
pub fn with_patch(explanation: &Explanation) -> String {
    let mut out = explained(explanation, None) + "\n";
    if let Some(patch) = explanation.patch() {
        out.push_str("\nProposed for the script, not applied:\n\n");
        out.push_str(&patch);
    }
    out
}
