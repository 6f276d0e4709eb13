//! A program that dies with the same figures whatever is changed: it does not read the changes.

use super::ending::of_others;
use super::outcome::{Outcome, Verdict};
use super::state::{Attempt, History};
use oomctl_base::units::Bytes;

/// Attempts in a row with the same figures after which no further change is tried.
const SAME: usize = 3;

/// What a GPU was asked for, and what was allocated there.
fn figures(attempt: &Attempt) -> Option<(Bytes, Bytes)> {
    let incident = attempt.incident.as_ref()?;
    incident.requested_bytes.zip(incident.allocated_bytes)
}

/// How many attempts up to this one, each with another configuration, died with the same figures.
pub(super) fn with_the_same_figures(history: &History, attempt: &Attempt) -> usize {
    let now = figures(attempt);
    let before = history.attempts.iter().rev();
    let before = before.skip_while(|a| a.number >= attempt.number);
    let alike = before.take_while(|a| now.is_some() && figures(a) == now);
    let moved = alike.filter(|a| matches!(a.verdict, Some(Verdict::Climb { .. })));
    moved.count() + 1
}

/// The end of a run whose last attempts asked for the same bytes beside the same bytes, although each had another
/// configuration. Where one of two changes frees nothing, the other is still tried. One that was submitted again unchanged
/// says nothing more and nothing less.
pub fn unmoved(history: &History, attempt: &Attempt) -> Option<Outcome> {
    let (requested, allocated) = figures(attempt)?;
    let same = with_the_same_figures(history, attempt);
    let others = attempt.incident.as_ref().filter(|i| of_others(i));
    let others = others.and_then(|i| i.co_tenant_bytes);
    let why = match others {
        Some(theirs) => format!(
            "beside other processes that hold {theirs} of the GPU. `nvidia-smi` on the node shows them"
        ),
        None => "so the program does not seem to read what oomctl changes. Look for a file or code that sets these values after the \
                 command line"
            .to_owned(),
    };
    let reason = format!(
        "{same} attempts with different settings died with the same figures ({requested} requested, {allocated} allocated), {why}"
    );
    (same >= SAME).then(|| Outcome::Failed {
        reason,
        skipped: Vec::new(),
    })
}
