//! `oomctl render`: the exact files that would be submitted, and nothing else.

use std::path::PathBuf;

use crate::cli::args::Configuration;
use crate::cli::request::{learned, preview, yaml_lint};
use crate::cli::session::Session;
use crate::core::exit::Exit;
use crate::core::render::RenderedFile;
use crate::io::files::{Access, make_private_dir, write_to};
use crate::view::{CommandFailure, print};

/// Arguments of `render`.
#[derive(Debug, clap::Args)]
pub struct RenderArgs {
    #[command(flatten)]
    configuration: Configuration,
    /// Write the files into this folder instead of printing them
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Print one JSON document
    #[arg(short, long)]
    json: bool,
}

/// Runs `oomctl render`.
pub fn run(args: &RenderArgs) -> Result<Exit, CommandFailure> {
    let session = Session::open(args.configuration.config.as_deref())?.printing(args.json);
    let (request, start) = session.request(&args.configuration, "render", &[])?;
    learned::tell(start.as_ref());
    yaml_lint::tell(&request);
    let files = preview::first(&request)?;
    match &args.to {
        Some(folder) => write(folder, &files)?,
        None => preview::show(&files, args.json)?,
    }
    Ok(Exit::Success)
}

fn write(folder: &std::path::Path, files: &[RenderedFile]) -> Result<(), CommandFailure> {
    make_private_dir(folder)?;
    for file in files {
        let path = folder.join(&file.name);
        write_to(&path, file.text.as_bytes(), Access::PrivateScript)?;
        print::data(&path.display().to_string())?;
    }
    Ok(())
}
