//! The decision after a failure, for `oomctl plan --after` and `oomctl fix`.

use std::path::Path;
use std::time::Duration;

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
    let mut groups = logs::paired(logs::asked(&session.runs, failure)?);
    let view = decide(session, flags, words, failure, &mut groups)?.view;
    session.show(&view, |view| view.text(columns().unwrap_or(NO_TERMINAL)))
}

/// What a supervisor would decide after the failure of these logs: of a run with all that it has tried, else of the
/// configuration or the script (`words`) that the log is of.
pub fn decide(
    session: &Session,
    flags: &Configuration,
    words: &[String],
    failure: &str,
    groups: &mut [LogGroup],
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
            if let Some(first) = groups.first_mut() {
                *first = group;
            }
            Died::at_first(request.on_gpu_of(&incident)?, incident)
        }
    };
    died.decided()
}

/// How far apart a job's log and the file of its program were written last.
const TOGETHER: Duration = Duration::from_secs(3_600);

/// The logs with the files into which the script sends what its program prints, those that were written when the log was.
fn with_outputs(mut group: LogGroup, request: &Request) -> LogGroup {
    let log = group.files.first().cloned().unwrap_or_default();
    let name = log
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let numbers = name
        .split(|c: char| !c.is_ascii_digit())
        .filter(|n| !n.is_empty());
    let written = |path: &Path| path.metadata().ok()?.modified().ok();
    for file in request.outputs() {
        let Some(path) = file.path else {
            continue;
        };
        // The log of a job has its number in its name.
        let named = numbers
            .clone()
            .filter_map(|number| output_path(&path, number, None));
        let mut named = named
            .chain([path.clone()])
            .map(|path| request.workdir().join(path));
        let Some(found) = named.find(|path| path.is_file() && !group.files.contains(path)) else {
            continue;
        };
        let times = written(&log).zip(written(&found));
        let apart =
            times.map(|(log, own)| log.duration_since(own).unwrap_or_else(|e| e.duration()));
        let is_of_job = apart.is_none_or(|apart| apart <= TOGETHER);
        let shown = found.display();
        match is_of_job {
            true => print::talk(&format!(
                "also read: {shown}, where the script sends the output of its program"
            )),
            false => print::talk(&format!(
                "not read: {shown}, which was written at another time than the log"
            )),
        }
        group.files.extend(is_of_job.then_some(found));
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
