//! Projects below a folder: wherever there are runs.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::Runs;
use crate::view::CommandFailure;

/// Folders inside one another that are looked into.
const MOST_DEEP: usize = 6;
/// Folders that are looked into in all.
const MOST_FOLDERS: usize = 50_000;

/// The projects in these folders and below them. Links and hidden folders are not followed.
pub fn below(folders: &[PathBuf]) -> Result<Vec<PathBuf>, CommandFailure> {
    let mut found = Vec::new();
    for folder in folders {
        if !folder.is_dir() {
            let what = format!("{} is not a folder", folder.display());
            return Err(CommandFailure::usage(what)
                .hint("give folders that contain projects; of one run `oomctl status RUN` and `oomctl report RUN` tell"));
        }
        look(folder, &mut found);
    }
    found.sort();
    found.dedup();
    Ok(found)
}

fn look(start: &Path, found: &mut Vec<PathBuf>) {
    let mut open = vec![(start.to_owned(), 0)];
    let mut seen = 0;
    while let Some((folder, depth)) = open.pop() {
        seen += 1;
        let has_runs = match Runs::of(&folder).dir().metadata() {
            Ok(runs) => runs.is_dir(),
            // Whoever reads it is told.
            Err(e) => e.kind() == ErrorKind::PermissionDenied,
        };
        if has_runs {
            found.push(folder.clone());
        }
        if depth >= MOST_DEEP || seen >= MOST_FOLDERS {
            continue;
        }
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        let folders = entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
        let shown = folders.filter(|e| !e.file_name().to_string_lossy().starts_with('.'));
        open.extend(shown.map(|e| (e.path(), depth + 1)));
    }
}
