//! What a script would do, shown and agreed to.

use std::io::IsTerminal;

use crate::cli::interrupt::OpenQuestion;
use crate::cli::script::absent::fails_at_once;
use crate::cli::script::submit::{shown, width};
use crate::cli::session::Session;
use crate::core::adopt::Scripts;
use crate::core::exit::Exit;
use crate::core::request::Request;
use crate::view::pager::Pager;
use crate::view::{CommandFailure, print};

/// The request that is shown of a script: of an array the first task, which is told where tasks have values of their own.
pub fn shown_task(request: &Request) -> Result<Request, CommandFailure> {
    let task = request.first_task()?;
    if task.inputs().layers != request.inputs().layers {
        print::talk(
            "the script computes values from the index of the task; shown is the first task",
        );
    }
    Ok(task)
}

/// Shows what an attempt and each rung would change, and asks. Without a terminal `yes` must have been given. `job` is the
/// first attempt, where that was submitted without us.
pub fn agreed(
    session: &Session,
    request: &Request,
    job: Option<&str>,
    yes: bool,
) -> Result<(), CommandFailure> {
    let view = shown(session, request, job);
    print::talk(view.text(width(std::io::stderr())).trim_end());
    let scripts = request.inputs().scripts.as_ref().filter(|_| job.is_none());
    if let Some(open) = scripts.and_then(Scripts::unfilled) {
        return Err(CommandFailure::configuration(open).hint("put the value in its place"));
    }
    if yes {
        let adoption = job.is_none().then(|| request.adoption()).flatten();
        return match adoption.and_then(|adoption| fails_at_once(request, &adoption)) {
            None => Ok(()),
            Some(why) => Err(CommandFailure::configuration(format!(
                "the job would fail at once: {why}"
            ))
            .hint("Correct it. Without --yes, oomctl asks whether to submit it anyway.")),
        };
    }
    let not_done = match job {
        None => "nothing was submitted",
        Some(_) => "not watched",
    };
    if !std::io::stdin().is_terminal() {
        let what = format!("no terminal to ask: {not_done}");
        let hint = match job {
            None => "look with --dry-run, agree with --yes; oomctl changes copies of your script",
            Some(_) => "add --yes, or --watch-only to follow the job and submit nothing",
        };
        return Err(CommandFailure::usage(what).hint(hint));
    }
    let mut question = OpenQuestion::ask(not_done);
    loop {
        print::prompt(match (job, view.has_rungs()) {
            (None, true) => {
                "Submit, and apply these changes if memory runs out? [y/N/d] (d: diffs): "
            }
            (None, false) => "Submit? [y/N/d] (d: diffs): ",
            (Some(_), true) => {
                "Resubmit with these changes if memory runs out? [y/N/d] (d: diffs): "
            }
            (Some(_), false) => "Resubmit unchanged in these cases? [y/N/d] (d: diffs): ",
        });
        let mut answer = String::new();
        let read = std::io::stdin().read_line(&mut answer);
        match read.map(|_| answer.trim()) {
            Ok("y" | "Y" | "yes") => return Ok(()),
            Ok("d" | "D" | "diff") => {
                question.meanwhile(|| {
                    let mut pager = Pager::open();
                    pager.write(&view.diffs(width(std::io::stdout())))?;
                    pager.close();
                    Ok::<_, CommandFailure>(())
                })?;
            }
            Ok("" | "n" | "N" | "no") | Err(_) => {
                print::talk(not_done);
                return Err(CommandFailure::quiet(Exit::Cancelled));
            }
            _ => print::say("answer y, n or d"),
        }
    }
}
