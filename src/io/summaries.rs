//! What was once worked out of ledgers, kept in the user's cache: a list of a thousand runs that are over need not
//! read a thousand ledgers again.
//!
//! Rule: never trusted, only recognised. An entry counts for the ledger with this inode, length and time of change,
//! and for this version of the program; whatever else is found, the ledger is read.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::files::{Access, make_private_dir, read_bounded, write_atomic};

/// Largest cache that is read, in bytes: 100,000 runs at 300 bytes a line are 30 MB.
const FILE_MAX: u64 = 64 << 20;
/// The program that wrote it: another one may say the same in other words.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// One state of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    inode: u64,
    length: u64,
    changed_s: i64,
    changed_ns: i64,
}

impl Stamp {
    /// That of a file now; `None` where there is none.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        let found = std::fs::metadata(path).ok()?;
        Some(Self {
            inode: found.ino(),
            length: found.len(),
            changed_s: found.mtime(),
            changed_ns: found.mtime_nsec(),
        })
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry<T> {
    stamp: Stamp,
    summary: T,
}

#[derive(Debug, Serialize, Deserialize)]
struct Cache<T> {
    version: String,
    entries: BTreeMap<String, Entry<T>>,
}

/// Summaries of a project's runs, by name.
#[derive(Debug)]
pub struct Summaries<T> {
    file: Option<PathBuf>,
    cache: Cache<T>,
    is_new: bool,
}

impl<T: Serialize + DeserializeOwned> Summaries<T> {
    /// Those that were kept; none where they cannot be read.
    #[must_use]
    pub fn open(project: &Path) -> Self {
        let file = etcetera::choose_base_strategy().ok().map(|dirs| {
            let name = Sha256::digest(project.as_os_str().as_encoded_bytes());
            let name: String = name
                .iter()
                .take(12)
                .map(|byte| format!("{byte:02x}"))
                .collect();
            dirs.cache_dir()
                .join("oomctl/runs")
                .join(format!("{name}.json"))
        });
        let bytes = file
            .as_ref()
            .and_then(|file| read_bounded(file, FILE_MAX).ok());
        let cache = bytes.and_then(|bytes| serde_json::from_slice::<Cache<T>>(&bytes).ok());
        let empty = || Cache {
            version: VERSION.to_owned(),
            entries: BTreeMap::new(),
        };
        Self {
            file,
            cache: cache.filter(|c| c.version == VERSION).unwrap_or_else(empty),
            is_new: false,
        }
    }

    /// The summary of a run whose ledger is as it was.
    #[must_use]
    pub fn get(&self, run: &str, now: Stamp) -> Option<&T> {
        let entry = self.cache.entries.get(run)?;
        (entry.stamp == now).then_some(&entry.summary)
    }

    /// Keeps one. The stamp must be older than what was read for the summary.
    pub fn put(&mut self, run: &str, stamp: Stamp, summary: T) {
        self.cache
            .entries
            .insert(run.to_owned(), Entry { stamp, summary });
        self.is_new = true;
    }

    /// Writes them down, those of `runs` alone, where there is something new. It is no fault where that fails.
    pub fn save(mut self, runs: &[String]) {
        let Some(file) = self.file.filter(|_| self.is_new) else {
            return;
        };
        self.cache
            .entries
            .retain(|run, _| runs.binary_search(run).is_ok());
        let folder = file.parent().map(make_private_dir);
        if let (Some(Ok(())), Ok(text)) = (folder, serde_json::to_vec(&self.cache)) {
            drop(write_atomic(&file, &text, Access::Private));
        }
    }
}
