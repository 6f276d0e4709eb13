//! Files and folders of a run: written whole or not at all, private, read with a bound.
//!
//! Rule: a path that comes from a name goes through `check_run_name`; a folder of a run is ours or it
//! is not used.

mod log;
mod named;
mod removal;
mod room;

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::disk;

use log::not_a_pipe;
pub use log::{is_pipe, open_log};
pub use named::write_to;
pub use removal::{folder_bytes, remove_whole};
pub use room::{is_full, is_without_room};

/// Longest name of a run.
const RUN_NAME_MAX: usize = 64;

/// Who may read and run a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Only the owner may read and write (0600).
    Private,
    /// Only the owner may read, write and run (0700).
    PrivateScript,
    /// Everybody that the umask lets (0666 before the umask).
    Shared,
}

impl Access {
    fn mode(self) -> u32 {
        match self {
            Self::Private => 0o600,
            Self::PrivateScript => 0o700,
            Self::Shared => 0o666,
        }
    }
}

/// A file operation failed.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The operating system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried (`write`, `create`).
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Its answer.
        source: std::io::Error,
    },
    /// Larger than anything that oomctl writes there.
    #[error("{} is larger than {limit} bytes; it is not a file that oomctl wrote", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The bound.
        limit: u64,
    },
    /// Not text.
    #[error("{} is not UTF-8 text", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
    },
    /// The folder is not safe to use.
    #[error("{} {why}; oomctl does not use it", path.display())]
    NotOurs {
        /// The folder.
        path: PathBuf,
        /// Why it is refused.
        why: &'static str,
    },
    /// Not a name for a run.
    #[error(
        "`{name}` cannot be the name of a run: 1 to 64 of A-Z a-z 0-9 . _ -, a letter or digit first, no `..`"
    )]
    Name {
        /// The name, without control characters.
        name: String,
    },
}

/// Wraps what the operating system said with what was tried, on what.
pub(crate) fn io_error(
    action: &'static str,
    path: &Path,
) -> impl FnOnce(std::io::Error) -> FileError + use<> {
    let path = path.to_owned();
    move |source| FileError::Io {
        action,
        path,
        source,
    }
}

/// Checks that a text can be the name of a run, and so of a folder and part of a job name.
///
/// # Errors
/// When it is empty, longer than 64 bytes, has other characters than `A-Za-z0-9._-`, does not begin
/// with a letter or digit, or contains `..`.
pub fn check_run_name(name: &str) -> Result<(), FileError> {
    let first = name
        .bytes()
        .next()
        .is_some_and(|b| b.is_ascii_alphanumeric());
    let rest = name
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
    if first && rest && name.len() <= RUN_NAME_MAX && !name.contains("..") {
        return Ok(());
    }
    Err(FileError::Name {
        name: name.escape_debug().take(80).collect(),
    })
}

/// Makes a folder that only the owner can enter (0700), with what is missing above it. A folder that
/// exists must be ours.
///
/// # Errors
/// When it cannot be made, or exists and is not ours.
pub fn make_private_dir(path: &Path) -> Result<(), FileError> {
    match disk::make_dir(path) {
        Ok(()) => {
            if let Some(parent) = path.parent() {
                sync_dir(parent)?;
            }
            Ok(())
        }
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => check_ours(path),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
            let Some(parent) = parent else {
                return Err(io_error("create", path)(e));
            };
            make_private_dir(parent)?;
            unversioned(parent);
            match disk::make_dir(path) {
                // Somebody else made it in the same moment.
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => check_ours(path),
                Err(e) => Err(io_error("create", path)(e)),
                Ok(()) => sync_dir(parent),
            }
        }
        Err(e) => Err(io_error("create", path)(e)),
    }
}

/// Lets the group of a project read its runs from now on: new folders and files below do as their folder does.
///
/// # Errors
/// When a folder cannot be made, or changed.
pub fn share_with_group(project: &Path) -> Result<(), FileError> {
    let runs = project.join(".oomctl/runs");
    make_private_dir(&runs)?;
    for folder in [project.join(".oomctl"), runs] {
        let failed = io_error("share", &folder);
        let shared = fs::metadata(&folder).and_then(|meta| {
            let mut permissions = meta.permissions();
            permissions.set_mode(permissions.mode() | 0o050);
            fs::set_permissions(&folder, permissions)
        });
        shared.map_err(failed)?;
    }
    Ok(())
}

/// Keeps git away from a project's `.oomctl`, as `target` of cargo does. Nothing depends on it.
fn unversioned(folder: &Path) {
    let ignore = folder.join(".gitignore");
    if folder.ends_with(".oomctl") && !ignore.exists() {
        let _ = fs::write(&ignore, "# Written by oomctl: runs and their logs.\n*\n");
    }
}

/// Refuses a folder that is a link, belongs to another user, or is writable by everybody.
///
/// # Errors
/// When it is not safe to use.
pub fn check_ours(path: &Path) -> Result<(), FileError> {
    let refuse = |why| {
        Err(FileError::NotOurs {
            path: path.to_owned(),
            why,
        })
    };
    let meta = fs::symlink_metadata(path).map_err(io_error("look at", path))?;
    if !meta.is_dir() {
        return refuse("is not a folder");
    }
    if meta.uid() != rustix::process::geteuid().as_raw() {
        return refuse("belongs to another user");
    }
    if meta.permissions().mode() & 0o002 != 0 {
        return refuse("is writable by everybody");
    }
    Ok(())
}

/// A folder for what the processes of this user on this host tell each other: in `$XDG_RUNTIME_DIR`, or else in `/tmp`.
/// Processes find each other only where they agree about it. It may not be there yet.
pub fn runtime_dir() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    match runtime.filter(|dir| dir.is_absolute() && dir.is_dir()) {
        Some(dir) => dir.join("oomctl"),
        None => {
            let user = rustix::process::geteuid().as_raw();
            PathBuf::from(format!("/tmp/oomctl-{user}"))
        }
    }
}

/// Makes what was created or renamed in a folder durable.
///
/// # Errors
/// When the folder cannot be opened or synchronised.
pub fn sync_dir(path: &Path) -> Result<(), FileError> {
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    disk::sync_dir(path).map_err(io_error("synchronise", path))
}

/// Writes a file whole: under another name in the same folder, synchronised, renamed, and the folder
/// synchronised. Whatever happens, the old file or the new one is there, never half of one.
///
/// # Errors
/// When any of that fails; the old file is untouched then.
pub fn write_atomic(path: &Path, bytes: &[u8], access: Access) -> Result<(), FileError> {
    let failed = || io_error("write", path);
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    let file = disk::temporary(dir, ".oomctl-", access.mode()).map_err(failed())?;
    file.as_file().write_all(bytes).map_err(failed())?;
    file.as_file().sync_all().map_err(failed())?;
    disk::persist(file, path).map_err(failed())?;
    sync_dir(dir)
}

/// Writes a private file whole, like [`write_atomic`], for what may be lost: it is not synchronised. After a
/// crash of the machine there can be an old file, or part of one.
///
/// # Errors
/// When it cannot be written; the old file is untouched then.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    // One name, so that writers that are killed leave one file behind and not many.
    name.push(".new");
    let temporary = path.with_file_name(name);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    options
        .mode(Access::Private.mode())
        .custom_flags(no_follow());
    options
        .open(&temporary)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| disk::rename(&temporary, path))
        .map_err(io_error("write", path))
}

/// Adds to the end of a file that others write too, in one write; makes it where there is none.
///
/// # Errors
/// When it cannot be written.
pub fn append(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let mut options = OpenOptions::new();
    let opened = options.append(true).create(true).open(path);
    opened
        .and_then(|mut file| file.write_all(bytes))
        .map_err(io_error("write", path))
}

/// Reads a file of at most `limit` bytes. A link in the last place is not followed.
///
/// # Errors
/// When it cannot be read or is larger.
pub fn read_bounded(path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    let file = not_a_pipe(path).and_then(|()| open_to_read(path));
    let file = file.map_err(io_error("read", path))?;
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(io_error("read", path))?;
    if bytes.len() as u64 > limit {
        return Err(FileError::TooLarge {
            path: path.to_owned(),
            limit,
        });
    }
    Ok(bytes)
}

/// Reads the last `limit` bytes of a file, which may begin within a line, and tells its length. A link in the last place is
/// not followed.
///
/// # Errors
/// When it cannot be read.
pub fn read_end(path: &Path, limit: u64) -> Result<(u64, Vec<u8>), FileError> {
    let read = || {
        let mut file = open_to_read(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(limit)))?;
        let mut bytes = Vec::new();
        file.take(limit).read_to_end(&mut bytes)?;
        Ok((length, bytes))
    };
    read().map_err(io_error("read", path))
}

/// Reads a text file of at most `limit` bytes.
///
/// # Errors
/// When it cannot be read, is larger, or is not UTF-8.
pub fn read_text(path: &Path, limit: u64) -> Result<String, FileError> {
    String::from_utf8(read_bounded(path, limit)?).map_err(|_| FileError::NotText {
        path: path.to_owned(),
    })
}

/// Files besides those of runs that this process may need open.
const OTHERS_OPEN: u64 = 128;

/// Lets this process have the ledgers of so many runs open, as far as the system allows. Programs inherit the limit,
/// so that it is left alone while it suffices.
pub fn allow_open(runs: u64) {
    let limit = getrlimit(Resource::Nofile);
    let wanted = runs.saturating_add(OTHERS_OPEN);
    if limit.current.is_some_and(|now| now < wanted) {
        let current = Some(limit.maximum.map_or(wanted, |most| most.min(wanted)));
        // What comes of it shows where a file cannot be opened, and is told there.
        setrlimit(Resource::Nofile, Rlimit { current, ..limit }).ok();
    }
}

/// How many runs can be open at a time; `None` for any number.
pub fn runs_open() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    limit.maximum.map(|most| most.saturating_sub(OTHERS_OPEN))
}

/// Points a symbolic link at `target`, in one step, replacing a link that is there. Anything else of
/// that name is left alone.
///
/// # Errors
/// When the link cannot be made, or something else has its name.
pub fn link(target: &Path, at: &Path) -> Result<(), FileError> {
    match fs::symlink_metadata(at) {
        Ok(meta) if !meta.is_symlink() => {
            return Err(FileError::NotOurs {
                path: at.to_owned(),
                why: "already exists and is not a link",
            });
        }
        Ok(_) if fs::read_link(at).is_ok_and(|t| t == target) => return Ok(()),
        _ => {}
    }
    let mut name = at.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let temporary = at.with_file_name(name);
    let _ = fs::remove_file(&temporary);
    std::os::unix::fs::symlink(target, &temporary).map_err(io_error("link", at))?;
    disk::rename(&temporary, at).map_err(io_error("link", at))
}

/// Opens a file. A link in the last place is not followed.
pub(crate) fn open_to_read(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(no_follow()).open(path)
}

/// Opens a private file to be locked; makes it where there is none.
pub(crate) fn open_lock(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.mode(Access::Private.mode());
    options.custom_flags(no_follow()).open(path)
}

/// Open flag: do not follow a link in the last place.
pub(crate) fn no_follow() -> i32 {
    rustix::fs::OFlags::NOFOLLOW.bits() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_names_that_could_leave_the_folder_are_refused() {
        for good in ["diamonds-seed0", "a", "7b_grpo.v2", &"x".repeat(64)] {
            assert!(check_run_name(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            "-rf",
            "a/b",
            "a..b",
            "a b",
            "$(id)",
            "a\nb",
            "é",
            ".hidden",
            &"x".repeat(65),
        ] {
            assert!(check_run_name(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_file_is_replaced_whole_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("environment.json");
        write_atomic(&path, b"one", Access::Private).unwrap();
        write_atomic(&path, b"two", Access::Private).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let names: Vec<_> = fs::read_dir(dir.path()).unwrap().collect();
        assert_eq!(names.len(), 1, "no temporary file is left");
    }

    #[test]
    fn a_folder_that_cannot_be_written_keeps_the_old_file() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("gone").join("file");
        let message = write_atomic(&missing, b"x", Access::Shared)
            .unwrap_err()
            .to_string();
        assert!(message.starts_with("cannot write "), "{message}");
        assert!(message.contains("gone/file"), "{message}");
    }

    #[test]
    fn reading_has_a_bound_and_follows_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("inputs.json");
        fs::write(&path, b"12345").unwrap();
        assert_eq!(read_bounded(&path, 5).unwrap(), b"12345");
        assert!(matches!(
            read_bounded(&path, 4),
            Err(FileError::TooLarge { .. })
        ));
        let at = dir.path().join("link");
        link(&path, &at).unwrap();
        assert!(read_bounded(&at, 5).is_err());
    }

    #[test]
    fn a_folder_that_others_can_write_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("runs").join("one");
        make_private_dir(&run).unwrap();
        make_private_dir(&run).unwrap();
        fs::set_permissions(&run, fs::Permissions::from_mode(0o777)).unwrap();
        let error = make_private_dir(&run).unwrap_err().to_string();
        assert!(error.contains("is writable by everybody"), "{error}");
        let link_to_run = dir.path().join("alias");
        link(&run, &link_to_run).unwrap();
        assert!(check_ours(&link_to_run).is_err());
    }

    #[test]
    fn many_may_make_the_same_folder_at_once() {
        let dir = tempfile::tempdir().unwrap();
        for round in 0..50 {
            let run = dir.path().join(format!("a{round}/b/c"));
            let start = std::sync::Barrier::new(4);
            std::thread::scope(|scope| {
                let make = || {
                    start.wait();
                    make_private_dir(&run).unwrap();
                };
                (0..4).for_each(|_| drop(scope.spawn(make)));
            });
        }
    }

    #[test]
    fn a_link_is_moved_but_a_file_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("slurm-17.out");
        link(Path::new("attempt-1/slurm.out"), &at).unwrap();
        link(Path::new("attempt-2/slurm.out"), &at).unwrap();
        assert_eq!(
            fs::read_link(&at).unwrap(),
            Path::new("attempt-2/slurm.out")
        );
        let file = dir.path().join("slurm-18.out");
        fs::write(&file, b"theirs").unwrap();
        assert!(link(Path::new("attempt-1/slurm.out"), &file).is_err());
        assert_eq!(fs::read(&file).unwrap(), b"theirs");
    }
}
