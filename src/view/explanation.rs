//! Why one GPU of a process that drives several is full, in lines for people.

use super::style::{DIM, Paint};
use crate::core::request::Explanation;

/// Lines of the story.
pub fn explained(explanation: &Explanation) -> String {
    let lines = explanation.lines.iter().enumerate().map(|(number, line)| {
        let head = if number == 0 {
            "why        "
        } else {
            "           "
        };
        format!("{}{line}", Paint(DIM, head))
    });
    lines.collect::<Vec<_>>().join("\n")
}
