//! `oomctl schema`: JSON Schemas of the files that people write and of the documents that commands print.

mod outputs;

use clap::ValueEnum;
use clap::builder::PossibleValuesParser;

use crate::cli::schema::{self, SchemaKind};
use crate::cli::session::Session;
use crate::core::exit::Exit;
use crate::view::{CommandFailure, print};
use outputs::Output;

/// Arguments of `schema`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct SchemaArgs {
    /// A file that you write; with --output, a command
    #[arg(value_name = "FILE|COMMAND", default_value = "project", value_parser = names(), hide_possible_values = true)]
    of: String,
    /// Describe what the command prints with --json
    #[arg(long, requires = "of")]
    output: bool,
    /// Write the schemas of all files below .oomctl/schema/ of the project, where the first line of
    /// oomctl.yaml lets editors look
    #[arg(long, conflicts_with_all = ["of", "output"])]
    write: bool,
}

const EXAMPLES: &str = "\
Files: project, preset, knob-set, cluster, dataset, memory, signatures, site
Commands: all that have --json

Examples:
  oomctl schema project                  oomctl.yaml, for an editor
  oomctl schema status --output          what `oomctl status --json` prints";

fn names() -> PossibleValuesParser {
    let files = SchemaKind::value_variants().iter();
    let commands = Output::value_variants().iter();
    let values = files.filter_map(ValueEnum::to_possible_value);
    values
        .chain(commands.filter_map(ValueEnum::to_possible_value))
        .into()
}

/// Runs `oomctl schema`.
pub fn run(args: &SchemaArgs) -> Result<Exit, CommandFailure> {
    let (of, session) = (&args.of, Session::open(None)?);
    if args.write {
        schema::write(&session.folder, &session.library)?;
        print::data(&session.folder.join(schema::FOLDER).display().to_string())?;
        return Ok(Exit::Success);
    }
    let document = match (SchemaKind::from_str(of, false), Output::from_str(of, false)) {
        (Ok(_), _) if args.output => {
            let what = format!("{of} is a file, and --output describes what a command prints");
            return Err(CommandFailure::usage(what).hint(format!("oomctl schema {of}")));
        }
        (_, Ok(_)) if !args.output => {
            let what = format!("{of} is a command, not a file");
            let hint = format!("for what it prints with --json: oomctl schema {of} --output");
            return Err(CommandFailure::usage(what).hint(hint));
        }
        (Ok(file), _) => schema::of(file, &session.library)?,
        (_, Ok(command)) => command.schema(),
        (Err(what), _) => return Err(CommandFailure::usage(what)),
    };
    print::json(&document)?;
    Ok(Exit::Success)
}
