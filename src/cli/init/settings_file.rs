//! Files of settings that say how a job starts: a framework's own, and those of accelerate.

use std::collections::BTreeSet;
use std::path::Path;

use super::surroundings::Surroundings;
use crate::core::recipe::PresetFile;
use crate::io::files::read_text;
use oomctl_base::only;

/// Bytes of a file that are read at most.
const MOST: u64 = 1 << 20;
/// Keys that `accelerate config` writes into each file.
const ACCELERATE: [&str; 2] = ["compute_environment", "distributed_type"];
/// Keys of a framework that tell its file from those of others: one alone may be anybody's.
const ENOUGH: usize = 2;

/// How a framework is started with a file that lies here, and that file. None where several may be meant.
pub fn started<'a>(
    folder: &Path,
    found: &'a Surroundings,
    presets: &[PresetFile],
) -> Option<(String, &'a str)> {
    let files = found.settings.iter().flat_map(|file| {
        let keys = keys(folder, file);
        let presets = presets.iter().filter_map(move |preset| {
            let of_model = preset.recognise.model.iter();
            let of_model = of_model.map(|key| key.trim_start_matches("key:"));
            let of_all = preset.recognise.keys.iter().map(String::as_str);
            let known: BTreeSet<&str> = of_all
                .chain(of_model)
                .map(|key| key.trim_start_matches('-'))
                .filter(|key| keys.iter().any(|k| k == key))
                .collect();
            let start = preset.recognise.start_with_file.clone()?;
            (known.len() >= ENOUGH).then_some((start, file.as_str()))
        });
        presets.collect::<Vec<_>>()
    });
    only(files)
}

/// The file of accelerate that lies here.
pub fn of_accelerate<'a>(folder: &Path, found: &'a Surroundings) -> Option<&'a str> {
    let files = found.settings.iter().filter(|file| {
        let keys = keys(folder, file);
        ACCELERATE.iter().all(|key| keys.iter().any(|k| k == key))
    });
    only(files.map(String::as_str))
}

/// How many processes a file of accelerate starts.
pub fn processes(folder: &Path, file: &str) -> Option<u64> {
    let text = read_text(&folder.join(file), MOST).ok()?;
    let mut lines = text.lines();
    lines.find_map(|line| line.strip_prefix("num_processes:")?.trim().parse().ok())
}

/// The keys of a file's first level.
fn keys(folder: &Path, file: &str) -> Vec<String> {
    let text = read_text(&folder.join(file), MOST).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let keys = lines.map(|(key, _)| key.trim_end());
    let whole = |key: &&str| key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    keys.filter(whole).map(str::to_owned).collect()
}
