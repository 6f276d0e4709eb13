//! One followed file: what is known of it, and its new bytes.

use std::fs::{File, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::SeekFrom;

use super::calls::Calls;
use super::position::{FilePosition, TAIL};

/// Page size of NFS clients' caches, in bytes.
const PAGE: u64 = 4_096;

/// How often NULs that may be an NFS client's mistake are looked at again before they are believed.
pub(super) const NUL_LOOKS: u8 = 5;

/// Shortest hole that is skipped rather than read, in bytes.
pub(super) const HOLE: u64 = 64 * 1024;

/// After so many milliseconds a further change of a file surely has another change time. (The coarsest
/// clock of a kernel ticks every 10.)
const TICK_MS: i64 = 50;

/// What a look needs besides the record.
pub(super) struct LookContext<'a> {
    pub calls: &'a Calls,
    /// One buffer for all files. Its length bounds what one look reads.
    pub buffer: &'a mut [u8],
    /// Old files that are held open, of all records.
    pub held: &'a mut usize,
    /// Milliseconds since 1970.
    pub now: i64,
    /// Nothing will be written any more: wait for nothing.
    pub last: bool,
    /// The file has probably changed: do not ask first whether it has.
    pub likely: bool,
}

/// New bytes of a file, from `start` to `end` of the buffer; `more` if there may be further ones.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NewBytes {
    pub offset: u64,
    pub start: usize,
    pub end: usize,
    pub more: bool,
}

/// What a look found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LookOutcome {
    Nothing,
    Bytes(NewBytes),
    NewGeneration,
    Rotated,
    Removed,
}

/// What a file that may be the known one holds.
pub(super) enum FileMatch {
    /// It is another one, or was truncated.
    Other,
    Nothing,
    Bytes(NewBytes),
}

/// What stat(2) says of a file, to notice that it may have changed. It never decides more than that: it is
/// kept for thousands of files as one number, and two that are equal by chance hide a change of size until
/// the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct StatStamp(u64);

impl StatStamp {
    fn of(metadata: &Metadata) -> Self {
        let (device, inode) = super::position::identity(metadata);
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        let mut hasher = DefaultHasher::new();
        (device, inode, metadata.len(), modified, changed).hash(&mut hasher);
        Self(hasher.finish())
    }
}

fn is_older_than_a_tick(metadata: &Metadata, now: i64) -> bool {
    let changed = metadata.ctime().saturating_mul(1_000) + metadata.ctime_nsec() / 1_000_000;
    now.saturating_sub(changed) > TICK_MS
}

/// The log under its new name.
#[derive(Debug)]
pub(super) struct Old {
    pub(super) path: Box<Path>,
    /// Held open on a local file system, where somebody may remove the name too.
    pub(super) file: Option<File>,
    pub(super) since: i64,
    pub(super) grew: i64,
    /// Its successor waits no longer.
    pub(super) done: bool,
    /// The successors, in order; one may be renamed too before its turn comes.
    pub(super) next: Vec<FilePosition>,
    /// The log is where it was; the link to it leads elsewhere.
    pub(super) retargeted: bool,
}

/// One followed file. Small, for there are thousands.
#[derive(Debug)]
pub(super) struct FileRecord {
    pub(super) path: Box<Path>,
    pub(super) position: FilePosition,
    /// Where the path leads, if it is a link.
    pub(super) real: Option<Box<Path>>,
    pub(super) old: Option<Box<Old>>,
    pub(super) trouble: Option<Box<str>>,
    stamp: Option<StatStamp>,
    /// No change can hide behind an unchanged stamp.
    pub(super) settled: bool,
    pub(super) network: Option<bool>,
    pub(super) present: bool,
    pub(super) nul_looks: u8,
}

impl FileRecord {
    pub(super) fn new(path: PathBuf, position: FilePosition) -> Self {
        Self {
            path: path.into_boxed_path(),
            position,
            real: None,
            old: None,
            trouble: None,
            stamp: None,
            settled: false,
            network: None,
            present: position.file.is_some() && !position.gone,
            nul_looks: 0,
        }
    }

    /// Opens the file, unless it has surely not changed.
    pub(super) fn open(&self, desk: &LookContext<'_>) -> io::Result<Option<(File, Metadata)>> {
        if self.settled && !desk.likely && self.network == Some(false) {
            let metadata = (desk.calls.stat)(&self.path)?;
            if self.stamp == Some(StatStamp::of(&metadata)) {
                return Ok(None);
            }
        }
        let file = (desk.calls.open)(&self.path)?;
        let metadata = file.metadata()?;
        if metadata.is_file() {
            Ok(Some((file, metadata)))
        } else {
            Err(io::Error::other("it is not a regular file"))
        }
    }

    /// Learns where the file is: what its file system is, where a link leads.
    pub(super) fn arrive(&mut self, calls: &Calls) {
        self.network = Some(calls.is_network(&self.path));
        let is_link = std::fs::symlink_metadata(&self.path).is_ok_and(|m| m.is_symlink());
        let real = is_link.then(|| std::fs::canonicalize(&self.path).ok());
        self.real = real.flatten().map(PathBuf::into_boxed_path);
    }

    /// From now on this file, from its start.
    pub(super) fn begin(&mut self, calls: &Calls, metadata: &Metadata) {
        self.arrive(calls);
        self.position = FilePosition::begin(metadata);
        self.stamp = None;
        self.settled = false;
        self.nul_looks = 0;
    }

    /// Nothing is held back and no old file is waited for.
    pub(super) fn is_at_rest(&self) -> bool {
        self.old.is_none() && !self.holds_back()
    }

    /// Are there NULs that are not yet believed?
    pub(super) fn holds_back(&self) -> bool {
        self.nul_looks > 0
    }

    pub(super) fn is_gone(&mut self) {
        self.present = false;
        self.position.gone = true;
    }

    /// Reads what the file has got since the last look, if it is still the same.
    pub(super) fn new_bytes(
        &mut self,
        desk: &mut LookContext<'_>,
        file: &File,
        metadata: &Metadata,
    ) -> io::Result<FileMatch> {
        let known = self.position;
        if metadata.len() < known.offset || !known.has_head(desk.calls, file)? {
            return Ok(FileMatch::Other);
        }
        let tail = usize::from(known.tail_bytes).min(TAIL);
        let expected = metadata.len().saturating_sub(known.offset).max(PAGE);
        let wanted = usize::try_from(expected)
            .unwrap_or(usize::MAX)
            .min(desk.buffer.len() - TAIL);
        let from = known.offset.saturating_sub(tail as u64);
        let (data, hole) = extent(file, metadata, known.offset);
        let in_hole = data.saturating_sub(known.offset) >= HOLE;
        let wanted = if in_hole {
            0
        } else {
            let up_to_hole = hole.saturating_sub(known.offset);
            wanted.min(usize::try_from(up_to_hole).unwrap_or(usize::MAX))
        };
        let buffer = &mut desk.buffer[..tail + wanted];
        let read = desk.calls.read_full(file, buffer, from)?;
        if read < tail || !known.has_tail(&buffer[..tail]) {
            return Ok(FileMatch::Other);
        }
        if in_hole {
            return self.skip(desk, file, metadata, data);
        }
        let network = self.network != Some(false) && !desk.last;
        let end = if network {
            let believed = self.believe(&buffer[tail..read], metadata.len());
            tail + believed
        } else {
            read
        };
        if end > tail {
            let next = known.offset + (end - tail) as u64;
            self.position = known.seen(metadata);
            self.position
                .advance(desk.calls, file, next, &buffer[..end])?;
        }
        self.settle(metadata, desk.now, end > tail);
        Ok(if end == tail {
            FileMatch::Nothing
        } else {
            FileMatch::Bytes(NewBytes {
                offset: known.offset,
                start: tail,
                end,
                more: read == buffer.len(),
            })
        })
    }

    /// Goes on behind a hole; a hole that reaches to the end is waited at.
    fn skip(
        &mut self,
        desk: &mut LookContext<'_>,
        file: &File,
        metadata: &Metadata,
        next: u64,
    ) -> io::Result<FileMatch> {
        if next >= metadata.len() {
            self.settle(metadata, desk.now, false);
            return Ok(FileMatch::Nothing);
        }
        self.position = self.position.seen(metadata);
        self.position
            .advance(desk.calls, file, next, &[0; TAIL][..])?;
        self.new_bytes(desk, file, metadata)
    }

    /// Takes note of what stat said at a look that read to the end, or `read` something.
    fn settle(&mut self, metadata: &Metadata, now: i64, read: bool) {
        let stamp = StatStamp::of(metadata);
        self.position = self.position.seen(metadata);
        let again = self.stamp == Some(stamp) && !read;
        self.settled = self.position.offset == metadata.len()
            && (again || is_older_than_a_tick(metadata, now));
        self.stamp = Some(stamp);
    }

    /// How many of the bytes are believed. Held back are NULs that an NFS client may show in place of
    /// bytes that another node has just appended: from the old end of the file to the next page border
    /// (linux-nfs, 2018-09-11, kernels 4.15 to 4.18). A longer run is a hole, and after a few looks they
    /// are believed.
    fn believe(&mut self, data: &[u8], file_length: u64) -> usize {
        if self.nul_looks >= NUL_LOOKS {
            self.nul_looks = 0;
            return data.len();
        }
        let offset = self.position.offset;
        let border = (offset / PAGE + 1) * PAGE - offset;
        let leading = data.iter().take_while(|b| **b == 0).count() as u64;
        if leading > 0 && leading == border && leading < PAGE && leading < data.len() as u64 {
            self.nul_looks += 1;
            return 0;
        }
        let trailing = data.iter().rev().take_while(|b| **b == 0).count();
        let end = offset + data.len() as u64;
        let suspicious = end == file_length || end.is_multiple_of(PAGE);
        let mut believed = data.len();
        if trailing > 0 && (trailing as u64) < PAGE && suspicious {
            believed -= trailing;
        }
        self.nul_looks = if believed == 0 && !data.is_empty() {
            self.nul_looks + 1
        } else {
            0
        };
        believed
    }
}

/// Where data is from `offset` on: its start, and the start of the hole behind it. The whole rest counts
/// as data unless the file is sparse and large.
fn extent(file: &File, metadata: &Metadata, offset: u64) -> (u64, u64) {
    let sparse = metadata.blocks().saturating_mul(512) < metadata.len();
    if !sparse || metadata.len().saturating_sub(offset) < HOLE {
        return (offset, u64::MAX);
    }
    let data = match rustix::fs::seek(file, SeekFrom::Data(offset)) {
        Ok(data) => data,
        Err(rustix::io::Errno::NXIO) => return (u64::MAX, u64::MAX),
        Err(_) => return (offset, u64::MAX),
    };
    let hole = rustix::fs::seek(file, SeekFrom::Hole(data)).unwrap_or(u64::MAX);
    (data, if hole > offset { hole } else { u64::MAX })
}
