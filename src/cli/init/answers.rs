//! Answers of somebody who stopped before the last question.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::draft::Draft;
use crate::io::files::{Access, make_private_dir, read_text, write_atomic};

/// Where they lie, below the project's folder.
const FILE: &str = ".oomctl/init-answers.json";
const MOST: u64 = 1 << 16;

/// The preset, and values as `KNOB=VALUE`.
#[derive(Serialize, Deserialize)]
pub struct Answers {
    pub preset: String,
    pub set: Vec<String>,
}

impl Answers {
    /// Those of an earlier call. Whatever cannot be read is asked again.
    pub fn read(folder: &Path) -> Option<Self> {
        let text = read_text(&file(folder), MOST).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Keeps the answers so far, where the folder can be written.
    pub fn keep(draft: &Draft) {
        let answers = Self {
            preset: draft.named().to_owned(),
            set: draft.answers(),
        };
        let path = file(&draft.folder());
        let made = path.parent().map(make_private_dir);
        if let (Some(Ok(_)), Ok(text)) = (made, serde_json::to_string(&answers)) {
            drop(write_atomic(&path, text.as_bytes(), Access::Private));
        }
    }

    /// They are in a project file now.
    pub fn forget(folder: &Path) {
        drop(std::fs::remove_file(file(folder)));
    }
}

fn file(folder: &Path) -> PathBuf {
    folder.join(FILE)
}
