//! Supervision without a process on a login node: `submit --supervise job`, and the turns of the jobs that it sends.

mod jobs;

use std::path::Path;

use super::print::story::Story;
use super::print::{self, Failure};
use super::{load, runs};
use crate::core::job::JobId;
use crate::core::supervise::{History, NextLook, Request, Turn, next_look};
use crate::drive::{DriveError, End, Handle, RunFolder, Sources, Until, drive};
use crate::io::ledger::{LedgerError, Takeover};
use crate::io::scheduler::slurm::Start;
pub use jobs::aim;
use jobs::{begun, note, send, watch_job};

/// Who looks after a run once it is submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Supervise {
    /// This process, until the run is over: the same as --watch
    Here,
    /// Small jobs, one after each attempt: no process stays on the login node
    Job,
}

/// Seconds that a submission may take before the first watch job looks for itself.
const FIRST_S: u32 = 900;
/// Seconds between a turn that did not come to its end and the next.
const BREATH_S: u32 = 60;
/// Seconds for one turn; less than a watch job may run.
pub const PATIENCE_S: u64 = 1_200;

/// Refuses watch jobs where there are none, before anything is written.
pub fn check(request: &Request) -> Result<(), Failure> {
    if request.inputs().backend == "slurm" {
        return Ok(());
    }
    Err(Failure::new(2, "--supervise job needs the backend slurm")
        .hint("on this machine: `oomctl submit --watch`, under nohup or tmux"))
}

/// Sends the first watch job, before there is anything to watch: whatever happens to this process, somebody looks
/// after the run.
pub fn begin(
    request: &Request,
    folder: &RunFolder,
    config: Option<&Path>,
) -> Result<JobId, Failure> {
    let config = config.map(std::path::absolute).transpose();
    let config = config.map_err(|e| Failure::new(5, format!("--config: {e}")))?;
    let first = watch_job(request, folder, 1, config.as_deref())?;
    let start = Start {
        after: None,
        in_s: FIRST_S,
    };
    send(&first, &start).map_err(|why| {
        let run = request.inputs().run.as_str();
        Failure::new(4, format!("the watch job of {run} was not accepted: {why}")).hint(format!(
            "nothing was submitted. sbatch options for watch jobs are the knob watch_options; `oomctl watch {run}` submits \
             the run and stays"
        ))
    })
}

/// One turn of the watch: sends the next one, does what is due for the run, and says when the next may start.
pub fn turn(wanted: &str, config: Option<&Path>, number: u32) -> Result<(), Failure> {
    let project = load::project(config)?;
    let stored = runs::find(&project.folder, wanted)?;
    let folder = stored.folder;
    let me = Turn {
        number,
        job: JobId(std::env::var("SLURM_JOB_ID").unwrap_or_default()),
    };
    if !me.follows(begun(&folder).as_ref()) {
        print::talk(&format!("turn {number} was taken by another job"));
        return Ok(());
    }
    if next_look(&stored.history) == NextLook::Never {
        return Ok(());
    }
    let request = runs::request(&folder)?;
    let next = watch_job(&request, &folder, number.saturating_add(1), config)?;
    let start = Start {
        after: Some(me.job.clone()).filter(|id| !id.0.is_empty()),
        in_s: BREATH_S,
    };
    // The next turn is in the queue before this one is noted: a turn that is lost in between is taken again.
    let successor = send(&next, &start);
    note(&folder, &me)?;
    let Some(history) = step(request, folder)? else {
        // Somebody ended this job. The next turn waits for its end, as it was told to at first.
        return successor.map(drop).map_err(|why| abandoned(wanted, &why));
    };
    match successor.or_else(|_| send(&next, &start)) {
        Ok(job) => aim(&job, &history),
        Err(_) if next_look(&history) == NextLook::Never => {}
        Err(why) => return Err(abandoned(wanted, &why)),
    }
    Ok(())
}

fn abandoned(run: &str, why: &str) -> Failure {
    let failure = Failure::new(4, format!("no further watch job for {run}: {why}"));
    failure.hint(format!(
        "nobody looks after it now; `oomctl watch {run}` does"
    ))
}

/// Does what is due for a run, unless somebody else is at it. `None` where a signal came in between.
fn step(request: Request, folder: RunFolder) -> Result<Option<History>, Failure> {
    let project = request.inputs().project.clone();
    let backend = request.inputs().backend.clone();
    let now = jiff::Timestamp::now();
    let run = folder.clone();
    let handle = match Handle::open(folder, Box::new(request), Takeover::IfDead, now) {
        Err(DriveError::Ledger(owned @ LedgerError::Owned { .. })) => {
            print::talk(&owned.to_string());
            return watched_elsewhere(&run).map(Some);
        }
        handle => handle?,
    };
    let mut supervisor = runs::supervisor(&backend, Path::new(&project));
    supervisor.add(handle);
    let sources = Sources::signals()
        .map_err(|e| Failure::new(4, format!("cannot listen for signals: {e}")))?;
    let until = Until::Settled {
        patience_s: PATIENCE_S,
    };
    let mut story = Story::new(false);
    let end = drive(&mut supervisor, until, &sources, &mut story);
    story.close();
    let handle = supervisor.runs().next();
    if let Some(error) = handle.and_then(Handle::error) {
        print::talk(&error.to_string());
    }
    Ok(match end {
        End::Detached { .. } => None,
        End::Reached | End::OutOfPatience => handle.map(|handle| handle.history().clone()),
    })
}

/// Another process looks after the run: what it does is not ours to foresee, so it is looked at again later.
fn watched_elsewhere(folder: &RunFolder) -> Result<History, Failure> {
    let history = crate::drive::history(folder.dir())?;
    match next_look(&history) {
        NextLook::Never => Ok(history),
        _ => Ok(History::default()),
    }
}
