//! What a script leaves open for an estimate, with the sizes of a type of GPU that has several.

use std::path::Path;

use crate::cli::request::known::LookupTables;
use crate::core::request::{Request, UnreadKnob};
use crate::io::library::Library;
use oomctl_base::Role;
use oomctl_memory::{Capacity, GPU_MEMORY};

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
