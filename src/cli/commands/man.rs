//! `oomctl man`: manual pages, one for each command.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::cli::{Cli, examples};
use crate::core::exit::Exit;
use crate::io::files::{Access, write_to};
use crate::view::{CommandFailure, print};

/// Arguments of `man`.
#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// Folder to write the pages into, such as ~/.local/share/man/man1
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// Runs `oomctl man`.
pub fn run(args: &ManArgs) -> Result<Exit, CommandFailure> {
    let cannot = |e| {
        let what = format!("cannot create {}: {e}", args.out.display());
        CommandFailure::configuration(what)
            .hint("give a folder that you can write, such as ~/.local/share/man/man1")
    };
    std::fs::create_dir_all(&args.out).map_err(cannot)?;
    let mut program = examples::added(Cli::command()).disable_help_subcommand(true);
    program.build();
    write(&program, &args.out)?;
    print::data(&args.out.display().to_string())?;
    Ok(Exit::Success)
}

/// The page of a command and those of the commands below it.
fn write(command: &Command, folder: &Path) -> Result<(), CommandFailure> {
    for below in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        write(below, folder)?;
    }
    let page = Man::new(command.clone()).manual("oomctl");
    let mut text = Vec::new();
    page.render(&mut text)
        .with_context(|| format!("cannot write {}", page.get_filename()))?;
    write_to(&folder.join(page.get_filename()), &text, Access::Shared)?;
    Ok(())
}
