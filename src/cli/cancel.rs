//! `oomctl cancel`: end a run and its job.

use std::process::ExitCode;

use super::print::story::Story;
use super::print::{self, Failure};
use super::{load, runs, sweeps};
use crate::drive::{CancelAnswer, Handle, Sources, Until, drive, request_cancel};
use crate::io::ledger::Takeover;

/// Arguments of `cancel`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Runs, by name, by the id of one of their jobs, or all of a sweep by its name
    #[arg(required = true, value_name = "JOBID|RUN|SWEEP")]
    runs: Vec<String>,
    /// Project file; by default the nearest oomctl.yaml, walking up from here
    #[arg(long, value_name = "FILE")]
    config: Option<std::path::PathBuf>,
}

/// Runs `oomctl cancel`.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let project = load::project(args.config.as_deref())?.folder;
    let (names, _) = sweeps::expand(&project, &args.runs)?;
    for wanted in &names {
        let stored = runs::find(&project, wanted)?;
        let name = stored.history.run.clone();
        let by = print::somebody("oomctl cancel");
        match request_cancel(&stored.folder, &by)? {
            CancelAnswer::Over => print::talk(&format!("{name} is over already")),
            CancelAnswer::LeftTo(owner) => {
                let (host, pid) = (&owner.host, owner.pid);
                print::talk(&format!(
                    "{name}: asked its supervisor (pid {pid} on {host}) to end it"
                ));
            }
            CancelAnswer::Unattended => {
                end(&project, stored)?;
                print::talk(&format!("{name} is cancelled"));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Nobody supervises the run: this process does, to its end.
fn end(project: &std::path::Path, stored: runs::Stored) -> Result<(), Failure> {
    let request = runs::request(&stored.folder)?;
    let backend = request.inputs().backend.clone();
    let now = jiff::Timestamp::now();
    let handle = Handle::open(stored.folder, Box::new(request), Takeover::IfDead, now)?;
    let mut supervisor = runs::supervisor(&backend, project);
    supervisor.add(handle);
    let sources = Sources::signals()
        .map_err(|e| Failure::new(4, format!("cannot listen for signals: {e}")))?;
    let mut story = Story::quiet();
    drive(&mut supervisor, Until::Finished, &sources, &mut story);
    story.close();
    match supervisor.runs().find_map(Handle::error) {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}
