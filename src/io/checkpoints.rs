//! What lies in a folder of checkpoints: names and sizes, and the file that names the newest. Nothing is opened besides.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::files::read_text;
use crate::core::request::{CheckpointDirectory, Listing};

/// Files that are listed at most; of a folder with more nothing is said.
const MOST_FILES: usize = 100_000;
/// Folders within folders that are looked into.
const DEEPEST: usize = 4;
/// Largest file that names the newest checkpoint, in bytes.
const NEWEST_MAX: u64 = 4_096;

/// What lies there; `None` where there is no such folder.
///
/// # Errors
/// Why it cannot be listed as a whole: nothing is known of its checkpoints then.
pub fn list(workdir: &Path, shelf: &CheckpointDirectory) -> Result<Option<Listing>, Unlisted> {
    let folder = workdir.join(&shelf.folder);
    let unlisted = |why: String| Unlisted {
        folder: folder.clone(),
        why,
    };
    let mut files = BTreeMap::new();
    match fs::read_dir(&folder) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        _ => walk(&folder, "", DEEPEST, &mut files).map_err(unlisted)?,
    }
    let name = folder.to_str();
    let newest = shelf.newest.as_ref();
    Ok(Some(Listing {
        folder: name
            .ok_or_else(|| unlisted("its name is not UTF-8".to_owned()))?
            .to_owned(),
        newest: newest.and_then(|name| read_text(&folder.join(name), NEWEST_MAX).ok()),
        files,
    }))
}

/// A folder of checkpoints of which nothing is known.
#[derive(Debug, thiserror::Error)]
#[error("cannot list the checkpoints in {}: {why}", folder.display())]
pub struct Unlisted {
    folder: PathBuf,
    why: String,
}

/// Adds the files of a folder, and of those in it.
fn walk(
    folder: &Path,
    prefix: &str,
    deeper: usize,
    files: &mut BTreeMap<String, u64>,
) -> Result<(), String> {
    for entry in fs::read_dir(folder).map_err(|e| e.to_string())? {
        let entry = entry.map_err(|e| e.to_string())?;
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
            return Err(format!("it has more than {MOST_FILES} files"));
        }
        let bytes = meta.map_or(0, |m| m.len());
        files.insert(path, bytes);
    }
    Ok(())
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
        let shelf = CheckpointDirectory {
            folder: "ckpt".into(),
            newest: Some("latest.txt".into()),
        };
        let listing = list(place.path(), &shelf).unwrap().unwrap();
        assert_eq!(listing.newest.as_deref(), Some("4\n"));
        assert_eq!(listing.files["global_step_4/actor/model.pt"], 4);
        assert!(listing.folder.ends_with("/ckpt"));
    }

    #[test]
    fn where_there_is_no_folder_nothing_is_said() {
        let shelf = CheckpointDirectory {
            folder: "ckpt".into(),
            newest: None,
        };
        let place = tempfile::tempdir().unwrap();
        assert_eq!(list(place.path(), &shelf).unwrap(), None);
        // A file in its place is not a folder without checkpoints.
        fs::write(place.path().join("ckpt"), b"").unwrap();
        let why = list(place.path(), &shelf).unwrap_err().to_string();
        assert!(why.starts_with("cannot list the checkpoints in "), "{why}");
    }
}
