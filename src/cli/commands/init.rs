//! `oomctl init`: a project file to begin with, from what lies here or from answers.

use std::path::{Path, PathBuf};

use crate::cli::init::answers::Answers;
use crate::cli::init::draft::Draft;
use crate::cli::init::next::{next, word};
use crate::cli::init::starter::Starter;
use crate::cli::init::surroundings::Surroundings;
use crate::cli::init::{asking, cluster, starter};
use crate::cli::schema;
use crate::cli::session::PROJECT_FILE;
use crate::core::exit::Exit;
use crate::io::files::{Access, share_with_group, write_to};
use crate::io::library::Library;
use crate::view::{CommandFailure, print};

/// Arguments of `init`.
#[derive(Debug, clap::Args)]
pub struct InitArgs {
    /// Folder to write into
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// Ask for the values of the file one by one
    #[arg(long)]
    interactive: bool,
    /// Write a file for this preset, with the values of --set
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// Give a knob a value in it (repeatable)
    #[arg(long = "set", value_name = "KNOB=VALUE", requires = "preset")]
    set: Vec<String>,
    /// Write a cluster profile from sinfo, scontrol and sacctmgr instead [default name: the cluster's]
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "", conflicts_with_all = ["interactive", "preset"])]
    cluster: Option<String>,
    /// Let your group read the project's runs: `status`, `logs` and `report` then work for lab mates
    #[arg(long)]
    group: bool,
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
    if args.group && path.exists() && !args.force && !args.interactive {
        return share(&args.folder);
    }
    if path.exists() && !args.force && !args.interactive {
        let what = format!("{} already exists", path.display());
        return Err(CommandFailure::configuration(what).hint("`oomctl init --force` replaces it"));
    }
    let starter = match &args.preset {
        _ if args.interactive => {
            let asks_first = path.exists() && !args.force;
            let starter = asking::answered(&args.folder, args.preset.as_deref(), &args.set)?;
            if let Some(text) = &starter.text
                && !asking::wanted(&path, text, asks_first)?
            {
                print::talk("nothing was written");
                return Ok(Exit::Success);
            }
            starter
        }
        Some(preset) => {
            let draft = Draft::new(&args.folder, preset, &args.set)?;
            Starter::file(match draft.missing()?.is_empty() {
                true => draft.checked()?,
                false => draft.text()?,
            })
        }
        None => looked_around(&args.folder)?,
    };
    write(args, &starter)?;
    Answers::forget(&args.folder);
    print::talk(&next(&args.folder, &starter));
    Ok(Exit::Success)
}

/// Writes the files, and names them.
fn write(args: &InitArgs, starter: &Starter) -> Result<(), CommandFailure> {
    let path = args.folder.join(PROJECT_FILE);
    if let Some(text) = &starter.text {
        schema::write(&args.folder, &Library::new(Some(&args.folder)))?;
        let written = format!("{}{text}", schema::FIRST_LINE);
        write_to(&path, written.as_bytes(), Access::Shared)?;
    } else {
        std::fs::create_dir_all(&args.folder).map_err(|e| {
            CommandFailure::configuration(format!("cannot create {}: {e}", args.folder.display()))
        })?;
    }
    if args.group || args.interactive && asking::group_reads()? {
        share(&args.folder)?;
    }
    for (name, text) in &starter.files {
        let path = args.folder.join(name);
        write_to(&path, text.as_bytes(), Access::Shared)?;
        print::data(&path.display().to_string())?;
    }
    match starter.text {
        Some(_) => print::data(&path.display().to_string()),
        None => Ok(()),
    }
}

/// A file from what lies here, and the job script that it is for.
fn looked_around(folder: &Path) -> Result<Starter, CommandFailure> {
    let found = Surroundings::of(folder);
    print::talk("found:");
    let library = Library::new(Some(folder));
    starter::tell(&found, &library)?;
    if let Some(script) = found.scripts.first() {
        print::talk(&format!(
            "{script} is a job script: `oomctl submit -w {}` runs it as it is; what oomctl.yaml adds is optional",
            word(script)
        ));
    }
    starter::starter(folder, &found, &library)
}

/// Lets the group read the runs.
fn share(folder: &Path) -> Result<Exit, CommandFailure> {
    share_with_group(folder)?;
    let runs = folder.join(".oomctl/runs");
    print::talk(&format!(
        "the group of this folder may read new runs; for older ones: chmod -R g+rX {}",
        runs.display()
    ));
    Ok(Exit::Success)
}
