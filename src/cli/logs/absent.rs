//! What is said of an argument that names no log.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::cli::script::folder_of;
use crate::view::CommandFailure;

/// Entries of a folder that are looked at.
const MOST: usize = 1_000;
/// Logs that are named.
const NAMED: usize = 3;
/// Endings of logs.
const ENDINGS: [&str; 3] = ["err", "log", "out"];

/// The failure with the newest logs that lie where one was looked for.
pub fn with_logs_there(path: &Path, failure: CommandFailure) -> CommandFailure {
    let mut there = logs(folder_of(path));
    there.sort();
    let newest = there.iter().rev().take(NAMED);
    let named: Vec<String> = newest.map(|(_, log)| log.display().to_string()).collect();
    match named.is_empty() {
        true => failure,
        false => failure.hint(format!("the newest logs there are {}", named.join(", "))),
    }
}

/// The logs of a folder, each with the time of its last change.
fn logs(folder: &Path) -> Vec<(SystemTime, PathBuf)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().take(MOST);
    let logs = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let path = entry.path();
        let ending = path.extension()?.to_str()?;
        let changed = entry.metadata().ok()?.modified().ok()?;
        let shown = path.strip_prefix(".").unwrap_or(&path).to_owned();
        ENDINGS.contains(&ending).then_some((changed, shown))
    });
    logs.collect()
}
