//! Submitting one run and going away.

use crate::cli::interrupt;
use crate::cli::runs::ended;
use crate::cli::watch::pipeline::Pipeline;
use crate::cli::watch_chain::{self, Supervise};
use crate::core::engine::{NextLook, next_look};
use crate::core::exit::Exit;
use crate::drive::{DriveEnd, Handle, Supervisor, Until, drive};
use crate::view::story::Story;
use crate::view::{CommandFailure, next_step, print};
use oomctl_base::job::JobId;

/// Seconds for which an unclear submission is looked up before `submit` hands over to `watch`.
const PATIENCE_S: u64 = 90;

/// Submits what can be submitted now, and leaves what a pipeline reads of it.
pub fn submitted(
    supervisor: &mut Supervisor,
    pipeline: &Pipeline<'_>,
) -> Result<DriveEnd, CommandFailure> {
    let sources = interrupt::listen()?;
    let until = Until::Submitted {
        patience_s: PATIENCE_S,
    };
    let mut story = Story::quiet();
    let end = drive(supervisor, until, &sources, &mut story);
    story.close();
    pipeline.tell(supervisor, end);
    Ok(end)
}

/// Submits the first attempt, prints the id of its job, and says what comes next.
pub fn submit_once(
    mut supervisor: Supervisor,
    pipeline: &Pipeline<'_>,
    json: bool,
    watched: Option<(&JobId, Supervise)>,
) -> Result<Exit, CommandFailure> {
    let end = submitted(&mut supervisor, pipeline)?;
    let name = pipeline.asked.as_str();
    let code = ended::result(&supervisor, end, json, &|view| {
        let job = view.attempts.last().and_then(|a| a.job.clone());
        match job {
            Some(job) => print::data(&job),
            None => Ok(()),
        }
    })?;
    let lives = |h: &&Handle| next_look(h.history()) != NextLook::Never;
    let handle = supervisor.runs().next().filter(lives);
    match (end, watched.zip(handle)) {
        (_, Some(((job, supervise), handle))) => {
            watch_chain::aim(job, handle.history());
            let how = match supervise {
                Supervise::Script => "each job takes a turn of the watch at its end, else ",
                _ => "",
            };
            print::talk(&format!(
                "{how}watched by job {job}; check with `oomctl status {name}`"
            ));
        }
        (DriveEnd::Detached { .. }, None) => {}
        (_, None) => print::talk(&next_step(&supervisor, name)),
    }
    Ok(code)
}
