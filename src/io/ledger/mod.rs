//! The ledger of a run: `ledger.jsonl`, one fact a line, appended and never rewritten.
//!
//! One `write` and one `fsync` make one record. A record that does not end in its newline does not
//! count; readers leave it alone, the next writer seals it with a newline and the fact `torn_tail`, so
//! that no good record is ever glued to it. Damage anywhere else is an error that names the line. One
//! writer at a time (see `claim`); every append checks that it is still ours.
//!
//! Rule: what cannot be read is reported, never replaced by something empty.

mod claim;
mod read;

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::core::engine::{Fact, Record};
use crate::io::disk::{self, Appending};
use crate::io::files::{FileError, io_error, no_follow, sync_dir};

pub use claim::{LedgerClaim, LedgerOwner, Takeover, owner};
pub use read::{LedgerContents, Torn, parse, read};

/// Name of the ledger in a run's folder.
pub const LEDGER_FILE: &str = "ledger.jsonl";

/// Most bytes behind our last record that earlier owners can have left: each its one unfinished write.
const BEHIND_MAX: u64 = 1024 * 1024;

/// The ledger cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// A file operation failed.
    #[error(transparent)]
    File(#[from] FileError),
    /// Another process is the writer.
    #[error("{} is watched by process {} on {}", dir.display(), owner.pid, owner.host)]
    Owned {
        /// Folder of the run.
        dir: PathBuf,
        /// Who writes it.
        owner: Box<LedgerOwner>,
    },
    /// Another process became the writer while we were it.
    #[error("another process has taken {} over; this one stops", dir.display())]
    TakenOver {
        /// Folder of the run.
        dir: PathBuf,
    },
    /// A line in the middle is not a record.
    #[error("{}:{line}: {why}; the ledger is damaged here and nothing was changed", path.display())]
    Damaged {
        /// The ledger.
        path: PathBuf,
        /// Line, from 1.
        line: u64,
        /// What is wrong with it.
        why: String,
    },
    /// Written by a newer version of oomctl.
    #[error(
        "{}:{line}: written by a newer oomctl; this version reads it but does not write to it",
        path.display()
    )]
    Newer {
        /// The ledger.
        path: PathBuf,
        /// First line that this version does not understand.
        line: u64,
    },
    /// A write failed before. What is on disk is not known, so nothing more is written.
    #[error("an earlier write to {} failed; nothing more is written", path.display())]
    Poisoned {
        /// The ledger.
        path: PathBuf,
    },
    /// A ledger is there already.
    #[error("{} already exists", path.display())]
    Exists {
        /// The ledger.
        path: PathBuf,
    },
}

/// A ledger written by its one owner. Its file is open only while something is written: there are thousands of runs, and
/// fewer descriptors. Dropping it gives the run back.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    claim: LedgerClaim,
    next_seq: u64,
    /// Where the next record begins. If the file is longer, somebody else wrote to it.
    end: u64,
    /// Half a record before that, which is sealed with the first fact that we write.
    torn: Option<Torn>,
    poisoned: bool,
}

impl Ledger {
    /// Makes the ledger of a new run. `dir` must exist; an empty ledger in it was left by somebody who was killed.
    ///
    /// # Errors
    /// When one with facts is there, or the folder cannot be written.
    pub fn create(dir: &Path) -> Result<Self, LedgerError> {
        let claim = LedgerClaim::take(dir, Takeover::IfDead)?;
        let path = dir.join(LEDGER_FILE);
        let made = opening()
            .create(true)
            .mode(disk::beside(&path, 0o600))
            .open(&path);
        made.map_err(io_error("create", &path))?;
        if disk::length(&path).map_err(io_error("look at", &path))? > 0 {
            return Err(LedgerError::Exists { path });
        }
        sync_dir(dir)?;
        Ok(Self {
            path,
            claim,
            next_seq: 1,
            end: 0,
            torn: None,
            poisoned: false,
        })
    }

    /// Opens the ledger of a run for writing: becomes its owner, reads it, seals a torn tail and
    /// writes down that the owner changed. Returns every record that counts.
    ///
    /// # Errors
    /// When another process owns it, or it is damaged, newer, or cannot be written.
    pub fn open(
        dir: &Path,
        takeover: Takeover,
        now: Timestamp,
    ) -> Result<(Self, Vec<Record>), LedgerError> {
        let path = dir.join(LEDGER_FILE);
        if let Some(line) = read(dir)?.newer {
            return Err(LedgerError::Newer { path, line });
        }
        let claim = LedgerClaim::take(dir, takeover)?;
        // Read again: until now another owner may have written.
        let reading = read(dir)?;
        if let Some(line) = reading.newer {
            return Err(LedgerError::Newer { path, line });
        }
        let mut ledger = Self {
            path,
            claim,
            next_seq: reading.records.last().map_or(1, |r| r.seq + 1),
            end: reading.length,
            torn: reading.torn,
            poisoned: false,
        };
        let mut records = reading.records;
        let owner = ledger.claim.owner();
        let changed = Fact::OwnerChanged {
            host: owner.host.clone(),
            pid: owner.pid,
        };
        records.extend(ledger.seal(now)?);
        records.push(ledger.append(&changed, now)?);
        Ok((ledger, records))
    }

    /// Appends one fact and makes it durable, unless it only repeats what others say. When this returns an error the fact does not count, and
    /// nothing more can be appended until the ledger is opened again.
    ///
    /// # Errors
    /// When the run is no longer ours, or the disk is full or fails.
    pub fn append(&mut self, fact: &Fact, now: Timestamp) -> Result<Record, LedgerError> {
        if self.poisoned {
            return Err(LedgerError::Poisoned {
                path: self.path.clone(),
            });
        }
        self.seal(now)?;
        self.write(fact, now, "")
    }

    /// Seals half a record at the end: the one that was there when the ledger was opened, or one of an
    /// owner before us.
    fn seal(&mut self, now: Timestamp) -> Result<Option<Record>, LedgerError> {
        let behind = self.behind()?;
        let torn = match self.torn.take() {
            Some(Torn { offset, .. }) => Torn {
                offset,
                length: self.end - offset,
            },
            None => match behind {
                Some(torn) => torn,
                None => return Ok(None),
            },
        };
        let fact = Fact::TornTail {
            offset: torn.offset,
            length: torn.length,
        };
        self.write(&fact, now, "\n").map(Some)
    }

    fn write(&mut self, fact: &Fact, now: Timestamp, seal: &str) -> Result<Record, LedgerError> {
        let record = Record::new(self.next_seq, now, self.claim.epoch(), fact.clone());
        let failed = || io_error("write", &self.path);
        let mut line = seal.as_bytes().to_vec();
        serde_json::to_writer(&mut line, &record).map_err(|e| failed()(e.into()))?;
        line.push(b'\n');
        let written = self.add(&line, !fact.is_repeated());
        if let Err(e) = written {
            self.poisoned = true;
            return Err(failed()(e).into());
        }
        self.end += line.len() as u64;
        self.next_seq += 1;
        Ok(record)
    }

    fn add(&self, line: &[u8], sync: bool) -> std::io::Result<()> {
        let file = opening().open(&self.path)?;
        let mut appending = Appending {
            file: &file,
            path: &self.path,
        };
        write_once(&mut appending, line)?;
        match sync {
            true => disk::sync(&file, &self.path),
            false => Ok(()),
        }
    }

    /// Checks that no other process has become the writer.
    ///
    /// # Errors
    /// When one has.
    pub fn still_ours(&self) -> Result<(), LedgerError> {
        self.look_behind().map(drop)
    }

    /// Takes what stands behind our last record for what it is. Returns what must be sealed of it.
    fn behind(&mut self) -> Result<Option<Torn>, LedgerError> {
        let (length, torn) = self.look_behind()?;
        self.end = length;
        Ok(torn)
    }

    /// How long the ledger is, and what stands behind our last record that is none. An owner before us may
    /// have finished a write after we took the run over; what a later one wrote ends our part.
    fn look_behind(&self) -> Result<(u64, Option<Torn>), LedgerError> {
        let taken = || LedgerError::TakenOver {
            dir: self.claim.dir().to_owned(),
        };
        let length = disk::length(&self.path);
        let length = length.map_err(io_error("look at", &self.path))?;
        let more = length.checked_sub(self.end).ok_or_else(taken)?;
        if more > BEHIND_MAX || !self.claim.holds() {
            return Err(taken());
        }
        if more == 0 {
            return Ok((length, None));
        }
        let mut bytes = vec![0; usize::try_from(more).unwrap_or_default()];
        let file = opening().open(&self.path);
        let read = file.and_then(|file| file.read_exact_at(&mut bytes, self.end));
        read.map_err(io_error("read", &self.path))?;
        let torn = read::behind(&bytes, self.end, self.claim.epoch()).map_err(|()| taken())?;
        Ok((length, torn))
    }

    /// Tells others that the owner is alive.
    ///
    /// # Errors
    /// When the owner's file cannot be touched.
    pub fn heartbeat(&self) -> Result<(), LedgerError> {
        self.claim.heartbeat()
    }
}

fn opening() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).append(true).custom_flags(no_follow());
    options
}

/// Writes a record with one `write`. A short write, as on a full disk, is an error: the half that
/// reached the file is a torn tail, which the next owner seals.
fn write_once(file: &mut impl Write, line: &[u8]) -> std::io::Result<()> {
    loop {
        match file.write(line) {
            Ok(n) if n == line.len() => return Ok(()),
            Ok(_) => return Err(std::io::ErrorKind::StorageFull.into()),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

#[cfg(test)]
mod tests;
