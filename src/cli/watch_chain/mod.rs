//! Supervision without a process on a login node: `submit --supervise job`, and the turns of the jobs that it sends;
//! `submit --supervise script`, and the turns at the end of a job's own script.

mod asked;
mod at_end;
mod jobs;
mod step;

use crate::core::engine::{NextLook, WatchTurn, after_nothing, next_look};
use std::path::Path;

use crate::cli::session::Session;
use crate::core::exit::Exit;
use crate::core::request::Request;
use crate::drive::RunFolder;
use crate::io::scheduler::SubmitAnswer;
use crate::io::scheduler::slurm::{Slurm, WatchStart};
use crate::view::{CommandFailure, print};
pub use asked::{Supervise, WatchTurnArgs};
use at_end::turn_at_end;
pub use jobs::aim;
use jobs::{begun, come_again, dismiss, note, put_off, send, stands_ready, watch_job};
use oomctl_base::job::JobId;
use step::step;

/// Seconds for one turn of a watch job; less than it may run.
pub const PATIENCE_S: u64 = 1_200;
/// Seconds that a submission may take before the first watch job looks for itself.
const FIRST_S: u32 = 900;
/// Seconds between a turn that did not come to its end and the next.
const BREATH_S: u32 = 60;

/// Sends the first watch job, before there is anything to watch: whatever happens to this process, somebody looks
/// after the run.
pub fn begin(
    request: &Request,
    folder: &RunFolder,
    config: Option<&Path>,
) -> Result<Option<JobId>, CommandFailure> {
    let config = config.map(std::path::absolute).transpose();
    let config = config.map_err(|e| CommandFailure::configuration(format!("--config: {e}")))?;
    let first = watch_job(request, folder, 1, 0, config.as_deref())?;
    let start = WatchStart {
        after: None,
        in_s: FIRST_S,
    };
    let run = request.inputs().run.as_str();
    match Slurm::new().send_watch(&first, &start) {
        SubmitAnswer::Accepted { id, .. } => {
            stands_ready(folder, &id)?;
            Ok(Some(id))
        }
        // It may be there, and would submit the run some time later: so the run is submitted now, by this process.
        SubmitAnswer::Unclear { detail } => {
            print::talk(&format!(
                "unclear whether the watch job was accepted ({detail}): check with `squeue -n {}`; if it is missing, run `oomctl watch {run}`",
                first.name
            ));
            Ok(None)
        }
        SubmitAnswer::NotYet { .. } | SubmitAnswer::Withdrawn { .. } => Ok(None),
        SubmitAnswer::Refused { reason, .. } => {
            let what = format!("the watch job of {run} was not accepted: {reason}");
            Err(CommandFailure::refused(what).hint(format!(
                "nothing was submitted. Set sbatch options of watch jobs with the knob watch_options; `oomctl watch {run}` submits the run and watches it"
            )))
        }
    }
}

/// One turn of the watch. One that fails and has sent no other goes back into the queue, and comes again.
fn turn(
    wanted: &str,
    config: Option<&Path>,
    number: u32,
    in_vain: u32,
) -> Result<(), CommandFailure> {
    let me = WatchTurn {
        number,
        job: JobId(std::env::var("SLURM_JOB_ID").unwrap_or_default()),
        done: false,
        ready: None,
    };
    let Err(failure) = take(wanted, config, &me, in_vain) else {
        return Ok(());
    };
    if failure.exit() != Exit::Configuration && come_again(&me.job) {
        failure.report();
        return Ok(());
    }
    let last = format!("no further watch job for {wanted}: nothing supervises it now");
    let last = CommandFailure::new(failure.exit(), last);
    Err(failure.and(last.hint(format!("run `oomctl watch {wanted}`"))))
}

/// Sends the next turn, does what is due for the run, and says when the next may start.
fn take(
    wanted: &str,
    config: Option<&Path>,
    me: &WatchTurn,
    sent: u32,
) -> Result<(), CommandFailure> {
    let session = Session::open(config)?;
    let stored = session.runs.find(wanted)?;
    let folder = stored.folder.clone();
    let last = begun(&folder);
    if !me.follows(last.as_ref()) {
        print::talk(&format!("turn {} was taken by another job", me.number));
        return Ok(());
    }
    if next_look(&stored.history) == NextLook::Never {
        return Ok(());
    }
    let request = stored.request()?;
    let before = me.in_vain(last.as_ref(), sent);
    let (number, in_vain) = (me.number.saturating_add(1), before.saturating_add(1));
    let next = watch_job(&request, &folder, number, in_vain, config)?;
    let limits = request.inputs().limits.clone();
    let start = WatchStart {
        after: Some(me.job.clone()).filter(|id| !id.0.is_empty()),
        in_s: BREATH_S,
    };
    // The next turn is in the queue before this one is noted: a turn that is lost in between is taken again.
    let sent = send(&next, &start);
    let history = note(&folder, me).and_then(|()| {
        let scheduler = session.runs.scheduler(&request.inputs().backend);
        step(request, folder.clone(), scheduler, PATIENCE_S)
    });
    if history.is_ok() {
        // Lost, it costs an earlier end of the patience with turns that come to nothing.
        let done = true;
        let _ = note(&folder, &WatchTurn { done, ..me.clone() });
    }
    let job = sent.or_else(|_| send(&next, &start));
    match (history, job) {
        (Ok(Some(history)), Ok(job)) => aim(&job, &history),
        // Somebody ended this job. The next turn waits for its end, as it was told to at first.
        (Ok(None), Ok(_)) => {}
        (Ok(Some(history)), Err(_)) if next_look(&history) == NextLook::Never => {}
        (Ok(_), Err(why)) => return Err(CommandFailure::refused(why)),
        // What waiting cannot cure is not waited for.
        (Err(failure), Ok(job)) if failure.exit() == Exit::Configuration => {
            dismiss(&job);
            return Err(failure);
        }
        (Err(failure), Ok(job)) => {
            failure.report();
            let now = jiff::Timestamp::now();
            match after_nothing(before, &limits, stored.history.created, now) {
                Ok(in_s) => put_off(&job, in_s),
                Err(why) => {
                    dismiss(&job);
                    return Err(CommandFailure::configuration(why.to_string()));
                }
            }
        }
        (Err(failure), Err(_)) => return Err(failure),
    }
    Ok(())
}
