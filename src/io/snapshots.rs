//! Snapshots of PyTorch's allocator that a job left: where its log names them, or beside its log.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::files::{FileError, read_bounded, read_end};
use oomctl_diagnose::{Class, Incident, PickleError, Snapshot, snapshots_named};

/// Largest snapshot that is read, in bytes.
const LARGEST: u64 = 512 * 1024 * 1024;
/// The end of a log in which names are looked for, in bytes.
const END: u64 = 4 * 1024 * 1024;
/// Folders within folders that are looked into.
const DEEPEST: usize = 3;
/// Entries of folders that are looked at.
const MOST_ENTRIES: usize = 4_096;

/// Why a snapshot is not read.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The file cannot be read, or is too large.
    #[error(transparent)]
    File(#[from] FileError),
    /// What is in it.
    #[error("{}: {why}", path.display())]
    Pickle {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: PickleError,
    },
}

/// Lets an incident see a snapshot.
///
/// # Errors
/// When it cannot be read, or is none.
pub fn show(incident: &mut Incident, path: &Path) -> Result<(), SnapshotError> {
    let bytes = read_bounded(path, LARGEST)?;
    let name = path.display().to_string();
    let snapshot =
        Snapshot::read(&name, &bytes, incident).map_err(|why| SnapshotError::Pickle {
            path: path.to_owned(),
            why,
        })?;
    incident.see(snapshot);
    Ok(())
}

/// Lets an incident see the snapshot that the job left of it, where there is one: a file or a folder that its logs name
/// (from one of `folders`), or the newest in `beside`. What cannot be read is remarked.
pub fn look(incident: &mut Incident, logs: &[PathBuf], folders: &[&Path], beside: Option<&Path>) {
    if incident.class != Class::GpuOom {
        return;
    }
    let ends = logs.iter().filter_map(|log| read_end(log, END).ok());
    let named = ends.flat_map(|(_, end)| snapshots_named(&end));
    let places = named.flat_map(|name| folders.iter().map(move |folder| folder.join(&name)));
    let mut found = places.filter_map(|place| newest(&place));
    let Some(path) = found.next().or_else(|| newest(beside?)) else {
        return;
    };
    if let Err(why) = show(incident, &path) {
        incident
            .notes
            .push(format!("cannot read the memory snapshot: {why}"));
    }
}

/// A file itself, or the newest snapshot in a folder.
fn newest(place: &Path) -> Option<PathBuf> {
    let meta = fs::metadata(place).ok()?;
    if meta.is_file() {
        return Some(place.to_owned());
    }
    let (mut best, mut entries) = (None, MOST_ENTRIES);
    walk(place, DEEPEST, &mut entries, &mut best);
    best.map(|(_, path)| path)
}

fn walk(
    folder: &Path,
    deeper: usize,
    entries: &mut usize,
    best: &mut Option<(SystemTime, PathBuf)>,
) {
    let Ok(all) = fs::read_dir(folder) else {
        return;
    };
    for entry in all.flatten() {
        let Some(left) = entries.checked_sub(1) else {
            return;
        };
        *entries = left;
        let path = entry.path();
        let Ok(meta) = entry.metadata() else {
            continue;
        };
        if meta.is_dir() && deeper > 0 {
            walk(&path, deeper - 1, entries, best);
        }
        let kind = path.extension().and_then(|e| e.to_str());
        if !meta.is_file() || !matches!(kind, Some("pickle" | "pkl")) {
            continue;
        }
        let found = (meta.modified().unwrap_or(SystemTime::UNIX_EPOCH), path);
        if best.as_ref().is_none_or(|best| *best < found) {
            *best = Some(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oom() -> Incident {
        Incident::bare("cuda_oom", Class::GpuOom)
    }

    /// One segment of 4,096 bytes, in use; protocol 2.
    const SMALL: &[u8] = b"\x80\x02}(X\x08\x00\x00\x00segments](}(X\x0a\x00\x00\x00total_sizeM\x00\x10X\x06\x00\x00\x00blocks](}(X\x04\x00\x00\x00sizeM\x00\x10X\x05\x00\x00\x00stateX\x10\x00\x00\x00active_allocatedueueu.";

    #[test]
    fn a_snapshot_is_found_where_the_log_names_it_or_beside_it() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path();
        let log = folder.join("job.log");
        fs::create_dir_all(folder.join("snapshots/iteration_3_exit")).unwrap();
        let path = folder.join("snapshots/iteration_3_exit/rank0_memory_snapshot.pickle");
        fs::write(&path, SMALL).unwrap();
        let seen = |line: &str, beside| {
            fs::write(&log, line).unwrap();
            let mut incident = oom();
            look(&mut incident, std::slice::from_ref(&log), &[folder], beside);
            incident
                .snapshot
                .map(|s| (PathBuf::from(s.file), s.active_bytes.0))
        };
        let found = Some((path, 4_096));
        let lines = [
            "Memory profiler active. Snapshot will be saved at snapshots\n",
            "[memory_visualize] dumped: snapshots/iteration_3_exit/rank0_memory_snapshot.pickle\n",
        ];
        for line in lines {
            assert_eq!(seen(line, None), found, "{line}");
        }
        assert_eq!(seen("step 1\n", None), None);
        assert_eq!(seen("step 1\n", Some(folder)), found);
    }

    #[test]
    fn one_that_would_run_code_is_remarked_and_nothing_else_changes() {
        let place = tempfile::tempdir().unwrap();
        fs::write(
            place.path().join("s.pkl"),
            b"cos\nsystem\n(X\x02\x00\x00\x00idtR.",
        )
        .unwrap();
        let mut incident = oom();
        look(&mut incident, &[], &[], Some(place.path()));
        assert_eq!(incident.snapshot, None);
        assert!(incident.notes[0].contains("asks Python to run code"));
        // Other failures have none.
        let mut other = Incident::bare("host_oom", Class::HostOom);
        look(&mut other, &[], &[], Some(place.path()));
        assert!(other.notes.is_empty());
    }
}
