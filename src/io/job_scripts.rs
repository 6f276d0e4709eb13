//! The job scripts and the logs that lie in a folder.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Entries of a folder that are looked at.
const MOST: usize = 1_000;
/// Bytes of a file in which an #SBATCH line is looked for.
const HEAD: u64 = 4_096;
/// Endings of job scripts.
const SCRIPTS: [&str; 4] = ["slurm", "sbatch", "sh", "job"];
/// Endings of logs.
pub const LOGS: [&str; 3] = ["err", "log", "out"];

fn paths(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().take(MOST);
    entries.filter_map(|entry| Some(entry.ok()?.path()))
}

/// The folder of a file.
pub fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|f| !f.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// The logs of a folder that changed last, the newest first.
pub fn newest_logs(folder: &Path, most: usize) -> Vec<PathBuf> {
    let logs = paths(folder).filter_map(|path| {
        let ending = path.extension()?.to_str()?;
        let changed = path.metadata().ok()?.modified().ok()?;
        let shown = path.strip_prefix(".").unwrap_or(&path).to_owned();
        LOGS.contains(&ending).then_some((changed, shown))
    });
    let mut logs: Vec<(SystemTime, PathBuf)> = logs.collect();
    logs.sort();
    let newest = logs.into_iter().rev().take(most);
    newest.map(|(_, log)| log).collect()
}

/// The job scripts of a folder, by name.
pub fn job_scripts(folder: &Path) -> Vec<String> {
    let scripts = paths(folder).filter(|path| is_job_script(path));
    let names = scripts.filter_map(|path| path.file_name()?.to_str().map(str::to_owned));
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Whether a file is a job script, by its name and an #SBATCH line near its beginning.
pub fn is_job_script(path: &Path) -> bool {
    let ending = path.extension().and_then(|e| e.to_str());
    // A pipe of that name would be waited for.
    if !ending.is_some_and(|e| SCRIPTS.contains(&e)) || !path.is_file() {
        return false;
    }
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(HEAD).read_to_end(&mut head));
    read.is_ok() && head.windows(8).any(|bytes| bytes == b"\n#SBATCH")
}
