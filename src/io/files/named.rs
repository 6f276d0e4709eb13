//! Files that somebody names to be written: they may be links, devices, pipes, and open files of this process.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{Access, FileError, io_error, write_atomic};

/// Links that lead from one to the next before they count as a circle, as for the system.
const LINKS_MAX: usize = 40;

/// Writes to the place that somebody named. A regular file is replaced whole, as by [`write_atomic`], also where links
/// lead to it. What is there and is none, a device or a pipe, is written into. Says whether a file has that name now.
///
/// # Errors
/// When it cannot be written.
pub fn write_to(path: &Path, bytes: &[u8], access: Access) -> Result<bool, FileError> {
    let place = followed(path).map_err(io_error("write", path))?;
    let is_new_or_file = fs::symlink_metadata(&place).map_or(true, |meta| meta.is_file());
    if is_new_or_file {
        write_atomic(&place, bytes, access)?;
    } else {
        write_into(&place, bytes).map_err(io_error("write", path))?;
    }
    Ok(is_new_or_file)
}

/// Where links lead, but for those in `/proc` that stand for open files: what they show is no path.
fn followed(path: &Path) -> io::Result<PathBuf> {
    let mut place = path.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::read_link(&place) {
            Ok(target) if open_file(&place).is_none() => place.set_file_name(target),
            _ => return Ok(place),
        }
    }
    Err(rustix::io::Errno::LOOP.into())
}

/// The number of the open file of this process that a path in `/proc` stands for.
fn open_file(path: &Path) -> Option<u32> {
    let folder = path.parent()?.canonicalize().ok()?;
    let number = path.file_name()?.to_str()?.parse().ok()?;
    (folder == Path::new("/proc/self/fd").canonicalize().ok()?).then_some(number)
}

fn write_into(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match open_file(path) {
        // What this process writes there besides stands behind it, also where it is a file.
        Some(1) => io::stdout()
            .write_all(bytes)
            .and_then(|()| io::stdout().flush()),
        Some(2) => io::stderr().write_all(bytes),
        _ => OpenOptions::new().append(true).open(path)?.write_all(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_the_file_that_is_replaced_and_stay() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("far")).unwrap();
        for (target, name) in [
            ("b", "a"),
            ("far/file", "b"),
            ("round", "round"),
            ("new", "dangling"),
        ] {
            std::os::unix::fs::symlink(target, at(name)).unwrap();
        }
        fs::write(at("far/file"), b"old").unwrap();
        assert!(write_to(&at("a"), b"text", Access::Shared).unwrap());
        assert_eq!(fs::read(at("far/file")).unwrap(), b"text");
        assert!(write_to(&at("dangling"), b"text", Access::Shared).unwrap());
        assert_eq!(fs::read(at("new")).unwrap(), b"text");
        for link in ["a", "b", "dangling"] {
            assert!(at(link).is_symlink(), "{link}");
        }
        assert!(write_to(&at("round"), b"text", Access::Shared).is_err());
        assert!(write_to(dir.path(), b"text", Access::Shared).is_err());
        assert_eq!(open_file(Path::new("/dev/stdout")), None, "a link to it");
        assert_eq!(open_file(Path::new("/dev/fd/7")), Some(7));
    }
}
