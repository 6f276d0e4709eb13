//! A log that was renamed while somebody writes to it: read to its end before its successor is begun.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};

use super::calls::is_missing;
use super::position::FilePosition;
use super::record::{FileMatch, FileRecord, LookContext, LookOutcome, Old};

/// Milliseconds without growth after which nobody writes to a renamed log any more.
pub(super) const QUIET_MS: i64 = 5_000;

/// Most milliseconds for which a successor waits for its predecessor.
pub(super) const DRAIN_MAX_MS: i64 = 60_000;

/// Most successors that wait for one log.
const SUCCESSORS_MAX: usize = 64;

/// Most names of a folder that are looked through.
const NAMES_MAX: usize = 65_536;

/// Most old logs that are held open, of all followed files.
pub(super) const HELD_MAX: usize = 32;

/// Finds the log that a record knows under another name, and from where to read on in it.
pub(super) fn find(record: &FileRecord, desk: &mut LookContext<'_>) -> Option<(Old, FilePosition)> {
    let (_, inode) = record.position.file?;
    let real = record.real.as_deref();
    if let Some(path) = real
        && let Ok(Some((file, from))) = same(record, desk, path)
    {
        return Some((hold(record, desk, path, file, true), from));
    }
    let path = real.unwrap_or(&record.path);
    let names = std::fs::read_dir(path.parent()?).ok()?;
    let (mut old, mut others) = (None, Vec::new());
    for entry in names.take(NAMES_MAX).flatten() {
        if old.is_none() && entry.ino() == inode {
            let at = entry.path();
            let found = same(record, desk, &at).ok().flatten();
            old = found.map(|(file, from)| (hold(record, desk, &at, file, false), from));
        } else if is_rotated(path, &entry.file_name()) {
            others.push(entry.path());
        }
    }
    let (mut old, from) = old?;
    old.next = since(record, desk, &others);
    Some((old, from))
}

/// Is this the name of a log that was renamed as `logrotate` and Python's handlers do it: its own name, and
/// a number or a date behind it?
fn is_rotated(path: &Path, name: &OsStr) -> bool {
    let own = path.file_name().unwrap_or_default().as_bytes();
    let tail = name.as_bytes().strip_prefix(own).unwrap_or_default();
    let mark = |b: &u8| matches!(b, b'.' | b'-' | b'_' | b':');
    tail.first().is_some_and(mark)
        && tail.iter().any(u8::is_ascii_digit)
        && tail.iter().all(|b| b.is_ascii_digit() || mark(b))
}

/// Logs that came after the one that a record knows and were renamed too before anybody looked, oldest first.
/// None where the file system does not say when a file was made.
fn since(record: &FileRecord, desk: &LookContext<'_>, others: &[PathBuf]) -> Vec<FilePosition> {
    let known = record.position.born;
    let files = others
        .iter()
        .filter_map(|path| (desk.calls.stat)(path).ok());
    let mut later: Vec<Metadata> = files
        .filter(Metadata::is_file)
        .filter(|metadata| known.is_some() && FilePosition::begin(metadata).born > known)
        .collect();
    // Of two that were made within a tick of the clock, the one that was written to last is the later.
    later.sort_by_key(|metadata| (metadata.created().ok(), metadata.modified().ok()));
    let mut later: Vec<FilePosition> = later.iter().map(FilePosition::begin).collect();
    later.truncate(SUCCESSORS_MAX);
    later
}

/// Opens the file at `path` if it is the one that the record knows, and says from where to read on: from where
/// the record stands if it has that content too, and from its start if it was truncated before it was renamed.
/// The same numbers alone are not enough for that, for an inode is used again; when it was made must be known.
fn same(
    record: &FileRecord,
    desk: &LookContext<'_>,
    path: &Path,
) -> io::Result<Option<(File, FilePosition)>> {
    let file = match (desk.calls.open)(path) {
        Ok(file) => file,
        Err(error) if is_missing(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let metadata = file.metadata()?;
    let known = record.position;
    let from = if known.is(desk.calls, &file, &metadata)? {
        Some(known)
    } else {
        let truncated = known.born.is_some() && known.may_be(&metadata);
        truncated.then(|| FilePosition::begin(&metadata))
    };
    Ok(from.map(|from| (file, from)))
}

fn hold(
    record: &FileRecord,
    desk: &mut LookContext<'_>,
    path: &Path,
    file: File,
    retargeted: bool,
) -> Old {
    let may = record.network == Some(false) && *desk.held < HELD_MAX;
    *desk.held += usize::from(may);
    Old {
        path: path.into(),
        file: may.then_some(file),
        since: desk.now,
        grew: desk.now,
        done: false,
        next: Vec::new(),
        retargeted,
    }
}

impl FileRecord {
    /// Reads on in the old file; turns to the new one when nobody writes to the old one any more.
    pub(super) fn drain(&mut self, desk: &mut LookContext<'_>) -> io::Result<LookOutcome> {
        let Some(mut old) = self.old.take() else {
            return Ok(LookOutcome::Nothing);
        };
        let present = match (desk.calls.stat)(&self.path) {
            Ok(metadata) => Some(metadata),
            Err(error) if is_missing(&error) => None,
            Err(error) => {
                self.old = Some(old);
                return Err(error);
            }
        };
        if present.as_ref().is_some_and(|m| self.position.may_be(m)) {
            // It was renamed back.
            release(&mut old, desk);
            return Ok(LookOutcome::Nothing);
        }
        if let Some(metadata) = &present
            && old.next.len() < SUCCESSORS_MAX
            && !old.next.last().is_some_and(|next| next.may_be(metadata))
        {
            old.next.push(FilePosition::begin(metadata));
        }
        let overdue = desk.now.saturating_sub(old.since) >= DRAIN_MAX_MS;
        let found = match self.read_old(desk, &mut old) {
            _ if old.done => FileMatch::Nothing,
            Err(_) if overdue => FileMatch::Other,
            Err(error) => {
                self.old = Some(old);
                return Err(error);
            }
            Ok(found) => found,
        };
        let quiet = desk.now.saturating_sub(old.grew) >= QUIET_MS && !self.holds_back();
        match found {
            FileMatch::Bytes(new) => {
                old.grew = desk.now;
                old.done = overdue && !new.more && present.is_some();
                self.old = Some(old);
                Ok(LookOutcome::Bytes(new))
            }
            FileMatch::Nothing if !(old.done || quiet || desk.last) => {
                self.old = Some(old);
                Ok(LookOutcome::Nothing)
            }
            found => {
                let step = self.turn(desk, old, present, matches!(found, FileMatch::Other));
                Ok(step)
            }
        }
    }

    /// The old file is at its end, or `lost`.
    fn turn(
        &mut self,
        desk: &mut LookContext<'_>,
        mut old: Box<Old>,
        present: Option<Metadata>,
        lost: bool,
    ) -> LookOutcome {
        release(&mut old, desk);
        let step = if old.retargeted || lost {
            LookOutcome::NewGeneration
        } else {
            LookOutcome::Rotated
        };
        let before = self.position;
        let mut next = std::mem::take(&mut old.next).into_iter();
        while let Some(position) = next.next() {
            if present.as_ref().is_some_and(|m| position.may_be(m)) {
                break;
            }
            self.position = position;
            if let Some((mut successor, _)) = find(self, desk) {
                successor.next = next.collect();
                self.old = Some(Box::new(successor));
                return step;
            }
            self.position = before;
        }
        match present {
            Some(metadata) => {
                self.begin(desk.calls, &metadata);
                step
            }
            None if lost => {
                self.is_gone();
                LookOutcome::Removed
            }
            None => {
                self.old = Some(old);
                LookOutcome::Nothing
            }
        }
    }

    fn read_old(&mut self, desk: &mut LookContext<'_>, old: &mut Old) -> io::Result<FileMatch> {
        if let Some(file) = old.file.take() {
            let found = file
                .metadata()
                .and_then(|metadata| self.new_bytes(desk, &file, &metadata));
            old.file = Some(file);
            return found;
        }
        if let Some((file, from)) = same(self, desk, &old.path)?
            && from == self.position
        {
            let metadata = file.metadata()?;
            return self.new_bytes(desk, &file, &metadata);
        }
        // Renamed once more?
        let Some((mut again, from)) = find(self, desk) else {
            return Ok(FileMatch::Other);
        };
        if from != self.position {
            release(&mut again, desk);
            return Ok(FileMatch::Other);
        }
        old.path = again.path;
        old.file = again.file;
        Ok(FileMatch::Nothing)
    }

    /// Gives back what the record holds open.
    pub(super) fn close(&mut self, held: &mut usize) {
        if self.old.take().is_some_and(|old| old.file.is_some()) {
            *held = held.saturating_sub(1);
        }
    }
}

fn release(old: &mut Old, desk: &mut LookContext<'_>) {
    if old.file.take().is_some() {
        *desk.held = desk.held.saturating_sub(1);
    }
}
