//! `oomctl init`: a project file to begin with, commented, or from answers.

use std::path::PathBuf;

use crate::cli::init::{asking, cluster, draft};
use crate::cli::schema;
use crate::cli::session::PROJECT_FILE;
use crate::core::exit::Exit;
use crate::io::files::{Access, write_to};
use crate::io::library::Library;
use crate::view::{CommandFailure, print};
use draft::Draft;

/// The starter file; a test loads it.
pub const STARTER: &str = include_str!("../../../templates/starter.yaml");

/// Arguments of `init`.
#[derive(Debug, clap::Args)]
pub struct InitArgs {
    /// Folder to write oomctl.yaml into
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// Look at the GPUs of this machine, ask for preset, precision and batch, and write what was answered
    #[arg(long)]
    interactive: bool,
    /// Write a file for this preset instead of the commented one
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// Give a knob a value in it (repeatable)
    #[arg(long = "set", value_name = "KNOB=VALUE", requires = "preset")]
    set: Vec<String>,
    /// Write a cluster profile instead, from what sinfo, scontrol and sacctmgr say [default name: the cluster's]
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "", conflicts_with_all = ["interactive", "preset"])]
    cluster: Option<String>,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

/// Runs `oomctl init`.
pub fn run(args: &InitArgs) -> Result<Exit, CommandFailure> {
    if let Some(name) = &args.cluster {
        let path = cluster::write(&args.folder, name, args.force)?;
        print::data(&path.display().to_string())?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        print::talk(&format!(
            "next: look it over, then `cluster: {name}` in oomctl.yaml"
        ));
        return Ok(Exit::Success);
    }
    let path = args.folder.join(PROJECT_FILE);
    if path.exists() && !args.force && !args.interactive {
        let what = format!("{} already exists", path.display());
        return Err(CommandFailure::configuration(what).hint("`oomctl init --force` replaces it"));
    }
    let text = match &args.preset {
        _ if args.interactive => {
            let asks_first = path.exists() && !args.force;
            let text = asking::answered(&args.folder, args.preset.as_deref(), &args.set)?;
            if !asking::wanted(&path, &text, asks_first)? {
                print::talk("nothing was written");
                return Ok(Exit::Success);
            }
            text
        }
        Some(preset) => Draft::new(&args.folder, preset, &args.set)?.checked()?,
        None => STARTER.to_owned(),
    };
    let text = format!("{}{text}", schema::FIRST_LINE);
    schema::write(&args.folder, &Library::new(Some(&args.folder)))?;
    write_to(&path, text.as_bytes(), Access::Shared)?;
    print::data(&path.display().to_string())?;
    print::talk(match args.preset.is_some() || args.interactive {
        true => "next: `oomctl plan` and `oomctl submit`",
        false => "next: edit it, then `oomctl plan` and `oomctl submit`",
    });
    Ok(Exit::Success)
}
