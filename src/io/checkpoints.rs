//! What lies in a folder of checkpoints: names and sizes, and the file that names the newest. Nothing is opened besides.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::files::read_text;
use crate::core::supervise::{Listing, Shelf};

/// Files that are listed at most; of a folder with more nothing is said.
const MOST_FILES: usize = 100_000;
/// Folders within folders that are looked into.
const DEEPEST: usize = 4;
/// Largest file that names the newest checkpoint, in bytes.
const NEWEST_MAX: u64 = 4_096;

/// What lies there; `None` where there is no such folder, or it cannot be read as a whole.
#[must_use]
pub fn list(workdir: &Path, shelf: &Shelf) -> Option<Listing> {
    let folder = workdir.join(&shelf.folder);
    let mut files = BTreeMap::new();
    walk(&folder, "", DEEPEST, &mut files)?;
    let newest = shelf.newest.as_ref();
    Some(Listing {
        folder: folder.to_str()?.to_owned(),
        newest: newest.and_then(|name| read_text(&folder.join(name), NEWEST_MAX).ok()),
        files,
    })
}

/// Adds the files of a folder, and of those in it.
fn walk(
    folder: &Path,
    prefix: &str,
    deeper: usize,
    files: &mut BTreeMap<String, u64>,
) -> Option<()> {
    for entry in fs::read_dir(folder).ok()? {
        let entry = entry.ok()?;
        // A name that is no text is none of a checkpoint's.
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let path = format!("{prefix}{name}");
        // Folders and shards may be links to where there is room.
        let meta = fs::metadata(entry.path());
        if meta.as_ref().is_ok_and(fs::Metadata::is_dir) {
            if deeper > 0 {
                walk(&entry.path(), &format!("{path}/"), deeper - 1, files)?;
            }
            continue;
        }
        if files.len() >= MOST_FILES {
            return None;
        }
        let bytes = meta.map_or(0, |m| m.len());
        files.insert(path, bytes);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_listed_with_sizes_and_the_newest() {
        let place = tempfile::tempdir().unwrap();
        let step = place.path().join("ckpt/global_step_4/actor");
        fs::create_dir_all(&step).unwrap();
        fs::write(step.join("model.pt"), b"1234").unwrap();
        fs::write(place.path().join("ckpt/latest.txt"), b"4\n").unwrap();
        let shelf = Shelf {
            folder: "ckpt".into(),
            newest: Some("latest.txt".into()),
        };
        let listing = list(place.path(), &shelf).unwrap();
        assert_eq!(listing.newest.as_deref(), Some("4\n"));
        assert_eq!(listing.files["global_step_4/actor/model.pt"], 4);
        assert!(listing.folder.ends_with("/ckpt"));
    }

    #[test]
    fn where_there_is_no_folder_nothing_is_said() {
        let shelf = Shelf {
            folder: "ckpt".into(),
            newest: None,
        };
        let place = tempfile::tempdir().unwrap();
        assert_eq!(list(place.path(), &shelf), None);
    }
}
