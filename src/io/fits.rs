//! What a project learned: `.oomctl/fits.jsonl`, one attempt a line, appended by whoever supervises a run.
//!
//! Nothing depends on a single line: what is lost is learned again. So there is neither an owner nor a
//! lock. Each line is one `write` between two newlines, with a checksum: half a line, or two that two hosts
//! wrote into each other, does not count and spoils none of its neighbours. A file that has grown too long is replaced
//! by what stands of it.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::files::{FileError, io_error, no_follow, read_bounded};
use crate::core::learn::{ENTRY_VERSION, LearnedEntries, LearnedEntry};

/// Length in bytes from which a file is replaced by what stands of it.
const LONG: u64 = 1 << 20;
/// Largest file that is read.
const FILE_MAX: u64 = 16 << 20;
/// Largest line that is written.
const LINE_MAX: usize = 64 << 10;
/// Most entries that are kept of a long file: half of its length, at a usual length of an entry.
const ENTRIES_MAX: usize = 256;
/// Age at which a replacement that was begun is taken for left behind.
const STALE: Duration = Duration::from_secs(600);
/// How often an append is repeated because the file was replaced meanwhile.
const TRIES: u32 = 4;

/// The file of a project's folder.
#[must_use]
pub fn file_of(project: &Path) -> PathBuf {
    project.join(".oomctl/fits.jsonl")
}

/// What stands of a file; nothing where there is none. Lines that are damaged, torn or of a newer version do
/// not count.
///
/// # Errors
/// When it cannot be read, or is larger than anything that is written here.
pub fn read(path: &Path) -> Result<LearnedEntries, FileError> {
    match read_bounded(path, FILE_MAX) {
        Ok(bytes) => Ok(LearnedEntries::new(parse(&bytes))),
        Err(FileError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            Ok(LearnedEntries::default())
        }
        Err(e) => Err(e),
    }
}

/// Is there an entry of this id? A search of the bytes, for somebody who only wants to know that.
#[must_use]
pub fn knows(path: &Path, id: &str) -> bool {
    let text = format!("\"id\":\"{id}\"");
    let bytes = read_bounded(path, FILE_MAX).unwrap_or_default();
    memchr::memmem::find(&bytes, text.as_bytes()).is_some()
}

/// Appends what an attempt taught.
///
/// # Errors
/// When the file cannot be written.
pub fn append(path: &Path, entry: &LearnedEntry) -> Result<(), FileError> {
    let Some(line) = line(entry) else {
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
    if length > LONG { compact(path) } else { Ok(()) }
}

fn open(path: &Path) -> Result<File, FileError> {
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
fn compact(path: &Path) -> Result<(), FileError> {
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
    let mut old = OpenOptions::new()
        .read(true)
        .custom_flags(no_follow())
        .open(path)
        .map_err(io_error("read", path))?;
    let kept = LearnedEntries::new(parse(&rest(&mut old, path)?)).newest(ENTRIES_MAX);
    let lines: Vec<u8> = kept.entries().iter().filter_map(line).flatten().collect();
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
fn line(entry: &LearnedEntry) -> Option<Vec<u8>> {
    let text = serde_json::to_string(entry).ok()?;
    let line = format!(
        "\n{{\"v\":{ENTRY_VERSION},\"sum\":\"{}\",\"entry\":{text}}}\n",
        sum(text.as_bytes())
    );
    (line.len() <= LINE_MAX).then(|| line.into_bytes())
}

fn parse(bytes: &[u8]) -> Vec<LearnedEntry> {
    let lines = bytes.split(|b| *b == b'\n').filter(|l| !l.is_empty());
    lines.filter_map(entry).collect()
}

/// The entry of a line whose version is ours and whose checksum is right.
fn entry(line: &[u8]) -> Option<LearnedEntry> {
    let line = std::str::from_utf8(line).ok()?;
    let rest = line.strip_prefix("{\"v\":")?;
    let (version, rest) = rest.split_once(",\"sum\":\"")?;
    let (sum_there, rest) = rest.split_once("\",\"entry\":")?;
    let text = rest.strip_suffix('}')?;
    let known = version.parse::<u32>().ok()? <= ENTRY_VERSION;
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use super::*;
    use crate::core::learn::{AttemptEnd, JobFeatures};
    use crate::core::measure::Measured;

    fn entry(id: &str, micro: f64, end: AttemptEnd) -> LearnedEntry {
        LearnedEntry {
            id: id.to_owned(),
            run: "r1".to_owned(),
            attempt: 1,
            at: "2026-11-21T12:00:00Z".parse().unwrap(),
            end,
            job: JobFeatures {
                same: BTreeMap::from([("preset".to_owned(), "toy".to_owned())]),
                sizes: BTreeMap::from([("micro".to_owned(), micro)]),
            },
            rungs: Vec::new(),
            measured: Measured::default(),
        }
    }

    fn failed() -> AttemptEnd {
        AttemptEnd::Failed {
            kind: "cuda_oom".to_owned(),
            phase: "backward".to_owned(),
        }
    }

    fn ids(path: &Path) -> Vec<String> {
        let memory = read(path).unwrap();
        memory.entries().iter().map(|e| e.id.clone()).collect()
    }

    #[test]
    fn what_is_appended_is_read_and_a_project_without_a_file_knows_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fits.jsonl");
        assert!(read(&path).unwrap().entries().is_empty());
        let entries = [
            entry("a", 8.0, AttemptEnd::Fitted),
            entry("b", 16.0, failed()),
        ];
        for entry in &entries {
            append(&path, entry).unwrap();
        }
        assert_eq!(read(&path).unwrap().entries(), entries);
        assert!(knows(&path, "a") && !knows(&path, "c"));
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn wherever_a_write_was_cut_the_lines_around_it_count() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fits.jsonl");
        let torn = line(&entry("b", 16.0, failed())).unwrap();
        for cut in 0..torn.len() {
            fs::write(&path, line(&entry("a", 8.0, AttemptEnd::Fitted)).unwrap()).unwrap();
            open(&path).unwrap().write_all(&torn[..cut]).unwrap();
            append(&path, &entry("c", 32.0, failed())).unwrap();
            let expected: &[&str] = match cut + 1 == torn.len() {
                // Only its last newline is missing: the next line brings one.
                true => &["a", "b", "c"],
                false => &["a", "c"],
            };
            assert_eq!(ids(&path), expected, "cut at {cut}");
        }
    }

    #[test]
    fn a_line_that_was_changed_or_is_of_a_newer_version_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fits.jsonl");
        append(&path, &entry("a", 8.0, AttemptEnd::Fitted)).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        for (from, to) in [
            ("8.0", "9.0"),
            ("\"v\":1", "\"v\":2"),
            ("{", "["),
            ("sum", "mus"),
        ] {
            fs::write(&path, text.replacen(from, to, 1)).unwrap();
            assert_eq!(ids(&path), Vec::<String>::new(), "{from} -> {to}");
        }
        fs::write(&path, [0xff, b'\n', 0, b'\n', b'{', b'}', b'\n']).unwrap();
        assert_eq!(ids(&path), Vec::<String>::new());
    }

    proptest::proptest! {
        /// Whatever becomes of a file, nothing is read from it that was not written.
        #[test]
        fn nothing_is_read_that_was_not_written(
            changes in proptest::collection::vec((0_usize..2_000, proptest::prelude::any::<u8>(), 0_usize..9), 0..6)
        ) {
            let written = [entry("a", 8.0, AttemptEnd::Fitted), entry("b", 16.0, failed()), entry("c", 4.0, AttemptEnd::Fitted)];
            let mut bytes: Vec<u8> = written.iter().filter_map(line).flatten().collect();
            for (at, byte, length) in changes {
                let at = at % bytes.len();
                let end = (at + length).min(bytes.len());
                bytes.splice(at..end, [byte]);
            }
            let read = parse(&bytes);
            proptest::prop_assert!(read.iter().all(|e| written.contains(e)), "{read:?}");
        }
    }

    #[test]
    fn a_long_file_is_replaced_by_what_stands_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fits.jsonl");
        let again = line(&entry("a", 8.0, failed())).unwrap();
        let copies = usize::try_from(LONG).unwrap() / again.len() + 1;
        fs::write(&path, again.repeat(copies)).unwrap();
        append(&path, &entry("b", 4.0, AttemptEnd::Fitted)).unwrap();
        assert_eq!(ids(&path), ["a", "b"]);
        assert!(fs::metadata(&path).unwrap().len() < 2_000);
        // Of more than can be kept, the newest.
        let many = (0..1_200).map(|n| {
            let mut entry = entry(&format!("{n:04}"), f64::from(n), AttemptEnd::Fitted);
            let long = "x".repeat(1_000);
            entry.job.same.insert("model".to_owned(), long);
            entry.at += jiff::SignedDuration::from_secs(n.into());
            line(&entry).unwrap()
        });
        fs::write(&path, many.flatten().collect::<Vec<u8>>()).unwrap();
        append(&path, &entry("old", 0.5, AttemptEnd::Fitted)).unwrap();
        let kept = ids(&path);
        assert_eq!(kept.len(), ENTRIES_MAX);
        assert_eq!(kept.last().map(String::as_str), Some("1199"));
    }

    #[test]
    fn many_may_append_while_the_file_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fits.jsonl");
        let again = line(&entry("a", 0.5, failed())).unwrap();
        std::thread::scope(|scope| {
            for writer in 0..4_u32 {
                let (path, again) = (&path, &again);
                scope.spawn(move || {
                    for n in 0..24_u32 {
                        let id = format!("{writer}-{n}");
                        append(path, &entry(&id, f64::from(writer * 100 + n), failed())).unwrap();
                        if writer == 0 && n % 8 == 0 {
                            // Long at once, so that whoever appends next replaces it.
                            let copies = usize::try_from(LONG).unwrap() / again.len() + 1;
                            open(path)
                                .unwrap()
                                .write_all(&again.repeat(copies))
                                .unwrap();
                        }
                    }
                });
            }
        });
        let known = ids(&path);
        for writer in 0..4 {
            for n in 0..24 {
                let id = format!("{writer}-{n}");
                assert!(known.contains(&id), "{id} is lost");
            }
        }
        assert!(fs::metadata(&path).unwrap().len() < 2 * LONG);
    }
}
