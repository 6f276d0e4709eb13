//! What to do after `oomctl init`.

use std::path::Path;

use super::starter::Starter;
use crate::core::recipe::MARK;
use crate::core::render::shell_word;

/// What to do next.
pub fn next(folder: &Path, starter: &Starter) -> String {
    let marks = |text: &str| text.matches(MARK).count();
    let enter = match folder == Path::new(".") {
        true => String::new(),
        false => format!("`cd {}`, then ", word(&folder.display().to_string())),
    };
    let text = starter.text.as_deref().unwrap_or_default();
    match (
        starter.script.as_deref().map(word),
        starter.files.as_slice(),
    ) {
        (Some(script), [_, _]) => format!(
            "train.py is an example for PyTorch: a small model, on one GPU\n\
             next: {enter}`oomctl submit -w {script}`\n\
             `oomctl submit -w {script} --batch_size 4096` runs out of GPU memory, and goes on with less"
        ),
        (Some(script), files) => {
            let first = match files.iter().any(|(_, text)| marks(text) > 0) {
                true => format!("replace each {} in {script}, then ", MARK),
                false => String::new(),
            };
            let takes = starter.takes.iter().map(|takes| format!("{takes}\n"));
            let takes: String = takes.collect();
            format!(
                "{takes}next: {enter}{first}`oomctl plan {script}`, then `oomctl submit -w {script}`"
            )
        }
        (None, _) if marks(text) == 0 => format!("next: {enter}`oomctl plan` and `oomctl submit`"),
        (None, _) => format!(
            "next: in oomctl.yaml, replace each {} ({} in all); then {enter}`oomctl plan` and `oomctl submit`",
            MARK,
            marks(text)
        ),
    }
}

/// A name as a shell takes it.
pub fn word(name: &str) -> String {
    shell_word(name).unwrap_or_else(|_| name.to_owned())
}
