//! Why one GPU of a process that drives several is full: the scripts are read here, the rest is core's.

use std::path::Path;

use super::DriveError;
use super::folder::RunFolder;
use crate::core::measure::Measured;
use crate::core::recipe::Layer;
use crate::core::request::{Explanation, Request, ScriptText, explain};
use crate::io::files::{Access, read_text, write_atomic};
use oomctl_diagnose::Incident;

/// Largest script that is read, in bytes.
const SCRIPT_MAX: u64 = 1 << 20;
/// Proposed changes of scripts, in the attempt's folder.
pub const PROPOSAL: &str = "proposal.diff";

/// Explains an incident of the configuration with these rungs. A script that cannot be read is left out.
pub fn explained(
    request: &Request,
    rungs: &[Layer],
    incident: &Incident,
    measured: &Measured,
) -> Option<Explanation> {
    let scripts: Vec<ScriptText> = request
        .scripts(rungs)
        .into_iter()
        .filter_map(|path| {
            let text = script(&request.workdir().join(&path))?;
            Some(ScriptText { path, text })
        })
        .collect();
    explain(
        incident,
        measured,
        request.replicas(rungs).as_ref(),
        &scripts,
    )
}

/// The text of a script; what is no file would have to be waited for.
fn script(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok().filter(|path| path.is_file())?;
    read_text(&path, SCRIPT_MAX).ok()
}

/// Saves the proposed changes in the folder of the attempt; the script itself is left as it is.
///
/// # Errors
/// When the file cannot be written.
pub(super) fn save(
    folder: &RunFolder,
    attempt: u32,
    explanation: &Explanation,
) -> Result<Option<std::path::PathBuf>, DriveError> {
    let Some(patch) = explanation.patch() else {
        return Ok(None);
    };
    let dir = folder.attempt(attempt);
    if !Path::new(&dir).is_dir() {
        return Ok(None);
    }
    let path = dir.join(PROPOSAL);
    write_atomic(&path, patch.as_bytes(), Access::Private)?;
    Ok(Some(path))
}
