//! Folders for what a command needs while it runs.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::files::check_ours;

/// Locked for as long as the folder is in use.
const LOCK: &str = "in-use.lock";

/// A folder among the temporary files that is gone when this is dropped. A process that is killed leaves its folder; the
/// next that makes one of the same purpose removes it.
#[derive(Debug)]
pub struct ScratchFolder {
    folder: TempDir,
    _lock: File,
}

impl ScratchFolder {
    /// A new one, `oomctl-<purpose>-<random>`.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(purpose: &str) -> io::Result<Self> {
        Self::beside(&std::env::temp_dir(), &format!("oomctl-{purpose}-"))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The file that is locked for as long as this process lives.
    pub fn lock(&self) -> PathBuf {
        self.path().join(LOCK)
    }

    fn beside(others: &Path, prefix: &str) -> io::Result<Self> {
        remove_abandoned(others, prefix);
        let folder = tempfile::Builder::new().prefix(prefix).tempdir_in(others)?;
        // A folder without a lock is young: nobody takes one that is not locked yet for abandoned.
        let young = folder.path().join("young.lock");
        let lock = File::create(&young)?;
        lock.try_lock()?;
        fs::rename(&young, folder.path().join(LOCK))?;
        Ok(Self {
            folder,
            _lock: lock,
        })
    }
}

/// What cannot be read or removed stays: it is in nobody's way.
fn remove_abandoned(folder: &Path, prefix: &str) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let path = entry.path();
        if !name.to_string_lossy().starts_with(prefix) || check_ours(&path).is_err() {
            continue;
        }
        let lock = File::open(path.join(LOCK));
        if lock.is_ok_and(|lock| lock.try_lock().is_ok()) {
            fs::remove_dir_all(&path).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_killed_process_is_removed_and_no_other() {
        let parent = tempfile::tempdir().unwrap();
        let there = |name: &str| parent.path().join(name).exists();
        for (name, lock) in [("x-dead", true), ("x-young", false), ("y-dead", true)] {
            fs::create_dir(parent.path().join(name)).unwrap();
            if lock {
                File::create(parent.path().join(name).join(LOCK)).unwrap();
            }
        }
        let first = ScratchFolder::beside(parent.path(), "x-").unwrap();
        assert!(!there("x-dead") && there("x-young") && there("y-dead"));
        let second = ScratchFolder::beside(parent.path(), "x-").unwrap();
        assert!(first.path().exists() && second.path().exists());
        let path = first.path().to_owned();
        drop(first);
        assert!(!path.exists());
    }
}
