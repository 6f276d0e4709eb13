//! The job scripts that lie in a folder.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// Entries of a folder that are looked at.
const MOST: usize = 1_000;
/// Bytes of a file in which an #SBATCH line is looked for.
const HEAD: u64 = 4_096;
/// Endings of job scripts.
const SCRIPTS: [&str; 4] = ["slurm", "sbatch", "sh", "job"];

/// The job scripts of a folder, by name.
pub fn job_scripts(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().take(MOST);
    let paths = entries.filter_map(|e| Some(e.ok()?.path()));
    let scripts = paths.filter(|path| is_job_script(path));
    let names = scripts.filter_map(|path| path.file_name()?.to_str().map(str::to_owned));
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Whether a file is a job script, by its name and an #SBATCH line near its beginning.
pub fn is_job_script(path: &Path) -> bool {
    let ending = path.extension().and_then(|e| e.to_str());
    if !ending.is_some_and(|e| SCRIPTS.contains(&e)) {
        return false;
    }
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(HEAD).read_to_end(&mut head));
    read.is_ok() && head.windows(8).any(|bytes| bytes == b"\n#SBATCH")
}
