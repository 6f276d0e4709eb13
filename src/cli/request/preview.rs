//! The files that would be submitted, before there is a run.

use crate::core::recipe::Layer;
use crate::core::render::{AttemptPlace, RenderedFile};
use crate::core::request::Request;
use crate::io::sampler::program;
use crate::view::files_view::FilesView;
use crate::view::{CommandFailure, print};

/// The files of a run's first attempt.
pub fn first(request: &Request) -> Result<Vec<RenderedFile>, CommandFailure> {
    let inputs = request.inputs();
    let begins = request.resumption(&[], None, 1);
    let begins: Vec<Layer> = begins.and_then(|found| found.layer).into_iter().collect();
    Ok(request.render(&begins, &place(&inputs.project, &inputs.backend))?)
}

/// The place of a first attempt in a run that does not exist.
pub fn place(project: &str, backend: &str) -> AttemptPlace {
    AttemptPlace {
        program: program(),
        ..AttemptPlace::anywhere(project, backend)
    }
}

/// The files one after the other, each under its name.
pub fn text(files: &[RenderedFile]) -> String {
    let mut text = String::new();
    for file in files {
        let role = if file.entry { " (submitted)" } else { "" };
        text.push_str(&format!("#### {}{role}\n{}\n", file.name, file.text));
    }
    text
}

/// Prints the files as text, whose lines stay whole, or as JSON.
pub fn show(files: &[RenderedFile], json: bool) -> Result<(), CommandFailure> {
    match json {
        true => print::json(&FilesView::new(files)),
        false => print::data(&text(files)),
    }
}
