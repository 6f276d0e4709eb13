//! Where a file stands, and by what it is recognised.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::calls::Calls;

/// Bytes at the start of a file by which it is recognised, if it has as many.
pub(super) const HEAD: usize = 256;

/// Bytes before the offset by which a file is recognised.
pub(super) const TAIL: usize = 64;

/// Where a follower stands in a file, and by what it knows the file again. A value to be kept by a process
/// that may be killed: whoever starts from it misses no byte and repeats none. (Not in it are logs that were
/// renamed within seconds of each other, while they waited for their predecessor's last lines: they are
/// found again by their names.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FilePosition {
    /// Device and inode; `None` before the file was first seen.
    pub file: Option<(u64, u64)>,
    /// When the file was created, where the file system says it, in nanoseconds since 1970: an inode can
    /// be used again at once, for the same text.
    pub born: Option<u64>,
    /// Offset of the next byte that will be read.
    pub offset: u64,
    /// How many bytes at the start were taken for `head`.
    pub head_bytes: u16,
    /// FNV-1a of the first bytes.
    pub head: u64,
    /// How many bytes before the offset were taken for `tail`.
    pub tail_bytes: u16,
    /// FNV-1a of the last bytes before the offset.
    pub tail: u64,
    /// It was there and is gone, which was told.
    #[serde(default)]
    pub gone: bool,
}

impl FilePosition {
    /// At an offset of a file that was not seen yet.
    pub fn at(offset: u64) -> Self {
        Self {
            offset,
            ..Self::default()
        }
    }

    /// At the start of this file.
    pub(super) fn begin(metadata: &Metadata) -> Self {
        Self {
            file: Some(identity(metadata)),
            born: born(metadata),
            ..Self::default()
        }
    }

    /// Is it this file, by its numbers? True for one that was not seen yet.
    pub(super) fn may_be(&self, metadata: &Metadata) -> bool {
        let reborn = matches!((self.born, born(metadata)), (Some(a), Some(b)) if a != b);
        self.file.is_none_or(|known| known == identity(metadata)) && !reborn
    }

    /// The same place, in a file that has now been seen.
    pub(super) fn seen(self, metadata: &Metadata) -> Self {
        Self {
            file: Some(identity(metadata)),
            born: born(metadata),
            gone: false,
            ..self
        }
    }

    /// Has the file the bytes by which it is recognised at its start? (Those at its end come with the
    /// read.)
    pub(super) fn has_head(&self, calls: &Calls, file: &File) -> io::Result<bool> {
        if self.head_bytes == 0 {
            return Ok(true);
        }
        let mut buffer = [0; HEAD];
        let head = &mut buffer[..usize::from(self.head_bytes).min(HEAD)];
        let read = calls.read_full(file, head, 0)?;
        Ok(read == head.len() && fingerprint(head) == self.head)
    }

    /// Is it this file as far as it was read, by its content too?
    pub(super) fn is(&self, calls: &Calls, file: &File, metadata: &Metadata) -> io::Result<bool> {
        if !self.may_be(metadata) || metadata.len() < self.offset || !self.has_head(calls, file)? {
            return Ok(false);
        }
        let mut buffer = [0; TAIL];
        let tail = &mut buffer[..usize::from(self.tail_bytes).min(TAIL)];
        let read = calls.read_full(file, tail, self.offset.saturating_sub(tail.len() as u64))?;
        Ok(read == tail.len() && self.has_tail(tail))
    }

    /// Are these the bytes before the offset?
    pub(super) fn has_tail(&self, bytes: &[u8]) -> bool {
        self.tail_bytes == 0 || fingerprint(bytes) == self.tail
    }

    /// Moves on to `next`; `before` are the last bytes before it.
    pub(super) fn advance(
        &mut self,
        calls: &Calls,
        file: &File,
        next: u64,
        before: &[u8],
    ) -> io::Result<()> {
        let length = usize::try_from(next).map_or(HEAD, |n| n.min(HEAD));
        let (mut head_bytes, mut head) = (self.head_bytes, self.head);
        if usize::from(head_bytes) < length {
            let mut buffer = [0; HEAD];
            let read = calls.read_full(file, &mut buffer[..length], 0)?;
            (head_bytes, head) = (short(read), fingerprint(&buffer[..read]));
        }
        let tail = &before[before.len().saturating_sub(TAIL)..];
        *self = Self {
            file: self.file,
            born: self.born,
            offset: next,
            head_bytes,
            head,
            tail_bytes: short(tail.len()),
            tail: fingerprint(tail),
            gone: false,
        };
        Ok(())
    }
}

fn short(length: usize) -> u16 {
    u16::try_from(length).unwrap_or(u16::MAX)
}

/// Device and inode.
pub(super) fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

fn born(metadata: &Metadata) -> Option<u64> {
    let since = metadata.created().ok()?.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
}

/// FNV-1a, 64 bits: stable between versions, and nobody attacks a log's owner with his own log.
pub(super) fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
