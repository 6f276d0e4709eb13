//! Whether a job goes on from a checkpoint, as far as its texts show.

use crate::core::recipe::Preset;
use oomctl_scripts::{Adoption, ScriptSource};

/// Whether oomctl finds the checkpoints of a job, or the scripts go on from one themselves.
pub fn resumes(preset: &Preset, adoption: &Adoption<'_>) -> bool {
    let on_disk = preset
        .checkpoint
        .as_ref()
        .is_some_and(|c| c.on_disk.is_some());
    on_disk || adoption.reading.sources.iter().any(says)
}

/// Whether a text makes a job go on from a checkpoint. A program that only has an option for it does not, until a script gives it.
fn says(source: &ScriptSource) -> bool {
    let text = source.text.replace(' ', "");
    match source.path.ends_with(".py") {
        true => [
            "last_checkpoint(",
            "resume_from_checkpoint=True",
            "resume=True",
        ]
        .iter()
        .any(|sign| text.contains(sign)),
        false => text.contains("resum"),
    }
}
