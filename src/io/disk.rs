//! The few calls to the file system on which "nothing lost, nothing twice" rests. They stand in one place
//! so that the simulation (`drive/tests/simulation`) can refuse each, cut it short, end the process at it,
//! or answer it from an old cache.
//!
//! Rule: one call of the system each; what an error means is for the caller.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::time::SystemTime;

#[cfg(test)]
use super::trial;

/// A change that is about to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskChange<'a> {
    /// So many bytes go to the end of a file.
    Append(&'a Path, usize),
    /// What was appended to a file is made durable.
    Sync(&'a Path),
    /// A file takes the place of whatever has this name.
    Replace(&'a Path),
    /// A file gets this name as well, if nothing has it.
    Link(&'a Path),
    /// A name goes away.
    Remove(&'a Path),
    /// A folder is made.
    MakeDir(&'a Path),
    /// The names in a folder are made durable.
    SyncDir(&'a Path),
}

/// How many bytes of an appending change there is room for.
fn before(change: DiskChange<'_>) -> io::Result<usize> {
    #[cfg(test)]
    if let Some(room) = trial::with(|t| t.change(change)) {
        return room;
    }
    match change {
        DiskChange::Append(_, bytes) => Ok(bytes),
        _ => Ok(0),
    }
}

/// A file that was opened for appending.
pub struct Appending<'a> {
    /// The file.
    pub file: &'a File,
    /// Its path.
    pub path: &'a Path,
}

impl Write for Appending<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = before(DiskChange::Append(self.path, bytes.len()))?;
        let mut file = self.file;
        file.write(bytes.get(..room).unwrap_or(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Makes what was appended to a file durable.
///
/// # Errors
/// What the system says.
pub fn sync(file: &File, path: &Path) -> io::Result<()> {
    before(DiskChange::Sync(path))?;
    file.sync_data()
}

/// Makes the names in a folder durable.
///
/// # Errors
/// What the system says.
pub fn sync_dir(path: &Path) -> io::Result<()> {
    before(DiskChange::SyncDir(path))?;
    File::open(path)?.sync_all()
}

/// A new file of some name in a folder, which goes away unless it is given a name that counts.
///
/// # Errors
/// What the system says, without the name of the file, which means nothing to anybody.
pub fn temporary(dir: &Path, prefix: &str, mode: u32) -> io::Result<tempfile::NamedTempFile> {
    use std::os::unix::fs::OpenOptionsExt;
    let mode = beside(&dir.join(prefix), mode);
    let mut options = File::options();
    options.read(true).write(true).create_new(true).mode(mode);
    tempfile::Builder::new()
        .prefix(prefix)
        .make_in(dir, |path| options.open(path))
}

/// Gives a synchronised temporary file its name.
///
/// # Errors
/// What the system says.
pub fn persist(file: tempfile::NamedTempFile, path: &Path) -> io::Result<()> {
    before(DiskChange::Replace(path))?;
    file.persist(path).map_err(|e| e.error)?;
    Ok(())
}

/// Renames a file.
///
/// # Errors
/// What the system says.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    before(DiskChange::Replace(to))?;
    fs::rename(from, to)
}

/// Gives a file a second name, which must be free.
///
/// # Errors
/// What the system says.
pub fn hard_link(from: &Path, to: &Path) -> io::Result<()> {
    before(DiskChange::Link(to))?;
    #[cfg(test)]
    if trial::with(|_| ()).is_some() {
        touch(&File::open(from)?)?;
    }
    fs::hard_link(from, to)
}

/// Removes a file.
///
/// # Errors
/// What the system says.
pub fn remove_file(path: &Path) -> io::Result<()> {
    before(DiskChange::Remove(path))?;
    fs::remove_file(path)
}

/// Makes a folder that only its owner can enter; below a project's `.oomctl` whose group may read, that group too.
///
/// # Errors
/// What the system says.
pub fn make_dir(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    before(DiskChange::MakeDir(path))?;
    fs::DirBuilder::new().mode(beside(path, 0o700)).create(path)
}

/// Whether a file or folder lies in the `.oomctl` of a project, or is it.
pub fn is_kept(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == ".oomctl")
}

/// The mode of a new file or folder: what is its owner's alone is its group's to read below a `.oomctl` in which the group may
/// read. The umask still takes bits away, and a default ACL of the folder gives its users what the group gets.
pub fn beside(path: &Path, mode: u32) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    const GROUP_READS: u32 = 0o050;
    // The folder `.oomctl` itself is its owner's until that is changed, whatever the project's folder is.
    let folder = path.parent().filter(|_| mode & 0o077 == 0);
    let folder = folder.filter(|folder| is_kept(folder));
    let folder = folder.and_then(|folder| fs::metadata(folder).ok());
    match folder.is_some_and(|meta| meta.permissions().mode() & GROUP_READS == GROUP_READS) {
        true => mode | mode >> 3 & GROUP_READS,
        false => mode,
    }
}

/// How long a file is. It is opened for that: a network file system answers for a file that is open from its
/// cache, and asks its server when one is opened (nfs(5), close-to-open).
///
/// # Errors
/// What the system says.
pub fn length(path: &Path) -> io::Result<u64> {
    let length = File::open(path)?.metadata()?.len();
    #[cfg(test)]
    if let Some(seen) = trial::with(|t| t.length(path, length)) {
        return Ok(seen);
    }
    Ok(length)
}

/// Has anything this name? A network file system may answer from its cache.
pub fn is_there(path: &Path) -> bool {
    let there = fs::symlink_metadata(path).is_ok();
    #[cfg(test)]
    if let Some(seen) = trial::with(|t| t.is_there(path, there)) {
        return seen;
    }
    there
}

/// The names in a folder. A network file system may answer from its cache.
///
/// # Errors
/// What the system says.
pub fn names(dir: &Path) -> io::Result<Vec<std::ffi::OsString>> {
    let names = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name()));
    let names = names.collect::<io::Result<Vec<_>>>()?;
    #[cfg(test)]
    if let Some(seen) = trial::with(|t| t.names(dir, &names)) {
        return Ok(seen);
    }
    Ok(names)
}

/// Sets the times of a file to the file system's own time.
///
/// # Errors
/// What the system says.
pub fn touch(file: &File) -> io::Result<()> {
    #[cfg(test)]
    if let Some(now) = trial::with(|t| t.file_time()) {
        return now.and_then(|now| file.set_modified(now));
    }
    let now = rustix::fs::Timespec {
        tv_sec: 0,
        tv_nsec: rustix::fs::UTIME_NOW,
    };
    let times = rustix::fs::Timestamps {
        last_access: now,
        last_modification: now,
    };
    Ok(rustix::fs::futimens(file, &times)?)
}

/// The time in the clock of the file system that a folder is on: that of a file made now.
pub fn time(dir: &Path) -> Option<SystemTime> {
    #[cfg(test)]
    if let Some(now) = trial::with(|t| t.file_time()) {
        return now.ok();
    }
    let fresh = temporary(dir, ".oomctl-clock-", 0o600).ok()?;
    fresh.as_file().metadata().ok()?.modified().ok()
}
