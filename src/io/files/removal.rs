//! Removing a folder with all that it holds.

use std::path::Path;

use super::{FileError, io_error, sync_dir};

/// Bytes of the files below a folder; links are not followed. What cannot be read counts nothing.
pub fn folder_bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let of = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => folder_bytes(&entry.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    };
    entries.map(of).sum()
}

/// Removes a folder. It is renamed first, so that nobody takes the half of it for the whole; what an earlier removal left
/// under that name goes too.
///
/// # Errors
/// When it cannot be renamed or emptied.
pub fn remove_whole(folder: &Path, aside: &Path) -> Result<(), FileError> {
    if aside.exists() {
        std::fs::remove_dir_all(aside).map_err(io_error("remove", aside))?;
    }
    std::fs::rename(folder, aside).map_err(io_error("rename", folder))?;
    if let Some(parent) = folder.parent() {
        sync_dir(parent)?;
    }
    std::fs::remove_dir_all(aside).map_err(io_error("remove", aside))
}
