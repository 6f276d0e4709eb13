//! What a project's jobs met on their nodes: `.oomctl/nodes.jsonl`, one job a line.

use std::path::{Path, PathBuf};

use super::checked_lines::{self, bytes};
use super::files::FileError;
use crate::core::learn::NodeEntry;

/// Version of the lines that this program writes.
const VERSION: u32 = 1;
/// Most jobs that are kept of a long file: half of its length, at a usual length of a line.
const ENTRIES_MAX: usize = 512;

/// The file of a project's folder.
pub fn file_of(project: &Path) -> PathBuf {
    project.join(".oomctl/nodes.jsonl")
}

/// All that is there; nothing where there is no file.
///
/// # Errors
/// When it cannot be read, or is larger than anything that is written here.
pub fn read(path: &Path) -> Result<Vec<NodeEntry>, FileError> {
    Ok(checked_lines::parse(&bytes(path)?, VERSION))
}

/// Appends what a job met.
///
/// # Errors
/// When the file cannot be written.
pub fn append(path: &Path, entry: &NodeEntry) -> Result<(), FileError> {
    checked_lines::append(path, VERSION, entry, kept)
}

fn kept(bytes: Vec<u8>) -> Vec<u8> {
    let all: Vec<NodeEntry> = checked_lines::parse(&bytes, VERSION);
    let newest = &all[all.len().saturating_sub(ENTRIES_MAX)..];
    let lines = newest
        .iter()
        .filter_map(|e| checked_lines::line(VERSION, e));
    lines.flatten().collect()
}
