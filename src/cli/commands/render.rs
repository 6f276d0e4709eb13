//! `oomctl render`: the exact files that would be submitted, and nothing else.

use std::path::PathBuf;

use serde::Serialize;

use crate::cli::args::Configuration;
use crate::cli::request::{learned, yaml_lint};
use crate::core::exit::Exit;
use crate::core::recipe::Layer;
use crate::core::render::{AttemptPlace, RenderedFile};
use crate::core::supervise::Request;
use crate::io::files::{Access, make_private_dir, write_to};
use crate::io::sampler::program;
use crate::view::{Failure, print};

/// Arguments of `render`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    configuration: Configuration,
    /// Write the files into this folder instead of printing them
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct View {
    schema_version: u32,
    files: Vec<FileView>,
}

#[derive(Serialize)]
struct FileView {
    name: String,
    entry: bool,
    text: String,
}

/// Runs `oomctl render`.
pub fn run(args: &Args) -> Result<Exit, Failure> {
    let (request, start) = learned::request(&args.configuration, "render")?;
    learned::tell(start.as_ref());
    yaml_lint::tell(&request);
    let files = first(&request)?;
    match &args.to {
        Some(folder) => write(folder, &files)?,
        None if args.json => print::json(&view(files))?,
        None => print::data(&text(&files))?,
    }
    Ok(Exit::Success)
}

/// The files of a run's first attempt.
pub fn first(request: &Request) -> Result<Vec<RenderedFile>, Failure> {
    let inputs = request.inputs();
    let begins = request.resumption(&[], None, 1);
    let begins: Vec<Layer> = begins.and_then(|found| found.layer).into_iter().collect();
    Ok(request.render(&begins, &preview(&inputs.project, &inputs.backend))?)
}

/// The place of a first attempt in a run that does not exist.
pub fn preview(project: &str, backend: &str) -> AttemptPlace {
    AttemptPlace {
        program: program(),
        ..AttemptPlace::anywhere(project, backend)
    }
}

fn view(files: Vec<RenderedFile>) -> View {
    View {
        schema_version: 1,
        files: files
            .into_iter()
            .map(|f| FileView {
                name: f.name,
                entry: f.entry,
                text: f.text,
            })
            .collect(),
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

fn write(folder: &std::path::Path, files: &[RenderedFile]) -> Result<(), Failure> {
    make_private_dir(folder)?;
    for file in files {
        let path = folder.join(&file.name);
        write_to(&path, file.text.as_bytes(), Access::PrivateScript)?;
        print::data(&path.display().to_string())?;
    }
    Ok(())
}
