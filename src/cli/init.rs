//! `oomctl init`: a commented starter file.

use std::path::PathBuf;
use std::process::ExitCode;

use super::load::PROJECT_FILE;
use super::print::{self, Failure};
use crate::io::files::{Access, write_atomic};

/// The starter file; a test loads it.
pub const STARTER: &str = include_str!("../../templates/starter.yaml");

/// Arguments of `init`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder to write oomctl.yaml into
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

/// Runs `oomctl init`.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let path = args.folder.join(PROJECT_FILE);
    if path.exists() && !args.force {
        let what = format!("{} exists already", path.display());
        return Err(Failure::new(5, what).hint("`oomctl init --force` replaces it"));
    }
    write_atomic(&path, STARTER.as_bytes(), Access::Shared)?;
    print::data(&path.display().to_string())?;
    print::talk("next: edit it, then `oomctl plan` and `oomctl submit`");
    Ok(ExitCode::SUCCESS)
}
