//! One look at a followed file.

use std::fs::{File, Metadata};
use std::io;

use super::calls::is_missing;
use super::position::FilePosition;
use super::record::{FileMatch, FileRecord, LookContext, LookOutcome, Old};
use super::rotated;

impl FileRecord {
    /// Looks once.
    pub(super) fn look(&mut self, desk: &mut LookContext<'_>) -> io::Result<LookOutcome> {
        if self.old.is_some() {
            return self.drain(desk);
        }
        match self.open(desk) {
            Ok(None) => Ok(LookOutcome::Nothing),
            Ok(Some((file, metadata))) => self.read(desk, &file, &metadata),
            Err(error) if is_missing(&error) => self.missing(desk),
            Err(error) => Err(error),
        }
    }

    fn read(
        &mut self,
        desk: &mut LookContext<'_>,
        file: &File,
        metadata: &Metadata,
    ) -> io::Result<LookOutcome> {
        self.present = true;
        if self.network.is_none() {
            self.arrive(desk.calls);
        }
        if !self.position.may_be(metadata) {
            return self.replaced(desk, metadata);
        }
        match self.new_bytes(desk, file, metadata)? {
            FileMatch::Other => {
                self.begin(desk.calls, metadata);
                Ok(LookOutcome::NewGeneration)
            }
            FileMatch::Nothing => Ok(LookOutcome::Nothing),
            FileMatch::Bytes(new) => Ok(LookOutcome::Bytes(new)),
        }
    }

    /// The path leads to another file. Somebody may still write to the old one.
    fn replaced(
        &mut self,
        desk: &mut LookContext<'_>,
        metadata: &Metadata,
    ) -> io::Result<LookOutcome> {
        match rotated::find(self, desk) {
            Some((old, from)) => self.leave(desk, old, from),
            None => {
                self.begin(desk.calls, metadata);
                Ok(LookOutcome::NewGeneration)
            }
        }
    }

    /// Reads the file to its end under its new name; from its start if it was truncated before.
    fn leave(
        &mut self,
        desk: &mut LookContext<'_>,
        old: Old,
        from: FilePosition,
    ) -> io::Result<LookOutcome> {
        self.old = Some(Box::new(old));
        if from == self.position {
            return self.drain(desk);
        }
        self.position = from;
        self.nul_looks = 0;
        Ok(LookOutcome::NewGeneration)
    }

    /// The path leads nowhere (yet, or any more).
    fn missing(&mut self, desk: &mut LookContext<'_>) -> io::Result<LookOutcome> {
        if !self.present {
            return Ok(LookOutcome::Nothing);
        }
        self.settled = false;
        if let Some((old, from)) = rotated::find(self, desk) {
            return self.leave(desk, old, from);
        }
        self.is_gone();
        Ok(LookOutcome::Removed)
    }
}
