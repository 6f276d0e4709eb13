//! What a run begins with: its own checkpoints, or one that it is given.

use std::path::{Path, PathBuf};

use crate::cli::runs::Runs;
use crate::core::request::Request;
use crate::io::checkpoints;
use crate::view::{CommandFailure, print};
use oomctl_base::{Origin, Role};

/// The request that begins with a checkpoint: this folder, or the newest one of the run of this name.
pub fn resuming_from(
    runs: &Runs,
    request: Request,
    wanted: &Path,
) -> Result<Request, CommandFailure> {
    let refused = |why: String| CommandFailure::configuration(format!("--resume-from: {why}"));
    let shown = wanted.display();
    let folder = match (wanted.canonicalize(), wanted.to_str()) {
        (Ok(folder), _) if folder.is_dir() => folder,
        (Ok(_), _) => return Err(refused(format!("{shown} is not a folder"))),
        (Err(_), Some(run)) if runs.names()?.iter().any(|name| name == run) => {
            newest_of(runs, run)?
        }
        (Err(error), _) => {
            return Err(refused(format!("{shown}: {error}"))
                .hint("name the folder of a checkpoint, or a run (`oomctl status` lists them)"));
        }
    };
    let folder = folder
        .to_str()
        .ok_or_else(|| refused(format!("{shown} is not UTF-8")))?;
    request
        .resuming_from(folder)
        .map_err(|problem| refused(problem.to_string()))
}

/// The newest checkpoint of a run, as an absolute folder.
fn newest_of(runs: &Runs, run: &str) -> Result<PathBuf, CommandFailure> {
    let stored = runs.open(run)?;
    let request = stored.request()?;
    let listing = request.shelf(&stored.history.rungs()).map(|shelf| {
        checkpoints::list(Path::new(&request.inputs().workdir), &shelf)
            .map_err(|unlisted| CommandFailure::configuration(unlisted.to_string()))
    });
    let listing = listing.transpose()?.flatten();
    let newest = listing.and_then(|l| Some(Path::new(&l.folder).join(request.newest(&l)?)));
    newest.ok_or_else(|| {
        CommandFailure::configuration(format!("--resume-from: {run} has no checkpoint"))
    })
}

/// A new run has no checkpoints yet: what lies in its folder is another run's, and the program would train on from that.
pub fn is_its_own(request: &Request) -> Result<(), CommandFailure> {
    let inputs = request.inputs();
    if inputs.adopts.is_some() || inputs.resume_from.is_some() {
        return Ok(());
    }
    let Some(shelf) = request.shelf(&[]) else {
        return Ok(());
    };
    let listing = checkpoints::list(Path::new(&inputs.workdir), &shelf).map_err(|unlisted| {
        CommandFailure::configuration(unlisted.to_string())
            .hint("they may belong to another run, and this run would resume from them; give it its own folder, or `--resume-from FOLDER`")
    })?;
    let Some(listing) = listing else {
        return Ok(());
    };
    let Some(newest) = request.newest(&listing) else {
        return Ok(());
    };
    let folder = listing.folder;
    let what = format!("{folder} holds checkpoints of another run; the newest is {newest}");
    Err(CommandFailure::configuration(what).hint(format!(
        "`--resume-from {folder}/{newest}` resumes from it; to start fresh, give this run another folder for checkpoints"
    )))
}

/// Warns where no checkpoint is ever written.
pub fn tell(request: &Request) {
    let preset = request.preset();
    if preset.checkpoint.is_none() || request.inputs().probe.is_some() || request.resumes(&[]) {
        return;
    }
    // What breaks a rule is told by whoever needs the configuration.
    let Ok(shape) = request.shape(&[]) else {
        return;
    };
    let Some(knob) = preset.with_role(Role::CheckpointInterval).next() else {
        return;
    };
    let (name, recipe) = (&knob.name, shape.recipe());
    let value = recipe.value(name);
    let origin = recipe.values.get(name).map(|known| &known.origin);
    // Where a script gives a value, `--set` is refused.
    let fix = match (&request.inputs().scripts, origin) {
        (None, _) => format!("--set {name}=N"),
        (Some(_), Some(Origin::File { path, line, .. })) => format!("change {path}:{line}"),
        (Some(_), _) => format!("set {name} in the script"),
    };
    print::talk(&format!(
        "warning: no checkpoints ({name}={value}): every retry restarts from step 0. Fix: {fix}"
    ));
}
