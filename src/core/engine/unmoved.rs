//! A program that dies with the same figures whatever is changed: it does not read the changes.

use super::outcome::{Outcome, Verdict};
use super::state::{Attempt, Run};
use oomctl_diagnose::Incident;

/// Attempts in a row with the same figures after which no further change is tried.
const SAME: usize = 3;

/// The end of a run whose last attempts asked for the same bytes beside the same bytes, although each had another
/// configuration. Where one of two changes frees nothing, the other is still tried.
pub(super) fn unmoved(run: &Run, attempt: &Attempt, incident: &Incident) -> Option<Outcome> {
    let figures = |i: &Incident| i.requested_bytes.zip(i.allocated_bytes);
    let now = figures(incident)?;
    let before = run.history.attempts.iter().rev();
    let same = before
        .skip_while(|a| a.number >= attempt.number)
        .take_while(|a| {
            let changed = matches!(a.verdict, Some(Verdict::Climb { .. }));
            changed && a.incident.as_ref().and_then(figures) == Some(now)
        })
        .count()
        + 1;
    let (requested, allocated) = now;
    let reason = format!(
        "{same} attempts with different settings died with the same figures ({requested} requested, {allocated} allocated), \
         so the program does not seem to read what oomctl changes. Look for a file or code that sets these values after the command line"
    );
    (same >= SAME).then(|| Outcome::Failed {
        reason,
        skipped: Vec::new(),
    })
}
