//! Logs that a job writes one a node: `srun --output=logs/slurm-%j-%N.out`.

use std::path::{Path, PathBuf};

use super::LogGroup;
use crate::view::CommandFailure;
use oomctl_base::has_word;

/// Entries of a folder of logs that are looked at.
const MOST: usize = 20_000;
/// Endings of logs.
const ENDINGS: [&str; 4] = ["out", "err", "log", "txt"];

/// The log files of a job's nodes: those beside its own whose names have the id of the job and the name of a node.
pub fn files(group: &LogGroup) -> Vec<(String, PathBuf)> {
    let Some(status) = &group.status else {
        return Vec::new();
    };
    let mut folders: Vec<&Path> = group.files.iter().filter_map(|f| f.parent()).collect();
    folders.dedup();
    let entries = folders
        .into_iter()
        .filter_map(|f| std::fs::read_dir(f).ok());
    let paths = entries
        .flatten()
        .take(MOST)
        .filter_map(|e| Some(e.ok()?.path()));
    let of_job = |path: &PathBuf| {
        let ending = path.extension().and_then(|e| e.to_str()).unwrap_or("");
        ENDINGS.contains(&ending) && !group.files.contains(path)
    };
    let mut found: Vec<(String, PathBuf)> = paths
        .filter(of_job)
        .filter_map(|path| {
            let name = path.file_name()?.to_str()?;
            let has = |word: &str| has_word(name, word, |c| c.is_ascii_alphanumeric());
            let node = status.nodes.iter().find(|node| has(node))?;
            has(&status.id.0).then(|| (node.clone(), path.clone()))
        })
        .collect();
    found.sort();
    found
}

/// The logs of one node alone, by its name or by its place among the nodes of the job, from 0 on.
pub fn of_one(group: &LogGroup, wanted: &str) -> Result<Vec<PathBuf>, CommandFailure> {
    let nodes = group.status.as_ref().map_or(&[][..], |s| &s.nodes);
    let by_place = wanted.parse::<usize>().ok().and_then(|n| nodes.get(n));
    let Some(node) = nodes.iter().find(|n| *n == wanted).or(by_place) else {
        let what = format!("{} has no node {wanted}", group.name());
        let hint = match nodes {
            [] => "its nodes are unknown".to_owned(),
            nodes => format!("its nodes are {}", nodes.join(", ")),
        };
        return Err(CommandFailure::usage(what).hint(hint));
    };
    let files = files(group).into_iter().filter(|(of, _)| of == node);
    let files: Vec<PathBuf> = files.map(|(_, path)| path).collect();
    if files.is_empty() {
        let what = format!("node {node} has no log of its own");
        let hint = "all nodes write into the job's log; `srun --output=logs/slurm-%j-%N.out` in the script writes one a node";
        return Err(CommandFailure::usage(what).hint(hint));
    }
    Ok(files)
}
