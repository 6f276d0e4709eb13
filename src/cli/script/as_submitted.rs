//! Whether a run's script is still the one that was submitted.

use std::path::Path;

use crate::core::engine::{History, Outcome, unmoved};
use crate::core::request::Request;
use crate::io::files::read_text;
use crate::io::scheduler::SCRIPT_MAX;
use crate::view::{CommandFailure, print};

/// A run that ends as it did while nothing changes is not retried without a word: one without a rung left, whose program does
/// not read what oomctl changes, or whose configuration was refused. After another failure that comes again unchanged the
/// cause may be mended where oomctl does not look, in code or data: then it warns.
pub fn something_changed(history: &History, request: &Request) -> Result<(), CommandFailure> {
    let Some(scripts) = &request.inputs().scripts else {
        return Ok(());
    };
    let folder = Path::new(&request.inputs().workdir);
    let is_as_it_was = |(path, text): (&String, &String)| {
        read_text(&folder.join(path), SCRIPT_MAX).ok().as_ref() == Some(text)
    };
    let Some((why, kind)) = stays(history).filter(|_| scripts.files.iter().all(is_as_it_was))
    else {
        return Ok(());
    };
    let run = &history.run;
    let same = "The script and the files that it names have not changed";
    if !["", "config"].contains(&kind) {
        print::warn(&format!(
            "{run} failed: {why}. {same} since: expect the same failure"
        ));
        return Ok(());
    }
    let what = format!("{run} failed: {why}. {same} since, so a retry would fail again");
    let (script, command) = (&scripts.script, scripts.command());
    Err(CommandFailure::usage(what).hint(format!(
        "after you edit {script}: `oomctl submit {command}`; `retry --as-submitted` runs the last attempt again all the same"
    )))
}

/// Why a run would end again as it did, and the kind of that failure; an empty one where no rung helps.
fn stays(history: &History) -> Option<(String, &str)> {
    let last = history.attempt()?;
    match &history.outcome {
        Some(Outcome::Exhausted { .. }) => Some(("no rung is left".to_owned(), "")),
        Some(Outcome::Failed { .. }) if unmoved(history, last).is_some() => Some((
            "the program does not seem to read what oomctl changes".to_owned(),
            "",
        )),
        Some(Outcome::Failed { .. }) => {
            let incident = last.incident.as_ref()?;
            let again = incident.retryable_unchanged == Some(false);
            again.then(|| (incident.headline(), incident.kind.as_str()))
        }
        _ => None,
    }
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
