//! Whether a run's script is still the one that was submitted.

use std::path::Path;

use crate::core::engine::{History, Outcome, unmoved};
use crate::core::request::Request;
use crate::io::files::read_text;
use crate::io::scheduler::SCRIPT_MAX;
use crate::view::CommandFailure;
use crate::view::outcome::reason;

/// A run without a rung left, or whose program does not read what oomctl changes, ends as it did, unless something changed.
pub fn something_changed(history: &History, request: &Request) -> Result<(), CommandFailure> {
    let Some(scripts) = &request.inputs().scripts else {
        return Ok(());
    };
    let last = history.attempt();
    let why = match &history.outcome {
        Some(Outcome::Exhausted { .. }) => Some("no rung is left".to_owned()),
        Some(Outcome::Failed { .. }) => last
            .and_then(|attempt| unmoved(history, attempt))
            .and_then(|outcome| reason(&outcome)),
        _ => None,
    };
    let folder = Path::new(&request.inputs().workdir);
    let is_as_it_was = |(path, text): (&String, &String)| {
        read_text(&folder.join(path), SCRIPT_MAX).ok().as_ref() == Some(text)
    };
    let Some(why) = why.filter(|_| scripts.files.iter().all(is_as_it_was)) else {
        return Ok(());
    };
    let what = format!(
        "{}: {why}, and neither its script nor a file that the script names has changed since",
        history.run
    );
    Err(CommandFailure::usage(what)
        .hint("`retry --as-submitted` runs the last attempt again all the same"))
}

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
