//! What becomes of a checkpoint when a rung is climbed.

use super::decision::Change;
use crate::core::recipe::{Shape, Shaper};

/// What is lost when a rung changes the number of GPUs and checkpoints are bound to it, and what its changes mean for
/// a run that goes on from one.
pub(super) fn notes(
    shaper: &Shaper<'_>,
    reshards: bool,
    changes: &[Change],
    next: &Shape,
) -> Vec<String> {
    let Some(checkpoint) = &shaper.preset().checkpoint else {
        return Vec::new();
    };
    let holds = |text: &str| {
        let holds = shaper.expressions.holds(text, next.scope());
        holds.unwrap_or(false)
    };
    if !holds(&checkpoint.written_when) {
        return Vec::new();
    }
    let survives = checkpoint.survives_resharding.as_deref();
    if reshards && !survives.is_some_and(holds) {
        // Nothing is gone on from, so nothing was counted otherwise.
        return checkpoint.lost.iter().cloned().collect();
    }
    let changed = |knob: &String| changes.iter().any(|c| c.knob == *knob);
    let bound = checkpoint.bound.iter();
    bound
        .filter(|b| b.knobs.iter().any(changed))
        .map(|b| b.text.clone())
        .collect()
}
