//! `oomctl run --after-gpu`: many programs, each as soon as a GPU is free for it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::cli::launch::begin::{Ran, ReadyProgram};
use crate::cli::launch::launching::{Options, signals, visible};
use crate::cli::session::Session;
use crate::core::exit::Exit;
use crate::core::launch::commands;
use crate::drive::launch::{Queued, queue};
use crate::io::files::read_text;
use crate::io::program::{Ears, Outputs};
use crate::view::launch_view::Teller;
use crate::view::queue_view::{QueueView, QueuedProgram};
use crate::view::{CommandFailure, print};

/// Largest list of commands that is read.
const MAX_LIST: u64 = 16 << 20;

/// The commands of a list: of a file, or of standard input.
pub fn list(file: Option<&Path>) -> Result<Vec<Vec<String>>, CommandFailure> {
    let text = match file {
        Some(path) if path != Path::new("-") => read_text(path, MAX_LIST)?,
        _ => {
            let mut text = String::new();
            let read = io::stdin().take(MAX_LIST + 1).read_to_string(&mut text);
            read.map_err(|e| CommandFailure::usage(format!("cannot read standard input: {e}")))?;
            if u64::try_from(text.len()).unwrap_or(u64::MAX) > MAX_LIST {
                let what = format!("standard input has more than {MAX_LIST} bytes");
                return Err(CommandFailure::usage(what).hint("split the list"));
            }
            text
        }
    };
    let place = file.map_or("standard input".to_owned(), |f| f.display().to_string());
    commands(&text).map_err(|refusal| {
        let what: Vec<String> = refusal.0.into_iter().map(|p| p.what).collect();
        CommandFailure::usage(format!("{place}: {}", what.join("; ")))
            .hint("one command a line, its words as a shell splits them")
    })
}

/// Runs the commands; the output of each lies in the folder of its run.
pub fn run(
    options: &Options,
    session: &Session,
    list: &[Vec<String>],
    json: bool,
) -> Result<Exit, CommandFailure> {
    let shelves = options.shelves(session)?;
    let memory = options.memory(session);
    let requests = list.iter();
    let requests = requests.map(|c| options.request(session, &shelves, c.clone()));
    let requests: Vec<_> = requests.collect::<Result<_, _>>()?;
    let ears = signals()?;
    let entries = requests.into_iter().enumerate();
    let entries = entries.map(|(at, (request, remarks))| {
        let teller = Teller::new(Some(at + 1)).telling(&remarks);
        let program = ReadyProgram {
            session,
            request,
            memory: memory.as_ref(),
            ears: ears.clone(),
            listener: Arc::new(Mutex::new(teller)),
            outputs: Box::new(outputs),
        };
        Ok(Queued {
            wish: program.wish()?,
            listener: Arc::clone(&program.listener),
            run: Box::new(|machine, place| program.run(machine, place)),
        })
    });
    let entries = entries.collect::<Result<Vec<_>, CommandFailure>>()?;
    let results = queue(entries, visible().as_deref(), &ears).into_iter();
    let programs = results.zip(list).enumerate();
    let programs = programs.map(|(at, (result, command))| {
        let result = result.map(|done| done.map_err(CommandFailure::from).flatten());
        program(at + 1, command, result, &ears)
    });
    let view = QueueView::new(programs.collect());
    view.tell();
    if json {
        print::json(&view)?;
    }
    Ok(view.exit_code)
}

fn program(
    number: usize,
    command: &[String],
    result: Option<Result<Ran, CommandFailure>>,
    ears: &Ears,
) -> QueuedProgram {
    let (exit_code, error, summary) = match result {
        Some(Ok(ran)) => (
            Exit::from(ran.summary.exit_code.code()),
            ran.failure.map(|failure| failure.sentence()),
            Some(ran.summary),
        ),
        Some(Err(failure)) => (failure.exit(), Some(failure.sentence()), None),
        None => {
            let exit = ears.ending().map_or(Exit::Failed, Exit::Signal);
            (exit, Some("not begun".to_owned()), None)
        }
    };
    QueuedProgram {
        number,
        command: command.to_vec(),
        log: summary.as_ref().map(|s| log(&s.folder)),
        exit_code,
        error,
        summary,
    }
}

fn log(folder: &Path) -> PathBuf {
    folder.join("output.log")
}

/// Both streams of a program go to one log, in the order in which they come. Where that cannot be opened they come here.
fn outputs(folder: &Path) -> Box<dyn Fn() -> Outputs + Send> {
    let log = log(folder);
    Box::new(move || {
        let mut options = OpenOptions::new();
        let opened = options.append(true).create(true).open(&log).ok();
        let copy = |log: &Option<File>| -> Box<dyn Write + Send> {
            match log.as_ref().and_then(|log| log.try_clone().ok()) {
                Some(log) => Box::new(log),
                None => Box::new(io::stderr()),
            }
        };
        Outputs {
            out: copy(&opened),
            err: copy(&opened),
        }
    })
}
