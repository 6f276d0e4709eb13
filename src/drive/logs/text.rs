//! The text of one log, and what reads it.

use crate::core::measure::{AttemptFigures, Overlap};
use oomctl_diagnose::{Links, Scanner, Seam, SourceId};
use oomctl_follow::Growth;

/// Most renamed predecessors of one log whose text is kept; at the next the log begins anew.
const ROTATIONS_MAX: usize = 64;

/// Where the text of a log goes.
pub(super) struct LogStream {
    /// How evidence names it.
    pub(super) name: String,
    pub(super) source: SourceId,
    pub(super) rotations: usize,
    overlap: Overlap,
    seam: Seam,
    /// Bytes taken since the last mark.
    pub(super) unmarked: u64,
    /// It began anew since the last look.
    pub(super) anew: bool,
}

/// What reads the text of all logs.
pub(super) struct Readers {
    pub(super) scanner: Scanner,
    pub(super) figures: AttemptFigures,
    pub(super) links: Links,
    pub(super) trouble: Vec<String>,
}

impl LogStream {
    pub(super) fn new(source: SourceId, name: String, rotations: usize) -> Self {
        Self {
            name,
            source,
            rotations,
            overlap: Overlap::default(),
            seam: Seam::default(),
            unmarked: 0,
            anew: false,
        }
    }

    /// Takes what a look found.
    pub(super) fn take(&mut self, growth: Growth<'_>, readers: &mut Readers) {
        let Readers {
            scanner,
            figures,
            links,
            trouble,
        } = readers;
        match growth {
            Growth::Bytes { offset, data } => {
                self.unmarked += data.len() as u64;
                scanner.feed(self.source, offset, data);
                figures.feed(&mut self.overlap, data);
                links.feed(&mut self.seam, data);
                return;
            }
            Growth::Rotated if self.rotations < ROTATIONS_MAX => {
                scanner.finish_source(self.source);
                self.source = scanner.source(&self.name);
                self.rotations += 1;
                self.anew = true;
            }
            Growth::NewGeneration | Growth::Rotated => {
                scanner.restart(self.source);
                self.anew = true;
            }
            Growth::Removed => trouble.push(format!("{} was removed", self.name)),
            Growth::Trouble(what) => trouble.push(what.to_owned()),
        }
        self.overlap.clear();
        self.seam.clear();
    }
}
