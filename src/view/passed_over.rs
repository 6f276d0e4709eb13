//! The rungs that are not used, and why.

use crate::core::ladder::Skipped;

/// The rungs that are not used, each with the reason; empty where there are none.
pub fn not_used(skipped: &[Skipped]) -> String {
    let lines = reasons(skipped).into_iter();
    let lines = lines.map(|line| format!("     {line}\n"));
    match skipped {
        [] => String::new(),
        _ => format!("\nNot used:\n{}", lines.collect::<String>()),
    }
}

/// `wider-rollout, empty-cache: for another kind of failure`: a line for each reason.
pub fn reasons(skipped: &[Skipped]) -> Vec<String> {
    let mut all: Vec<(&str, Vec<&str>)> = Vec::new();
    for one in skipped {
        match all.iter_mut().find(|(reason, _)| *reason == one.reason) {
            Some((_, rungs)) => rungs.push(&one.rung),
            None => all.push((&one.reason, vec![&one.rung])),
        }
    }
    let line = |(reason, rungs): (&str, Vec<&str>)| format!("{}: {reason}", rungs.join(", "));
    all.into_iter().map(line).collect()
}

/// The same without the rungs that are for other failures, or for other programs, or left to the user.
pub fn reasons_here(skipped: &[Skipped]) -> Vec<String> {
    let here = skipped
        .iter()
        .filter(|s| !s.is_for_another_failure() && !s.aside && s.by_hand.is_empty());
    reasons(&here.cloned().collect::<Vec<_>>())
}
