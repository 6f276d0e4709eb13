//! A file of a project to which several processes append, one entry a line.
//!
//! Nothing depends on a single line. So there is neither an owner nor a lock. Each line is one `write` between two newlines,
//! with a checksum: half a line, or two that two hosts wrote into each other, does not count and spoils none of its
//! neighbours. A file that has grown too long is replaced by what is worth keeping of it.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use super::files::{FileError, io_error, no_follow, open_to_read, read_bounded};

/// Length in bytes from which a file is replaced by what is kept of it.
pub(super) const LONG: u64 = 1 << 20;
/// Largest file that is read.
const FILE_MAX: u64 = 16 << 20;
/// Largest line that is written.
const LINE_MAX: usize = 64 << 10;
/// Age at which a replacement that was begun is taken for left behind.
const STALE: Duration = Duration::from_secs(600);
/// How often an append is repeated because the file was replaced meanwhile.
const TRIES: u32 = 4;

/// The bytes of a file; none where there is none.
///
/// # Errors
/// When it cannot be read, or is larger than anything that is written here.
pub fn bytes(path: &Path) -> Result<Vec<u8>, FileError> {
    match read_bounded(path, FILE_MAX) {
        Err(FileError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            Ok(Vec::new())
        }
        read => read,
    }
}

/// Appends an entry. `keep` says what of a long file is kept.
///
/// # Errors
/// When the file cannot be written.
pub fn append<T: Serialize>(
    path: &Path,
    version: u32,
    entry: &T,
    keep: fn(Vec<u8>) -> Vec<u8>,
) -> Result<(), FileError> {
    let Some(line) = line(version, entry) else {
        return Ok(());
    };
    let mut length = 0;
    for _ in 0..TRIES {
        let file = open(path)?;
        (&file).write_all(&line).map_err(io_error("write", path))?;
        file.sync_data().map_err(io_error("write", path))?;
        let ours = file.metadata().map_err(io_error("look at", path))?;
        length = ours.len();
        // Whoever replaced the file in the meantime may not have seen the line.
        let there = std::fs::symlink_metadata(path);
        if there.is_ok_and(|m| (m.dev(), m.ino()) == (ours.dev(), ours.ino())) {
            break;
        }
    }
    if length > LONG {
        compact(path, keep)
    } else {
        Ok(())
    }
}

pub(super) fn open(path: &Path) -> Result<File, FileError> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(no_follow())
        .open(path)
        .map_err(io_error("open", path))
}

/// Replaces a file by what stands of it; one process at a time, the others leave it to that one. What is
/// appended meanwhile is carried over: it goes to the file that was read, which is read to its end once more
/// after it was replaced.
fn compact(path: &Path, keep: fn(Vec<u8>) -> Vec<u8>) -> Result<(), FileError> {
    let at = path.with_extension("jsonl.new");
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut new = match options.open(&at) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
            clear(&at, path);
            return Ok(());
        }
        Err(e) => return Err(io_error("create", &at)(e)),
    };
    let mut old = open_to_read(path).map_err(io_error("read", path))?;
    let lines = keep(rest(&mut old, path)?);
    new.write_all(&lines)
        .and_then(|()| new.sync_data())
        .and_then(|()| std::fs::rename(&at, path))
        .map_err(io_error("write", path))?;
    let late = rest(&mut old, path)?;
    if late.is_empty() {
        return Ok(());
    }
    let mut line = vec![b'\n'];
    line.extend(late);
    let mut file = open(path)?;
    file.write_all(&line).map_err(io_error("write", path))
}

fn rest(file: &mut File, path: &Path) -> Result<Vec<u8>, FileError> {
    let mut bytes = Vec::new();
    let mut bounded = file.take(FILE_MAX);
    bounded
        .read_to_end(&mut bytes)
        .map_err(io_error("read", path))?;
    Ok(bytes)
}

/// Takes away what a process left that was killed while it replaced the file. Both times are the file
/// system's.
fn clear(at: &Path, path: &Path) {
    let changed = |path: &Path| std::fs::metadata(path).and_then(|m| m.modified()).ok();
    let (Some(begun), Some(now)) = (changed(at), changed(path)) else {
        return;
    };
    if now.duration_since(begun).is_ok_and(|age| age > STALE) {
        let _ = std::fs::remove_file(at);
    }
}

/// A line between two newlines; `None` for one that is too long.
pub fn line<T: Serialize>(version: u32, entry: &T) -> Option<Vec<u8>> {
    let text = serde_json::to_string(entry).ok()?;
    let line = format!(
        "\n{{\"v\":{version},\"sum\":\"{}\",\"entry\":{text}}}\n",
        sum(text.as_bytes())
    );
    (line.len() <= LINE_MAX).then(|| line.into_bytes())
}

/// The entries of a file up to a version; what is damaged, torn or newer does not count.
pub fn parse<T: DeserializeOwned>(bytes: &[u8], version: u32) -> Vec<T> {
    parse_told(bytes, version).0
}

/// The same, with the numbers of the lines that do not count, from 1.
pub fn parse_told<T: DeserializeOwned>(bytes: &[u8], version: u32) -> (Vec<T>, Vec<usize>) {
    let lines = (1..).zip(bytes.split(|b| *b == b'\n'));
    let (mut entries, mut damaged) = (Vec::new(), Vec::new());
    for (number, line) in lines.filter(|(_, line)| !line.is_empty()) {
        match entry(line, version) {
            Some(entry) => entries.push(entry),
            None => damaged.push(number),
        }
    }
    (entries, damaged)
}

/// The entry of a line whose version is known and whose checksum is right.
fn entry<T: DeserializeOwned>(line: &[u8], newest: u32) -> Option<T> {
    let line = std::str::from_utf8(line).ok()?;
    let rest = line.strip_prefix("{\"v\":")?;
    let (version, rest) = rest.split_once(",\"sum\":\"")?;
    let (sum_there, rest) = rest.split_once("\",\"entry\":")?;
    let text = rest.strip_suffix('}')?;
    let known = version.parse::<u32>().ok()? <= newest;
    if !known || sum(text.as_bytes()) != sum_there {
        return None;
    }
    serde_json::from_str(text).ok()
}

/// The first eight bytes of SHA-256, in hex.
fn sum(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().take(8).map(|b| format!("{b:02x}")).collect()
}
