//! `oomctl schema`: JSON Schemas of the files that people write, for their editors.

use crate::cli::schema;
use crate::cli::session::Session;
use crate::core::exit::Exit;
use crate::view::{CommandFailure, print};

/// Arguments of `schema`.
#[derive(Debug, clap::Args)]
pub struct SchemaArgs {
    /// Which file it describes
    #[arg(value_enum, default_value = "project")]
    kind: schema::SchemaKind,
    /// Write the schemas of all kinds below .oomctl/schema/ of the project, where the first line of
    /// oomctl.yaml lets editors look
    #[arg(long, conflicts_with = "kind")]
    write: bool,
}

/// Runs `oomctl schema`.
pub fn run(args: &SchemaArgs) -> Result<Exit, CommandFailure> {
    let session = Session::open(None)?;
    if !args.write {
        print::json(&schema::of(args.kind, &session.library)?)?;
        return Ok(Exit::Success);
    }
    schema::write(&session.folder, &session.library)?;
    print::data(&session.folder.join(schema::FOLDER).display().to_string())?;
    Ok(Exit::Success)
}
