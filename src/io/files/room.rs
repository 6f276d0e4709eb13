//! Whether a disk takes any more.

use std::io::Write;
use std::path::Path;

use super::{Access, disk};

/// Is there no room left on a disk, or none that its user may take?
pub fn is_full(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded
    )
}

/// Is a folder on a disk that takes no more?
pub fn is_without_room(dir: &Path) -> bool {
    const PIECE: [u8; 4_096] = [0; 4_096];
    let tried = disk::temporary(dir, ".room", Access::Private.mode()).and_then(|mut file| {
        file.write_all(&PIECE)?;
        file.as_file().sync_all()
    });
    tried.is_err_and(|error| is_full(&error))
}
