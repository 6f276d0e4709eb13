//! What a run was asked for, as far as a table shows it or another run asks: a small part of a large file.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::Runs;
use crate::core::request::VersionInLog;
use crate::drive::RunFolder;

/// Runs of a project that are looked through for one of a script, the newest first.
const LOOKED_THROUGH: usize = 64;

/// Dataset and preset of a run.
#[derive(Debug, Default)]
pub struct RunLabels {
    /// The dataset profile.
    pub dataset: Option<String>,
    /// The preset.
    pub preset: Option<String>,
}

#[derive(Deserialize)]
struct StoredInputs {
    dataset: Option<String>,
    preset: StoredPreset,
    workdir: PathBuf,
    scripts: Option<StoredScripts>,
}

#[derive(Deserialize)]
struct StoredScripts {
    script: PathBuf,
}

#[derive(Deserialize)]
struct StoredPreset {
    path: String,
}

impl StoredInputs {
    fn of(folder: &RunFolder) -> Option<Self> {
        let text = folder.read_inputs().unwrap_or_default();
        serde_json::from_str(&text).ok()
    }

    /// The name of its preset.
    fn preset(&self) -> &str {
        let file = self.preset.path.rsplit('/').next().unwrap_or_default();
        file.trim_end_matches(".yaml")
    }
}

impl Runs {
    /// The version of its framework that the log of the last run of a script showed, and which run that was. None where no run
    /// of this script and preset showed one.
    pub fn version_shown(&self, script: &Path, preset: &str) -> Option<(String, VersionInLog)> {
        let names = self.names().ok()?.into_iter();
        let folders = names.filter_map(|name| Some((self.folder(&name).ok()?, name)));
        let made = |folder: &RunFolder| folder.inputs().metadata()?.modified();
        let mut runs: Vec<_> = folders
            .filter_map(|(folder, name)| Some((made(&folder).ok()?, name, folder)))
            .collect();
        runs.sort_by_key(|(made, ..)| Reverse(*made));
        runs.into_iter()
            .take(LOOKED_THROUGH)
            .find_map(|(_, name, folder)| {
                let asked = StoredInputs::of(&folder)?;
                let of_script = &asked.scripts.as_ref()?.script;
                let same = asked.preset() == preset && asked.workdir.join(of_script) == script;
                let stored = same.then(|| self.open(&name))?.ok()?;
                Some((name, stored.history.version?))
            })
    }
}

/// Reads them; nothing where the file cannot be read.
pub fn of(folder: &RunFolder) -> RunLabels {
    let Some(inputs) = StoredInputs::of(folder) else {
        return RunLabels::default();
    };
    RunLabels {
        preset: Some(inputs.preset().to_owned()),
        dataset: inputs.dataset,
    }
}
