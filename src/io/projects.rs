//! Finding the projects below a folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Folders deep that are looked into.
const DEPTH: u32 = 6;
/// Folders that are looked into at most.
const FOLDERS: usize = 100_000;

/// Folders with runs of ours, in `folder` or below it, in order. Links are not followed, and neither hidden folders nor those of a
/// project's own runs are looked into.
///
/// # Errors
/// When `folder` itself cannot be read; what cannot be read below it is passed over.
pub fn below(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", folder.display()));
    fs::read_dir(folder).map_err(named)?;
    let mut found = Vec::new();
    let mut next = vec![(folder.to_owned(), 0)];
    let mut seen = 0;
    while let Some((folder, depth)) = next.pop() {
        if folder.join(".oomctl/runs").is_dir() {
            found.push(folder.clone());
        }
        if depth == DEPTH {
            continue;
        }
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            if !hidden && entry.file_type().is_ok_and(|t| t.is_dir()) && seen < FOLDERS {
                seen += 1;
                next.push((entry.path(), depth + 1));
            }
        }
    }
    found.sort();
    Ok(found)
}
