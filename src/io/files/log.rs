//! Logs that may be pipes.

use std::fs::{File, OpenOptions};
use std::io::{Cursor, Error, ErrorKind, IsTerminal, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{OFlags, fcntl_setfl, makedev};

/// Opens a log: a file, or a pipe that somebody writes into. Links are followed.
///
/// # Errors
/// When it cannot be opened, is a device that never ends, or (`NotConnected`) a pipe without a writer.
pub fn open_log(path: &Path) -> std::io::Result<Box<dyn Read>> {
    let meta = path.metadata()?;
    let kind = meta.file_type();
    if kind.is_fifo() {
        return open_pipe(path);
    }
    let file = File::open(path)?;
    let ends = meta.rdev() == makedev(1, 3) || file.is_terminal();
    if kind.is_block_device() || kind.is_char_device() && !ends {
        return Err(Error::other("it is a device"));
    }
    Ok(Box::new(file))
}

/// Whether what was read of it is gone.
pub fn is_pipe(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.file_type().is_fifo())
}

/// Refuses a pipe: one without a writer would be waited for.
pub(super) fn not_a_pipe(path: &Path) -> std::io::Result<()> {
    match is_pipe(path) {
        true => Err(Error::new(ErrorKind::InvalidInput, "it is a pipe")),
        false => Ok(()),
    }
}

/// Opens a pipe without waiting for a writer, which may never come.
fn open_pipe(path: &Path) -> std::io::Result<Box<dyn Read>> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32);
    let (mut pipe, mut first) = (options.open(path)?, [0]);
    let read = match pipe.read(&mut first) {
        Ok(0) => {
            let what = "nobody writes into this pipe";
            return Err(Error::new(ErrorKind::NotConnected, what));
        }
        Err(e) if e.kind() == ErrorKind::WouldBlock => 0,
        read => read?,
    };
    fcntl_setfl(&pipe, OFlags::empty())?;
    let first = first.into_iter().take(read).collect::<Vec<u8>>();
    Ok(Box::new(Cursor::new(first).chain(pipe)))
}
