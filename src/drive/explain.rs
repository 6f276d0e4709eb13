//! Why one GPU of a process that drives several is full: the scripts are read here, the rest is core's.

use std::path::Path;

use crate::core::measure::Measured;
use crate::core::recipe::Layer;
use crate::core::request::{Explanation, Request, ScriptText, explain};
use crate::io::files::read_text;
use oomctl_diagnose::Incident;

/// Largest script that is read, in bytes.
const SCRIPT_MAX: u64 = 1 << 20;

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
