//! The decision after a failure, for `oomctl plan --after` and `oomctl fix`.

use crate::cli::args::Configuration;
use crate::cli::logs::died::{Died, FailureDecision};
use crate::cli::logs::{self, LogGroup};
use crate::cli::request::load;
use crate::cli::script::{self, NO_TERMINAL};
use crate::cli::session::Session;
use crate::core::adopt::{command, output_path};
use crate::core::request::Request;
use crate::view::{CommandFailure, columns, print};

/// Prints what a supervisor would decide after this failure.
pub fn run(
    session: &Session,
    flags: &Configuration,
    words: &[String],
    failure: &str,
) -> Result<(), CommandFailure> {
    let groups = logs::paired(logs::asked(&session.runs, failure)?);
    let view = decide(session, flags, words, failure, &groups)?.view;
    session.show(&view, |view| view.text(columns().unwrap_or(NO_TERMINAL)))
}

/// What a supervisor would decide after the failure of these logs: of a run with all that it has tried, else of the
/// configuration or the script (`words`) that the log is of.
pub fn decide(
    session: &Session,
    flags: &Configuration,
    words: &[String],
    failure: &str,
    groups: &[LogGroup],
) -> Result<FailureDecision, CommandFailure> {
    let Some(mut group) = groups.first().cloned() else {
        return Err(CommandFailure::usage(format!("{failure} has no log")));
    };
    let died = match &group.attempt {
        Some(_) if flags.says_what_to_run() || !words.is_empty() => {
            let what = format!("{failure} is a run, and has its own configuration");
            return Err(CommandFailure::usage(what).hint(
                "drop the options and the script, or give the log of its attempt to decide for another configuration",
            ));
        }
        Some((run, _)) => Died::of_run(session, run, groups)?,
        None => {
            let request = match words {
                [] => load::request(session, flags, "plan", &[])?,
                words => of_script(session, flags, words, &mut group)?,
            };
            let group = with_outputs(group.of_request(&request), &request);
            let incident = group.diagnose(&session.own_failures()?)?;
            Died::at_first(request.on_gpu_of(&incident)?, incident)
        }
    };
    died.decided()
}

/// The logs with the files into which the script sends what its program prints. They are of the job whose number the log's name has,
/// or else of the newest one.
fn with_outputs(mut group: LogGroup, request: &Request) -> LogGroup {
    let name = group.files.first().and_then(|path| path.file_stem());
    let name = name.unwrap_or_default().to_string_lossy().into_owned();
    let number = name
        .rsplit(|c: char| !c.is_ascii_digit())
        .find(|n| !n.is_empty());
    for file in request.outputs() {
        let path = file.path.and_then(|path| match path.contains("${") {
            true => output_path(&path, number?, None),
            false => Some(path),
        });
        let path = path.map(|path| request.workdir().join(path));
        let new = path.filter(|path| path.is_file() && !group.files.contains(path));
        if let Some(path) = new {
            print::talk(&format!(
                "also read: {}, where the script sends the output of its program",
                path.display()
            ));
            group.files.push(path);
        }
    }
    group
}

/// The request of a script, of which there is a log. It is of the script as it stands, whatever other runs have taught since.
fn of_script(
    session: &Session,
    flags: &Configuration,
    words: &[String],
    group: &mut LogGroup,
) -> Result<Request, CommandFailure> {
    let logs = group.ends();
    let flags = Configuration {
        fresh: true,
        ..flags.clone()
    };
    let asked = script::ScriptCommandLine {
        flags: &flags,
        run: None,
        sbatch: &[],
        words,
        logs: &logs,
    };
    let request = script::planned(session, &asked)?;
    let Some(list) = request.array()? else {
        return Ok(request);
    };
    let id = group.status.as_ref().map(|status| status.id.0.as_str());
    let index = id.and_then(|id| id.split_once('_')?.1.parse().ok());
    print::talk(&format!(
        "note: the job is an array ({}). To resubmit only what died: `sbatch --array={} {}`",
        list.text,
        index.map_or("INDEX".to_owned(), |index: u32| index.to_string()),
        command(words)
    ));
    // What a script makes of its index is known where that is.
    Ok(match index {
        Some(index) => request.task(&request.inputs().run, index, Some(&list)),
        None => request,
    })
}
