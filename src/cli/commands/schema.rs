//! `oomctl schema`: JSON Schemas of the files that people write, for their editors.

use crate::cli::request::document;

use std::path::Path;

use clap::ValueEnum;

use crate::cli::request::load;
use crate::core::exit::Exit;
use crate::io::files::{Access, make_private_dir, write_atomic};
use crate::io::library::Library;
use crate::view::{Failure, print};

/// Where the schemas of a project lie, below its folder.
const FOLDER: &str = ".oomctl/schema";
/// First line of a project file, by which editors find its schema.
pub const FIRST_LINE: &str = "# yaml-language-server: $schema=.oomctl/schema/project.json\n";

/// Arguments of `schema`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which file it describes
    #[arg(value_enum, default_value = "project")]
    kind: Kind,
    /// Write the schemas of all kinds below .oomctl/schema/ of the project, where the first line of
    /// oomctl.yaml lets editors look
    #[arg(long, conflicts_with = "kind")]
    write: bool,
}

/// The files that have a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// oomctl.yaml
    Project,
    /// A preset, presets/NAME.yaml
    Preset,
    /// Knobs that presets share, presets/sets/NAME.yaml
    KnobSet,
    /// A cluster profile, presets/clusters/NAME.yaml
    Cluster,
    /// A dataset profile, presets/datasets/NAME.yaml
    Dataset,
    /// Constants of a training stack for the memory model, presets/memory/NAME.yaml
    Memory,
    /// The `signatures` of oomctl.yaml
    Signatures,
    /// The site's file ($OOMCTL_SITE_CONFIG) and the user's (~/.config/oomctl/config.yaml)
    Site,
}

/// Runs `oomctl schema`.
pub fn run(args: &Args) -> Result<Exit, Failure> {
    let project = load::project(None)?;
    if !args.write {
        print::json(&document::of(args.kind, &project.library)?)?;
        return Ok(Exit::Success);
    }
    write(&project.folder, &project.library)?;
    print::data(&project.folder.join(FOLDER).display().to_string())?;
    Ok(Exit::Success)
}

/// Writes the schemas of all kinds for the project in `folder`.
pub fn write(folder: &Path, library: &Library) -> Result<(), Failure> {
    let to = folder.join(FOLDER);
    make_private_dir(&to)?;
    for kind in Kind::value_variants() {
        let name = kind
            .to_possible_value()
            .map_or_else(String::new, |v| v.get_name().to_owned());
        let document = document::of(*kind, library)?;
        let text = format!("{document}\n");
        write_atomic(
            &to.join(format!("{name}.json")),
            text.as_bytes(),
            Access::Shared,
        )?;
    }
    Ok(())
}
