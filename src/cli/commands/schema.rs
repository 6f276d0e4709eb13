//! `oomctl schema`: JSON Schemas of the files that people write, for their editors.

use crate::cli::request::document;
use crate::cli::session::Session;
use crate::core::exit::Exit;
use crate::view::{Failure, print};

/// Arguments of `schema`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which file it describes
    #[arg(value_enum, default_value = "project")]
    kind: document::Kind,
    /// Write the schemas of all kinds below .oomctl/schema/ of the project, where the first line of
    /// oomctl.yaml lets editors look
    #[arg(long, conflicts_with = "kind")]
    write: bool,
}

/// Runs `oomctl schema`.
pub fn run(args: &Args) -> Result<Exit, Failure> {
    let session = Session::open(None)?;
    if !args.write {
        print::json(&document::of(args.kind, &session.library)?)?;
        return Ok(Exit::Success);
    }
    document::write(&session.folder, &session.library)?;
    print::data(&session.folder.join(document::FOLDER).display().to_string())?;
    Ok(Exit::Success)
}
