//! What a run was asked for, as far as a table shows it: a small part of a large file.

use serde::Deserialize;

use crate::drive::RunFolder;

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
}

#[derive(Deserialize)]
struct StoredPreset {
    path: String,
}

/// Reads them; nothing where the file cannot be read.
pub fn of(folder: &RunFolder) -> RunLabels {
    let text = folder.read_inputs().unwrap_or_default();
    let Ok(inputs) = serde_json::from_str::<StoredInputs>(&text) else {
        return RunLabels::default();
    };
    let file = inputs.preset.path.rsplit('/').next().unwrap_or_default();
    RunLabels {
        dataset: inputs.dataset,
        preset: Some(file.trim_end_matches(".yaml").to_owned()),
    }
}
