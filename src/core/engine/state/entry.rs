//! What moved the rungs of a run: its attempts, and the measurements between them.

use super::attempt::Attempt;
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

    /// As what was tried with these rungs; `None` for an attempt that did not die, or nobody knows of what.
    fn past(self, rungs: &[Layer]) -> Option<PastAttempt> {
        let (incident, peaks) = match self {
            Self::Phantom(check) => {
                let measurement = &check.measurement;
                let peaks = Peak::on_phantom(&measurement.summary);
                (measurement.incident(), peaks)
            }
            Self::Nodes(_) => return None,
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
    let mut rungs: Vec<Layer> = Vec::new();
    let past = entries.filter_map(|entry| {
        let past = entry.past(&rungs);
        rungs.extend(entry.layers());
        past
    });
    past.collect()
}
