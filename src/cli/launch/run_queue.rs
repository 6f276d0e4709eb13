//! `oomctl run --after-gpu`: many programs, each as soon as a GPU is free for it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::cli::launch::launching::{Options, signals, visible};
use crate::cli::session::Session;
use crate::core::exit::Exit;
use crate::core::launch::{Launch, commands};
use crate::drive::launch::{LaunchError, LaunchJob, QueueEntry, Summary, queue};
use crate::io::files::{make_private_dir, read_text};
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

/// Runs the commands; the records and the output of each are below `folder`.
pub fn run(
    options: &Options,
    session: &Session,
    list: &[Vec<String>],
    folder: &Path,
    json: bool,
) -> Result<Exit, CommandFailure> {
    let shelves = options.shelves(session)?;
    let launches = list
        .iter()
        .map(|c| options.launch(session, &shelves, c.clone()));
    let launches: Vec<Launch> = launches.collect::<Result<_, _>>()?;
    let ears = signals()?;
    let folders: Vec<PathBuf> = (1..=list.len())
        .map(|n| folder.join(n.to_string()))
        .collect();
    let outputs: Vec<_> = folders.iter().map(|f| || outputs(f)).collect();
    let entries = launches.iter().zip(&outputs).enumerate();
    let entries = entries.map(|(at, (launch, outputs))| QueueEntry {
        job: LaunchJob {
            launch,
            outputs,
            records: Some(folders[at].clone()),
            ears: &ears,
        },
        listener: Box::new(Teller::new(Some(at + 1)).telling(launch.remarks())),
    });
    let results = queue(entries.collect(), visible().as_deref(), &ears);
    let programs = results.into_iter().zip(list.iter().zip(&folders));
    let programs = programs
        .enumerate()
        .map(|(at, (result, (command, folder)))| {
            program(at + 1, command, log(folder), result, &ears)
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
    log: PathBuf,
    result: Option<Result<Summary, LaunchError>>,
    ears: &Ears,
) -> QueuedProgram {
    let (exit_code, error, summary) = match result {
        Some(Ok(summary)) => (summary.exit_code.into(), None, Some(summary)),
        Some(Err(error)) => {
            let text = error.to_string();
            (CommandFailure::from(error).exit(), Some(text), None)
        }
        None => {
            let exit = ears.ending().map_or(Exit::Failed, Exit::Signal);
            (exit, Some("not begun".to_owned()), None)
        }
    };
    QueuedProgram {
        number,
        command: command.to_vec(),
        log,
        exit_code,
        error,
        summary,
    }
}

fn log(folder: &Path) -> PathBuf {
    folder.join("output.log")
}

/// Both streams of a program go to its log, in the order in which they come. Where that cannot be opened
/// they come here.
fn outputs(folder: &Path) -> Outputs {
    let opened = make_private_dir(folder).ok().and_then(|()| {
        let mut options = OpenOptions::new();
        options.append(true).create(true).open(log(folder)).ok()
    });
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
}
