//! Whether a run's script is still the one that was submitted.

use std::path::Path;

use crate::core::request::Request;
use crate::io::files::read_text;
use crate::io::scheduler::SCRIPT_MAX;
use crate::view::CommandFailure;

/// A script that was mended since is not what a retry runs: attempts are copies of the script as it was submitted.
pub fn as_submitted(name: &str, request: &Request) -> Result<(), CommandFailure> {
    let Some(scripts) = &request.inputs().scripts else {
        return Ok(());
    };
    let script = &scripts.script;
    let path = Path::new(&request.inputs().workdir).join(script);
    let now = read_text(&path, SCRIPT_MAX).ok();
    if now.is_none() || now.as_ref() == scripts.files.get(script) {
        return Ok(());
    }
    let what = format!(
        "{script} changed since {name} was submitted, and `retry` runs the script as it was"
    );
    let hint =
        format!("`oomctl submit {script}` runs the new one; `retry --as-submitted` the old one");
    Err(CommandFailure::usage(what).hint(hint))
}
