//! The files of an attempt: rendered, with the recipe that they come from and the difference from the
//! attempt before.

use std::io::Read;
use std::path::Path;

use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::DriveError;
use super::folder::RunFolder;
use super::notice::{Notice, Observer};
use crate::core::adopt::ProgramLog;
use crate::core::engine::{AttemptEvent, ChangedFile, Run};
use crate::core::recipe::Layer;
use crate::core::render::{AttemptPlace, RenderedFile, diff};
use crate::io::checkpoints;
use crate::io::files::{Access, io_error, make_private_dir, read_text, replace, write_atomic};
use crate::io::program_logs;
use crate::io::sampler::program;
use crate::io::scheduler::SCRIPT_MAX;
use oomctl_base::Refusal;
use oomctl_base::job::Token;

/// Largest rendered file that is compared with its successor, in bytes.
const COMPARE_MAX: u64 = 4 * 1024 * 1024;

/// Writes the files of an attempt. Safe to repeat: until its intent is a fact the attempt does not
/// exist, and its folder is simply written again. `task` is its token where it is a task of a job array.
///
/// # Errors
/// When the folder cannot be written.
pub fn prepare(
    run: &Run,
    folder: &RunFolder,
    backend: &str,
    attempt: u32,
    task: Option<&Token>,
    observer: &mut dyn Observer,
) -> Result<(Vec<ChangedFile>, AttemptEvent), DriveError> {
    let dir = folder.attempt(attempt);
    make_private_dir(&dir)?;
    let place = AttemptPlace {
        run: run.history.run.clone(),
        number: attempt,
        token: match task {
            Some(token) => token.0.clone(),
            None => new_token(&run.history.run, attempt)?.0,
        },
        dir: text_of(&dir)?,
        workdir: text_of(run.request.workdir())?,
        backend: backend.to_owned(),
        program: program(),
    };
    let rungs = resuming(run, attempt, observer);
    match render(run, &rungs, &place) {
        Ok(rendered) => {
            let changed = changed(run, &rendered.files);
            let event = match changed.iter().find(|file| was_read_changed(run, file)) {
                Some(file) => AttemptEvent::PrepareRefused(other_values(&file.path)),
                None => write(folder, &place, &rendered, outputs_before(run))?,
            };
            Ok((changed, event))
        }
        Err(refusal) => Ok((
            Vec::new(),
            AttemptEvent::PrepareRefused(refusal.to_string()),
        )),
    }
}

/// The files of the user's scripts that are no longer what they were when the run was submitted. What the script writes
/// itself is not among them, nor what cannot be read now.
fn changed(run: &Run, rendered: &[RenderedFile]) -> Vec<ChangedFile> {
    let Some(scripts) = &run.request.inputs().scripts else {
        return Vec::new();
    };
    let workdir = run.request.workdir();
    let differs = |(path, text): &(&String, &String)| {
        read_text(&workdir.join(path), SCRIPT_MAX).is_ok_and(|now| now != **text)
    };
    let mut changed = scripts.files.iter().filter(differs).peekable();
    let adoption = changed.peek().and_then(|_| run.request.adoption());
    let made = |path: &str| {
        let mut created = adoption.iter().map(|a| &a.reading.created);
        created.any(|created| created.contains_key(path))
    };
    let changed = changed.filter(|(path, _)| !made(path));
    let changed = changed.map(|(path, _)| ChangedFile {
        path: path.clone(),
        copied: rendered.iter().any(|f| f.original.as_ref() == Some(path)),
    });
    changed.collect()
}

/// Seconds by which the clock of a file system may be behind or ahead.
const SKEW_S: i64 = 60;

/// Whether the first attempt may have read another text than the copy from when the run was submitted: it changed before that
/// attempt ended, or nobody knows when. The script itself is the scheduler's from its submission on.
fn was_read_changed(run: &Run, file: &ChangedFile) -> bool {
    let scripts = run.request.inputs().scripts.as_ref();
    if scripts.is_some_and(|scripts| scripts.script == file.path) {
        return false;
    }
    let path = run.request.workdir().join(&file.path);
    let written = std::fs::metadata(path).and_then(|m| m.modified()).ok();
    let written = written.and_then(|at| Timestamp::try_from(at).ok());
    let first = run.history.attempts.first();
    let ended = first.and_then(|attempt| attempt.ended_at);
    let later = |(written, ended): (Timestamp, Timestamp)| {
        written.as_second() > ended.as_second().saturating_add(SKEW_S)
    };
    file.copied && first.is_some() && !written.zip(ended).is_some_and(later)
}

fn other_values(path: &str) -> String {
    format!(
        "{path} changed while attempt 1 ran. Submit the script again, and leave {path} as it is; a file that the script itself writes with \
         `cat > FILE <<EOF` oomctl can read"
    )
}

/// What is written for an attempt.
struct Rendered {
    files: Vec<RenderedFile>,
    recipe: serde_json::Value,
    gpus: u64,
}

/// The rungs of an attempt, and above them what makes it go on from a checkpoint that it can load.
fn resuming(run: &Run, attempt: u32, observer: &mut dyn Observer) -> Vec<Layer> {
    let mut rungs = run.history.rungs();
    let shelf = run.request.shelf(&rungs);
    let mut tell = |text: &str| {
        observer.notice(&Notice::Checkpoint {
            run: &run.history.run,
            attempt,
            text,
        });
    };
    let listing = shelf.and_then(|shelf| {
        let listed = checkpoints::list(run.request.workdir(), &shelf);
        listed.unwrap_or_else(|unlisted| {
            tell(&unlisted.to_string());
            None
        })
    });
    let found = run.request.resumption(&rungs, listing.as_ref(), attempt);
    if let Some(found) = found {
        tell(&found.text);
        rungs.extend(found.layer);
    }
    rungs
}

fn render(run: &Run, rungs: &[Layer], place: &AttemptPlace) -> Result<Rendered, Refusal> {
    Ok(Rendered {
        recipe: run.request.stored_recipe(rungs)?,
        gpus: run.request.resources(rungs)?.gpus,
        files: run.request.render(rungs, place)?,
    })
}

fn write(
    folder: &RunFolder,
    place: &AttemptPlace,
    rendered: &Rendered,
    outputs: Vec<ProgramLog>,
) -> Result<AttemptEvent, DriveError> {
    let attempt = place.number;
    let Some(entry) = rendered.files.iter().find(|f| f.entry) else {
        let why = "no rendered file is the script to submit";
        return Ok(AttemptEvent::PrepareRefused(why.to_owned()));
    };
    let dir = folder.attempt(attempt);
    for file in &rendered.files {
        if !is_plain_name(&file.name) {
            let name = file.name.escape_debug();
            let why = format!("`{name}` cannot be the name of a file");
            return Ok(AttemptEvent::PrepareRefused(why));
        }
        let text = file.text.as_bytes();
        write_atomic(&dir.join(&file.name), text, Access::PrivateScript)?;
    }
    // A diff that is itself a file of the attempt is not compared.
    let compared = |f: &&RenderedFile| !f.name.ends_with(".diff");
    let compared: Vec<RenderedFile> = rendered.files.iter().filter(compared).cloned().collect();
    let changes = match attempt {
        1 => String::new(),
        later => diff(&before(folder, later - 1, &compared), &compared),
    };
    let recipe = format!("{:#}\n", rendered.recipe);
    // For people alone: not worth waiting for the disk.
    replace(&dir.join("recipe.json"), recipe.as_bytes())?;
    replace(&dir.join("changes.diff"), changes.as_bytes())?;
    Ok(AttemptEvent::Prepared {
        token: Token(place.token.clone()),
        script: entry.name.clone(),
        script_sha256: sha256(entry.text.as_bytes()),
        gpus: rendered.gpus,
        outputs,
    })
}

/// The files into which the program of the next attempt prints, as they are before it.
fn outputs_before(run: &Run) -> Vec<ProgramLog> {
    program_logs::before(run.request.workdir(), &run.request.outputs())
}

/// A name that stays in its folder.
fn is_plain_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.chars().any(|c| c == '/' || c.is_control())
}

/// The files of the attempt before, as they lie on disk.
fn before(folder: &RunFolder, attempt: u32, names: &[RenderedFile]) -> Vec<RenderedFile> {
    let dir = folder.attempt(attempt);
    let read = |file: &RenderedFile| {
        Some(RenderedFile {
            name: file.name.clone(),
            text: read_text(&dir.join(&file.name), COMPARE_MAX).ok()?,
            entry: file.entry,
            original: None,
        })
    };
    names.iter().filter_map(read).collect()
}

/// A path as templates take it.
fn text_of(path: &Path) -> Result<String, DriveError> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        DriveError::unreadable(
            path.to_owned(),
            "its name is not UTF-8, and a script cannot name it",
        )
    })
}

/// SHA-256 in hex.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect()
}

/// `oomctl-<run>-<attempt>-<8 hex>`: the random part tells two attempts apart that were prepared by
/// two processes of which one was killed before it wrote the intent down.
///
/// # Errors
/// When the system has no random bytes.
pub fn new_token(run: &str, attempt: u32) -> Result<Token, DriveError> {
    let hex: String = random()?.iter().map(|b| format!("{b:02x}")).collect();
    Ok(Token(format!("oomctl-{run}-{attempt}-{hex}")))
}

fn random() -> Result<[u8; 4], DriveError> {
    #[cfg(test)]
    if let Some(random) = crate::io::trial::with(|t| t.random()) {
        return Ok(random);
    }
    let source = Path::new("/dev/urandom");
    let mut random = [0_u8; 4];
    std::fs::File::open(source)
        .and_then(|mut file| file.read_exact(&mut random))
        .map_err(io_error("read", source))?;
    Ok(random)
}
