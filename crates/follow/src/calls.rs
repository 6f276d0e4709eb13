//! The calls to the system that can fail in ways worth a test. A table of functions, so that a test can
//! put a failing one in; nothing else knows that it is a table.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::fs::inotify::{self, WatchFlags};
use rustix::io::Errno;

/// What the follower asks of the system.
#[derive(Debug, Clone, Copy)]
pub(super) struct Calls {
    pub stat: fn(&Path) -> io::Result<Metadata>,
    pub open: fn(&Path) -> io::Result<File>,
    pub read_at: fn(&File, &mut [u8], u64) -> io::Result<usize>,
    /// Type of the file system that a path is on, as statfs(2) has it.
    pub file_system: fn(&Path) -> io::Result<i64>,
    pub hints: fn() -> io::Result<OwnedFd>,
    pub watch: fn(&OwnedFd, &Path) -> io::Result<i32>,
}

impl Calls {
    /// The real ones.
    pub(super) const SYSTEM: Self = Self {
        stat: |path| std::fs::metadata(path),
        open: open_for_reading,
        read_at: |file, buffer, offset| file.read_at(buffer, offset),
        file_system: |path| Ok(rustix::fs::statfs(path)?.f_type),
        hints: || {
            let flags = inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC;
            Ok(inotify::init(flags)?)
        },
        watch: |instance, folder| Ok(inotify::add_watch(instance, folder, wanted())?),
    };

    /// Fills the buffer from `offset` on; fewer bytes at the end of the file.
    pub(super) fn read_full(
        &self,
        file: &File,
        buffer: &mut [u8],
        offset: u64,
    ) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match (self.read_at)(file, &mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(filled)
    }

    /// Is the path on a file system whose files other nodes write to? Unknown counts as yes.
    pub(super) fn is_network(&self, path: &Path) -> bool {
        (self.file_system)(path).map_or(true, |kind| name(kind).is_some())
    }
}

/// File systems that send no events for what other nodes write. Numbers from statfs(2) and the file systems' own
/// sources; SMB and AFS have two.
const NETWORK: [(i64, &str); 11] = [
    (0x6969, "NFS"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x00c3_6400, "CephFS"),
    (0x6573_5546, "FUSE"),
    (0x1983_0326, "BeeGFS"),
    (0x0102_1997, "9p"),
    (0xff53_4d42, "SMB"),
    (0xfe53_4d42, "SMB"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
];

fn name(kind: i64) -> Option<&'static str> {
    let known = NETWORK
        .iter()
        .find(|(number, _)| *number == kind & 0xffff_ffff);
    known.map(|(_, name)| *name)
}

/// The name of the network file system that a path is on; `None` where it is on none.
///
/// # Errors
/// What statfs(2) said.
pub fn network_file_system(path: &Path) -> io::Result<Option<&'static str>> {
    Ok(name(rustix::fs::statfs(path)?.f_type))
}

/// Everything that may mean that a log in the folder has grown, come or gone.
fn wanted() -> WatchFlags {
    WatchFlags::MODIFY
        | WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::MOVED_FROM
        | WatchFlags::MOVED_TO
        | WatchFlags::ATTRIB
        | WatchFlags::ONLYDIR
}

/// Opens without waiting for a writer, should the path be a pipe, and without a note of the access in the inode,
/// which would be one more write for every look. That is allowed to the owner alone.
fn open_for_reading(path: &Path) -> io::Result<File> {
    let open = |flags: OFlags| {
        OpenOptions::new()
            .read(true)
            .custom_flags(flags.bits().cast_signed())
            .open(path)
    };
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    open(flags | OFlags::NOATIME).or_else(|error| match Errno::from_io_error(&error) {
        Some(Errno::PERM) => open(flags),
        _ => Err(error),
    })
}

/// No file, or a folder on the way to it that is none (yet).
pub(super) fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// This process or the machine has no descriptor left.
pub(super) fn is_out_of_descriptors(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_file_systems_are_known_and_an_unknown_answer_counts_as_one() {
        let on = |file_system: fn(&Path) -> io::Result<i64>| {
            let calls = Calls {
                file_system,
                ..Calls::SYSTEM
            };
            calls.is_network(Path::new("/"))
        };
        assert!(on(|_| Ok(0x6969)) && on(|_| Ok(0x0bd0_0bd0)) && on(|_| Ok(0x6573_5546)));
        // SMB's number does not fit into a signed 32 bits and comes sign-extended on some machines.
        assert!(on(|_| Ok(i64::from(0xff53_4d42_u32.cast_signed()))));
        assert!(!on(|_| Ok(0xef53)), "ext4");
        assert!(!on(|_| Ok(0x5846_5342)), "xfs");
        assert!(on(|_| Err(io::Error::from(Errno::STALE))));
    }
}
