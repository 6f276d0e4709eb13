//! What a script leaves open for an estimate, with the sizes of a type of GPU that has several.

use std::path::Path;

use crate::cli::request::known::{LookupTables, gpu_sizes};
use crate::core::request::{Request, UnreadKnob};
use crate::io::library::Library;
use oomctl_memory::GPU_MEMORY;

/// What the memory model needs and nobody says; of a type of GPU that has several sizes, all of them.
pub fn unread(library: &Library, request: &Request) -> Vec<UnreadKnob> {
    let mut all = request.unread();
    let Ok(recipe) = request.recipe(&[]) else {
        return all;
    };
    let workdir = Path::new(&request.inputs().workdir);
    let known = LookupTables::new(library, workdir);
    let sizes = gpu_sizes(request, &recipe, &known);
    if let Some((named, sizes)) = sizes.filter(|(_, sizes)| !sizes.is_empty()) {
        let open = all.iter_mut().filter(|u| u.knob == GPU_MEMORY);
        open.for_each(|u| u.takes = format!("{} ({named} has either)", sizes.join("|")));
    }
    all
}
