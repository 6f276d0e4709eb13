//! A script whose memory is to be estimated.

use std::path::Path;

use super::submit::{ScriptCommandLine, planned};
use crate::cli::args::Configuration;
use crate::cli::request::known::LookupTables;
use crate::cli::session::Session;
use crate::core::request::{Request, UnreadKnob};
use crate::io::library::Library;
use crate::view::CommandFailure;
use oomctl_base::Role;
use oomctl_memory::{Capacity, GPU_MEMORY};

/// The request of a script. What it leaves open and the memory model needs is asked for.
pub fn estimated(
    session: &Session,
    flags: &Configuration,
    sbatch: &[String],
    words: &[String],
) -> Result<Request, CommandFailure> {
    let request = planned(
        session,
        &ScriptCommandLine {
            flags,
            run: None,
            sbatch,
            words,
            logs: &[],
        },
    )?;
    let unread = unread(&session.library, &request);
    if unread.iter().all(|u| !u.needed) {
        return Ok(request);
    }
    let open: String = unread.iter().map(|u| format!("\n{}", u.line())).collect();
    let what = format!("the script leaves open what an estimate needs. Add before SCRIPT:{open}");
    Err(CommandFailure::configuration(what))
}

/// What the memory model needs and nobody says; of a type of GPU that has several sizes, all of them.
pub fn unread(library: &Library, request: &Request) -> Vec<UnreadKnob> {
    let mut all = request.unread();
    let knob = request.preset().with_role(Role::GpuType).next();
    let recipe = request.recipe(&[]);
    let (Some(knob), Ok(recipe)) = (knob, recipe) else {
        return all;
    };
    let workdir = Path::new(&request.inputs().workdir);
    let known = LookupTables::new(library, workdir);
    let named = recipe.value(&knob.name).to_string();
    if let Ok(Some((Capacity::Several(sizes), _))) = known.gpu(&named) {
        let open = all.iter_mut().filter(|u| u.knob == GPU_MEMORY);
        open.for_each(|u| u.takes = format!("{} ({named} has either)", sizes.join("|")));
    }
    all
}
