//! Paths as text: joined, made plain, and their folders.

/// A path in a folder; an absolute one stays.
pub fn joined(folder: &str, name: &str) -> String {
    match name.starts_with('/') || folder.is_empty() {
        true => normal(name),
        false => normal(&format!("{folder}/{name}")),
    }
}

/// The folder of a file.
pub fn folder_of_file(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// A path without `.`, `..` and doubled slashes.
pub(super) fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|p| *p != "..") => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    let joined = parts.join("/");
    match path.starts_with('/') {
        true => format!("/{joined}"),
        false => joined,
    }
}
