//! What a project learned: `.oomctl/fits.jsonl`, one attempt a line, appended by whoever supervises a run. What is lost is
//! learned again.

use std::path::{Path, PathBuf};

use super::checked_lines::{self, bytes};
use super::files::FileError;
use crate::core::learn::{ENTRY_VERSION, LearnedEntries, LearnedEntry};

/// Most entries that are kept of a long file: half of its length, at a usual length of an entry.
const ENTRIES_MAX: usize = 256;
/// Most entries of a site's file.
const SITE_MAX: usize = 8_192;

/// The file of a project's folder.
pub fn file_of(project: &Path) -> PathBuf {
    project.join(".oomctl/fits.jsonl")
}

/// What stands of a file; nothing where there is none. Lines that are damaged, torn or of a newer version do
/// not count.
///
/// # Errors
/// When it cannot be read, or is larger than anything that is written here.
pub fn read(path: &Path) -> Result<LearnedEntries, FileError> {
    Ok(LearnedEntries::new(parse(&bytes(path)?)))
}

/// What projects of a site shared, as it is told of to another project; nothing where there is no file. With the numbers of the
/// lines that are damaged, torn or of a newer version, from 1: they do not count.
///
/// # Errors
/// As [`read`].
pub fn read_site(path: &Path) -> Result<(LearnedEntries, Vec<usize>), FileError> {
    let (entries, damaged) = shared(path)?;
    let file = path.display().to_string();
    let told = entries.into_iter().map(|entry| entry.of_site(&file));
    Ok((LearnedEntries::new(told.collect()), damaged))
}

/// The entries of a file of a site as they stand there, and the lines that do not count.
///
/// # Errors
/// As [`read`].
pub fn shared(path: &Path) -> Result<(Vec<LearnedEntry>, Vec<usize>), FileError> {
    Ok(checked_lines::parse_told(&bytes(path)?, ENTRY_VERSION))
}

/// What stands of a site's entries, the newest of very many.
pub fn standing(entries: Vec<LearnedEntry>) -> LearnedEntries {
    LearnedEntries::new(entries).newest(SITE_MAX)
}

/// The bytes of a file of these entries.
pub fn text(kept: &LearnedEntries) -> Vec<u8> {
    kept.entries().iter().filter_map(line).flatten().collect()
}

/// Is there an entry of this id? A search of the bytes, for somebody who only wants to know that.
pub fn knows(path: &Path, id: &str) -> bool {
    let text = format!("\"id\":\"{id}\"");
    let bytes = bytes(path).unwrap_or_default();
    memchr::memmem::find(&bytes, text.as_bytes()).is_some()
}

/// Appends what an attempt taught.
///
/// # Errors
/// When the file cannot be written.
pub fn append(path: &Path, entry: &LearnedEntry) -> Result<(), FileError> {
    checked_lines::append(path, ENTRY_VERSION, entry, kept)
}

fn kept(bytes: Vec<u8>) -> Vec<u8> {
    text(&LearnedEntries::new(parse(&bytes)).newest(ENTRIES_MAX))
}

fn line(entry: &LearnedEntry) -> Option<Vec<u8>> {
    checked_lines::line(ENTRY_VERSION, entry)
}

fn parse(bytes: &[u8]) -> Vec<LearnedEntry> {
    checked_lines::parse(bytes, ENTRY_VERSION)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::io::Write as _;

    use super::*;
    use crate::core::learn::{AttemptEnd, JobFeatures};
    use crate::core::measure::Measured;
    use crate::io::checked_lines::{LONG, open};

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
                ..JobFeatures::default()
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
    fn a_broken_line_of_a_site_is_named_and_the_others_count() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fits.jsonl");
        let two = [
            entry("a", 8.0, AttemptEnd::Fitted),
            entry("b", 16.0, failed()),
        ];
        let whole = String::from_utf8(text(&standing(two.to_vec()))).unwrap();
        fs::write(&path, whole.replacen("8.0", "9.0", 1)).unwrap();
        let (known, damaged) = read_site(&path).unwrap();
        let line = fs::read_to_string(&path).unwrap();
        let broken = line.lines().position(|l| l.contains("9.0")).unwrap() + 1;
        assert_eq!(damaged, [broken]);
        let [kept] = known.entries() else {
            panic!("{known:?}");
        };
        assert_eq!(
            kept.told_by(),
            format!("another project (by {})", path.display())
        );
        assert!(
            read_site(&dir.path().join("none"))
                .unwrap()
                .0
                .entries()
                .is_empty()
        );
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
