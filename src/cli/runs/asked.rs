//! What a run was asked for, as far as a table shows it: a small part of a large file.

use serde::Deserialize;

use crate::drive::RunFolder;

/// Dataset and preset of a run.
#[derive(Debug, Default)]
pub struct Asked {
    /// The dataset profile.
    pub dataset: Option<String>,
    /// The preset.
    pub preset: Option<String>,
}

#[derive(Deserialize)]
struct Inputs {
    dataset: Option<String>,
    preset: Source,
}

#[derive(Deserialize)]
struct Source {
    path: String,
}

/// Reads them; nothing where the file cannot be read.
pub fn of(folder: &RunFolder) -> Asked {
    let text = folder.read_inputs().unwrap_or_default();
    let Ok(inputs) = serde_json::from_str::<Inputs>(&text) else {
        return Asked::default();
    };
    let file = inputs.preset.path.rsplit('/').next().unwrap_or_default();
    Asked {
        dataset: inputs.dataset,
        preset: Some(file.trim_end_matches(".yaml").to_owned()),
    }
}
