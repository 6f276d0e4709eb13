//! What a run begins with: its own checkpoints, or one that it is given.

use std::path::Path;

use super::print::{self, Failure};
use crate::core::recipe::Role;
use crate::core::supervise::{Intent, Request};
use crate::io::checkpoints;

/// The request that begins with this checkpoint.
pub fn resuming_from(request: Request, folder: &Path) -> Result<Request, Failure> {
    let refused = |why: String| Failure::new(5, format!("--resume-from: {why}"));
    let name = folder.display();
    let absolute = folder
        .canonicalize()
        .map_err(|error| refused(format!("{name}: {error}")))?;
    if !absolute.is_dir() {
        return Err(refused(format!("{name} is no folder")));
    }
    let absolute = absolute
        .to_str()
        .ok_or_else(|| refused(format!("{name} is not UTF-8")))?;
    request
        .resuming_from(absolute)
        .map_err(|problem| refused(problem.to_string()))
}

/// A new run has no checkpoints yet: what lies in its folder is another run's, and the program would train on from that.
pub fn is_its_own(request: &Request) -> Result<(), Failure> {
    let inputs = request.inputs();
    if inputs.adopts.is_some() || inputs.resume_from.is_some() {
        return Ok(());
    }
    let shelf = request.shelf(&[]);
    let listing = shelf.and_then(|shelf| checkpoints::list(Path::new(&inputs.workdir), &shelf));
    let Some(listing) = listing else {
        return Ok(());
    };
    let Some(newest) = request.newest(&listing) else {
        return Ok(());
    };
    let folder = listing.folder;
    let what = format!("{folder} holds checkpoints of another run; the newest is {newest}");
    Err(Failure::new(5, what).hint(format!(
        "`--resume-from {folder}/{newest}` goes on from it; to begin anew, give this run another folder for checkpoints"
    )))
}

/// Warns where no checkpoint is ever written.
pub fn tell(request: &Request) {
    let preset = request.preset();
    if preset.checkpoint.is_none() || request.is_probe() || request.resumes(&[]) {
        return;
    }
    // What breaks a rule is told by whoever needs the configuration.
    let Ok(shape) = request.shape(&[]) else {
        return;
    };
    let Some(knob) = preset.with_role(Role::CheckpointInterval).next() else {
        return;
    };
    let name = &knob.name;
    print::talk(&format!(
        "{name} is {}: no checkpoint is written, and whatever ends an attempt, the next begins at step 0 (--set {name}=N)",
        shape.recipe().value(name)
    ));
}
