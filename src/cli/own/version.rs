//! The version of the framework that a script of the user's own starts.

use super::read::Read;
use crate::core::adopt::version::{Known, MAX_LOG, environments, in_log, in_scripts, installed};
use crate::core::patch::Adoption;
use crate::core::recipe::PresetFile;
use crate::io::installed::packages;
use crate::io::window::part;

/// What the script, its environment and the log of a job say.
pub fn known(file: &PresetFile, adoption: &Adoption<'_>, read: &Read) -> Known {
    let Some(framework) = &file.framework else {
        return Known::Nothing;
    };
    let mut told = in_scripts(framework, &adoption.reading);
    for environment in environments(&adoption.reading) {
        for (folder, names) in packages(&read.workdir.join(environment)) {
            told.extend(installed(framework, &names, &folder.display().to_string()));
        }
    }
    if let Some(path) = &read.log
        && let Ok(head) = part(path, |length| 0..length.min(MAX_LOG))
    {
        let text = String::from_utf8_lossy(&head.bytes);
        told.extend(in_log(framework, &text, &path.display().to_string()));
    }
    Known::of(file, &told)
}
