//! What is known of the runs of a project that are over, one line a run, in one file: a folder of ten thousand
//! runs is listed without reading ten thousand ledgers.
//!
//! Nothing depends on it. A line counts while the ledger that it was read from has not changed, and who
//! finds none reads the ledger.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::files::{Access, FileError, read_bounded, write_atomic};
use super::ledger::LEDGER_FILE;

/// Largest file that is read: some 200,000 runs.
const FILE_MAX: u64 = 256 << 20;
/// New lines from which the file is written again.
const WORTH_WRITING: usize = 16;

/// By what a file is known to be as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStamp {
    inode: u64,
    /// Bytes. A ledger only grows.
    length: u64,
    /// Nanoseconds since 1970.
    modified_ns: i64,
}

impl FileStamp {
    /// Of the ledger in the folder of a run; `None` where there is not a regular file of that name.
    pub fn of(run_dir: &Path) -> Option<Self> {
        let found = fs::symlink_metadata(run_dir.join(LEDGER_FILE)).ok()?;
        found.is_file().then(|| Self {
            inode: found.ino(),
            length: found.len(),
            modified_ns: found.mtime().wrapping_mul(1_000_000_000) + found.mtime_nsec(),
        })
    }
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct IndexLine<T> {
    /// Who wrote it: a row of another version may say other things.
    by: String,
    run: String,
    ledger: FileStamp,
    row: T,
}

/// Rows about runs, by the name of the run.
pub struct RunIndex<T> {
    path: PathBuf,
    lines: BTreeMap<String, IndexLine<T>>,
    new: usize,
}

impl<T: Serialize + DeserializeOwned> RunIndex<T> {
    /// That of a project's folder; empty where there is none, or it cannot be read.
    pub fn open(project: &Path) -> Self {
        let path = project.join(".oomctl/index.jsonl");
        let bytes = read_bounded(&path, FILE_MAX).unwrap_or_default();
        let lines = bytes.split(|b| *b == b'\n');
        let lines = lines.filter_map(|line| serde_json::from_slice::<IndexLine<T>>(line).ok());
        let lines = lines.filter(|line| line.by == env!("CARGO_PKG_VERSION"));
        Self {
            path,
            lines: lines.map(|line| (line.run.clone(), line)).collect(),
            new: 0,
        }
    }

    /// Takes out the row of a run whose ledger is still as it was.
    pub fn get(&self, run: &str, ledger: FileStamp) -> Option<&T> {
        let line = self.lines.get(run)?;
        (line.ledger == ledger).then_some(&line.row)
    }

    /// Keeps the row of a run that is over, as its ledger was before it was read.
    pub fn put(&mut self, run: &str, ledger: FileStamp, row: T) {
        let line = IndexLine {
            by: env!("CARGO_PKG_VERSION").to_owned(),
            run: run.to_owned(),
            ledger,
            row,
        };
        self.lines.insert(run.to_owned(), line);
        self.new += 1;
    }

    /// Writes the file again where that is worth it, with the runs that there still are.
    ///
    /// # Errors
    /// When it cannot be written; nothing is lost.
    pub fn store(mut self, is_there: impl Fn(&str) -> bool) -> Result<(), FileError> {
        if self.new < WORTH_WRITING {
            return Ok(());
        }
        self.lines.retain(|run, _| is_there(run));
        let mut text = Vec::new();
        for line in self.lines.values() {
            if serde_json::to_writer(&mut text, line).is_ok() {
                text.push(b'\n');
            }
        }
        write_atomic(&self.path, &text, Access::Private)
    }
}
