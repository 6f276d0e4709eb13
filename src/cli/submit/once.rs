//! Submitting one run and going away.

use super::super::pipeline::Pipeline;
use super::super::print::story::Story;
use super::super::print::{self, Failure};
use super::super::watch_chain::{self, Supervise};
use super::super::{ended, interrupt};
use super::{Args, PATIENCE_S};
use crate::core::exit::Exit;
use crate::core::job::JobId;
use crate::core::supervise::{NextLook, next_look};
use crate::drive::{End, Handle, Supervisor, Until, drive};

/// Submits the first attempt, prints the id of its job, and says what comes next.
pub fn submit_once(
    mut supervisor: Supervisor,
    pipeline: &Pipeline<'_>,
    args: &Args,
    watched: Option<&JobId>,
) -> Result<Exit, Failure> {
    let sources = interrupt::listen()?;
    let until = Until::Submitted {
        patience_s: PATIENCE_S,
    };
    let mut story = Story::quiet();
    let end = drive(&mut supervisor, until, &sources, &mut story);
    story.close();
    pipeline.tell(&supervisor, end);
    let name = pipeline.asked.as_str();
    let code = ended::result(&supervisor, end, args.json, &|view| {
        let job = view.attempts.last().and_then(|a| a.job.clone());
        match job {
            Some(job) => print::data(&job),
            None => Ok(()),
        }
    })?;
    let lives = |h: &&Handle| next_look(h.history()) != NextLook::Never;
    let handle = supervisor.runs().next().filter(lives);
    match (end, watched.zip(handle)) {
        (_, Some((job, handle))) => {
            watch_chain::aim(job, handle.history());
            let how = match args.supervise {
                Some(Supervise::Script) => "each job takes a turn of the watch at its end, else ",
                _ => "",
            };
            print::talk(&format!(
                "{how}watched by job {job}; `oomctl status {name}` tells"
            ));
        }
        (End::Detached { .. }, None) => {}
        (_, None) => print::talk(&print::next_step(&supervisor, name)),
    }
    Ok(code)
}
