//! What moved the rungs of a run: its attempts, and the measurements between them.

use super::attempt::Attempt;
use crate::core::engine::outcome::Verdict;
use crate::core::engine::phantom::PhantomCheck;
use crate::core::ladder::{PastAttempt, Peak, Step};
use crate::core::learn::NodesExcluded;
use crate::core::recipe::Layer;

/// One of them.
#[derive(Clone, Copy)]
pub(super) enum HistoryEntry<'h> {
    /// A configuration that was measured on phantom GPUs.
    Phantom(&'h PhantomCheck),
    /// Nodes that were excluded.
    Nodes(&'h NodesExcluded),
    /// An attempt.
    Attempt(&'h Attempt),
}

impl<'h> HistoryEntry<'h> {
    /// Layers that what follows from it puts on the stack.
    pub(super) fn layers(self) -> Vec<Layer> {
        match self {
            Self::Phantom(check) => check.layers().collect(),
            Self::Nodes(excluded) => vec![excluded.layer.clone()],
            Self::Attempt(attempt) => attempt.layers(),
        }
    }

    /// The rungs that follow from it.
    pub(super) fn steps(self) -> &'h [Step] {
        match self {
            Self::Phantom(check) => &check.steps,
            Self::Nodes(_) => &[],
            Self::Attempt(attempt) => attempt.steps(),
        }
    }

    /// Does nothing but exclude nodes follow from it?
    fn is_about_nodes(&self) -> bool {
        match self {
            Self::Phantom(_) => false,
            Self::Nodes(_) => true,
            Self::Attempt(attempt) => matches!(attempt.verdict, Some(Verdict::Again { .. })),
        }
    }

    /// As what was tried with these rungs; `None` for an attempt that did not die, or nobody knows of what.
    fn past(self, rungs: &[Layer]) -> Option<PastAttempt> {
        let (incident, peaks) = match self {
            Self::Phantom(check) => {
                let measurement = &check.measurement;
                let peaks = Peak::on_phantom(&measurement.summary);
                (measurement.incident(), peaks)
            }
            Self::Nodes(_) => return None,
            // Its program never came to need memory.
            Self::Attempt(attempt) if attempt.withdrawn().is_some() => return None,
            Self::Attempt(attempt) => {
                let incident = attempt.incident.clone().filter(|i| i.fatal)?;
                (Some(incident), Peak::of(&attempt.measured))
            }
        };
        Some(PastAttempt {
            rungs: rungs.to_vec(),
            incident,
            peaks,
        })
    }
}

/// Attempts that died of a cause that is known, and what was measured, each with the rungs that it had.
pub(super) fn tried<'h>(entries: impl Iterator<Item = HistoryEntry<'h>>) -> Vec<PastAttempt> {
    let mut standing = Vec::new();
    let past = entries.filter_map(|entry| {
        let past = entry.past(&layers(&standing));
        put(&mut standing, entry);
        past
    });
    past.collect()
}

/// What of all these still counts: without what was taken back.
pub(super) fn standing<'h>(
    entries: impl Iterator<Item = HistoryEntry<'h>>,
) -> Vec<HistoryEntry<'h>> {
    let mut standing = Vec::new();
    entries.for_each(|entry| put(&mut standing, entry));
    standing
}

/// The layers that they put on the stack.
pub(super) fn layers(standing: &[HistoryEntry<'_>]) -> Vec<Layer> {
    standing.iter().flat_map(|entry| entry.layers()).collect()
}

/// Adds what came next. Where it takes rungs back, what followed from the attempt to which it goes back counts no longer;
/// excluded nodes stay excluded.
fn put<'h>(standing: &mut Vec<HistoryEntry<'h>>, next: HistoryEntry<'h>) {
    if let HistoryEntry::Attempt(attempt) = next
        && let Some(withdrawn) = attempt.withdrawn()
    {
        let mut is_back = false;
        standing.retain(|entry| {
            is_back |= matches!(entry, HistoryEntry::Attempt(a) if a.number >= withdrawn.to);
            !is_back || entry.is_about_nodes()
        });
    }
    standing.push(next);
}
