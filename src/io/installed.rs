//! What is installed in a Python environment.

use std::path::{Path, PathBuf};

use crate::core::adopt::version::active;
use oomctl_diagnose::Versions;

/// Packages of an environment that are looked at.
const MOST: usize = 4_096;

/// The folders of an environment in which packages lie, with the names of what is in them; none where it is none, or
/// cannot be read.
#[must_use]
pub fn packages(environment: &Path) -> Vec<(PathBuf, Vec<String>)> {
    let pythons = names(&environment.join("lib")).into_iter();
    let pythons = pythons.filter(|name| name.starts_with("python3"));
    let folders = pythons.map(|name| environment.join("lib").join(name).join("site-packages"));
    folders
        .map(|folder| (folder.clone(), names(&folder)))
        .collect()
}

/// The versions that the names of its packages tell.
#[must_use]
pub fn versions(environment: &Path) -> Versions {
    let mut versions = Versions::default();
    for (_, names) in packages(environment) {
        versions.or(&Versions::installed(&names));
    }
    versions
}

/// Those of the environment that is active here; none where none is.
#[must_use]
pub fn active_here() -> Versions {
    let folder = active(|name| std::env::var(name).ok());
    folder.map_or_else(Versions::default, |folder| versions(Path::new(&folder)))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().take(MOST);
    let names = entries.filter_map(|e| e.ok()?.file_name().into_string().ok());
    names.collect()
}
