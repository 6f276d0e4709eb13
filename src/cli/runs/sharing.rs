//! What fitted in projects, for a site: the command that writes it is the owner's consent.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::core::learn::LearnedEntry;
use crate::io::files::{Access, write_to};
use crate::io::fits;
use crate::view::shared_view::SharedView;
use crate::view::{CommandFailure, print};

/// Merges what these projects learned into a file for their site: what is there stays, and of two that contradict each other
/// the later counts. Only the owner of a project shares what it learned.
pub fn export(projects: &[PathBuf], file: &Path) -> Result<SharedView, CommandFailure> {
    let (mut entries, damaged) = fits::shared(file)?;
    if !damaged.is_empty() {
        print::talk(&format!(
            "{}: {} damaged lines are left out",
            file.display(),
            damaged.len()
        ));
    }
    let mut view = SharedView::new(file);
    let own = rustix::process::geteuid().as_raw();
    for project in projects {
        let path = fits::file_of(project);
        match std::fs::metadata(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            Ok(meta) if meta.uid() != own => {
                view.of_others += 1;
                continue;
            }
            _ => {}
        }
        let memory = match fits::read(&path) {
            Ok(memory) => memory,
            Err(error) => {
                print::talk(&format!("{error}; it is left out"));
                view.unread += 1;
                continue;
            }
        };
        view.projects += 1;
        let all = memory.entries().iter();
        let shared: Vec<LearnedEntry> = all.filter_map(LearnedEntry::shared).collect();
        view.left_out += memory.entries().len() - shared.len();
        entries.extend(shared);
    }
    let kept = fits::standing(entries);
    view.entries = kept.entries().len();
    view.fitted = kept.entries().iter().filter(|e| e.fitted()).count();
    write_to(file, &fits::text(&kept), Access::Shared)?;
    Ok(view)
}
