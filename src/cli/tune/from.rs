//! Where tuning starts: a run that fits, or what would be submitted.

use std::path::Path;

use crate::cli::args::Configuration;
use crate::cli::request::load;
use crate::cli::runs;
use crate::cli::session::Session;
use crate::core::engine::Outcome;
use crate::core::exit::Exit;
use crate::core::learn::LearnedEntries;
use crate::core::measure::Measured;
use crate::core::request::{Basis, Ground, Request};
use crate::io::fits;
use crate::view::CommandFailure;
use crate::view::tune_view::TuneStart;

/// Where to start: the run that is named, or what would be submitted.
pub fn basis(
    session: &Session,
    named: Option<&str>,
    flags: &Configuration,
) -> Result<(Request, Basis, Option<TuneStart>), CommandFailure> {
    let memory = fits::read(&fits::file_of(&session.folder))?;
    let mut flags = flags.clone();
    if let Some(name) = named {
        match session.runs.find(name) {
            Ok(stored) => return of_run(&stored, memory),
            Err(unknown) => {
                flags.dataset = Some(name.to_owned());
                // Neither: what was meant is more likely to be a run.
                if load::request(session, &flags, "tune", &[]).is_err() {
                    return Err(neither(name, unknown));
                }
            }
        }
    }
    let (request, start) = session.request(&flags, "tune", &[])?;
    let start = start.filter(|s| matches!(s.ground, Ground::Fits | Ground::FitsAsAsked));
    let entry = start.map(|s| s.because);
    // The peak of a larger job is not this one's.
    let job = request.job(&[]).ok();
    let same = entry.as_ref().filter(|e| job.as_ref() == Some(&e.job));
    if let Some(stored) = same.and_then(|e| session.runs.find(&e.run).ok()) {
        let last = stored.history.attempt().map(|a| a.number);
        // The run itself knows more: what its earlier attempts died of.
        if last == same.map(|e| e.attempt) {
            return of_run(&stored, memory);
        }
    }
    let basis = Basis {
        rungs: Vec::new(),
        fits: entry.is_some(),
        measured: same.map_or_else(Measured::default, |e| e.measured.clone()),
        tried: Vec::new(),
        memory,
        trials: Vec::new(),
    };
    let from = entry.map(|e| TuneStart::new(&e.run, e.attempt, &basis.measured));
    Ok((request, basis, from))
}

/// Why this can be tuned by no name.
fn neither(name: &str, unknown: CommandFailure) -> CommandFailure {
    if !Path::new(name).is_file() {
        return unknown;
    }
    let what =
        format!("{name} is a file; `tune` starts from a run that fits, or from a dataset profile");
    CommandFailure::usage(what).hint(format!(
        "`oomctl submit -w {name}` starts a run of a job script; `oomctl status` lists the runs for `oomctl tune RUN`"
    ))
}

fn of_run(
    stored: &runs::Stored,
    memory: LearnedEntries,
) -> Result<(Request, Basis, Option<TuneStart>), CommandFailure> {
    let history = &stored.history;
    let run = &history.run;
    let request = stored.request()?;
    if request.is_program() {
        let what = format!(
            "{run} is a program that `oomctl run` started, and no job that can be tried for a few steps"
        );
        let hint =
            "give it more with --set, --fresh and the words of its command: what fits is learned";
        return Err(CommandFailure::usage(what).hint(hint));
    }
    if let Some(probe) = &request.inputs().probe {
        let what = format!(
            "{run} is a short job that tried a configuration of {}",
            probe.of
        );
        return Err(CommandFailure::usage(what).hint(format!("`oomctl tune {}`", probe.of)));
    }
    let fitted = |number| {
        let known = memory.entries().iter();
        known
            .clone()
            .any(|e| e.fitted() && e.run == *run && e.attempt == number)
    };
    let last = history.attempt().filter(|a| {
        let succeeded = history.outcome == Some(Outcome::Succeeded) && !a.printed_nothing();
        succeeded || fitted(a.number)
    });
    let Some(attempt) = last else {
        let what = format!("the last attempt of {run} did not prove that it fits");
        let hint = "tuning starts from a run that succeeded, or trained for a while";
        return Err(CommandFailure::new(Exit::StillOutOfMemory, what).hint(hint));
    };
    let basis = Basis {
        rungs: history.rungs(),
        fits: true,
        measured: attempt.measured.clone(),
        tried: history.tried(),
        memory,
        trials: Vec::new(),
    };
    let from = TuneStart::new(run, attempt.number, &basis.measured);
    Ok((request, basis, Some(from)))
}
