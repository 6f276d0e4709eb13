//! `oomctl adopt`: what is understood of a job script of the user's own, and the patch that a rung would be.

use std::path::{Path, PathBuf};

use crate::cli::script::{Read, Shelves, version_of};
use crate::cli::session::Session;
use crate::core::adopt::{FirstPatch, ScriptJob};
use crate::core::exit::Exit;
use crate::io::environment::variables;
use crate::io::files::read_text;
use crate::io::library::Library;
use crate::view::{CommandFailure, adopt_view, print};
use oomctl_base::{Problem, Value, meant};
use oomctl_scripts::{Adoption, Submission};

/// Largest file of a job that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Arguments of `adopt`.
#[derive(Debug, clap::Args)]
pub struct AdoptArgs {
    /// Preset; by default the one that the script's program is recognised by
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// Option that sbatch is given, such as --sbatch=--mem=64G (repeatable)
    #[arg(long = "sbatch", value_name = "OPT", allow_hyphen_values = true)]
    sbatch: Vec<String>,
    /// Show the patch for this value instead of the first rung's (repeatable)
    #[arg(long = "set", value_name = "KNOB=VALUE")]
    set: Vec<String>,
    /// Print one JSON document
    #[arg(short, long)]
    json: bool,
    /// The script and its arguments, as on sbatch's command line
    #[arg(required = true, trailing_var_arg = true)]
    script: Vec<String>,
}

/// Runs `oomctl adopt`.
pub fn run(args: &AdoptArgs) -> Result<Exit, CommandFailure> {
    let library = Session::open(None)?.library;
    let shelves = Shelves::of(&library, args.preset.as_deref())?;
    let (script, rest) = args
        .script
        .split_first()
        .ok_or_else(|| CommandFailure::quiet(Exit::Usage))?;
    let submission = Submission {
        options: args.sbatch.clone(),
        script: script.clone(),
        args: rest.to_vec(),
        variables: variables(),
    };
    let text = read_text(Path::new(script), MAX_FILE)?;
    let read = Read::new(submission, text, PathBuf::from("."), &shelves);
    show(args, &library, &read, &shelves)
}

fn show(
    args: &AdoptArgs,
    library: &Library,
    read: &Read,
    shelves: &Shelves,
) -> Result<Exit, CommandFailure> {
    let adoption = &read.adoption(shelves);
    let (own, version) = match shelves.preset(adoption) {
        Some(file) => {
            let (told, sets) = (
                version_of(file, adoption, read),
                Shelves::sets(library, file)?,
            );
            let own = ScriptJob::new(file.clone(), sets, told.version().as_deref(), adoption)?;
            (Some(own), told.describe(file))
        }
        None => (None, None),
    };
    let wishes = args.set.iter().map(|text| wish(adoption, text));
    let wishes = wishes.collect::<Result<Vec<_>, CommandFailure>>()?;
    let first = match &own {
        _ if !wishes.is_empty() => FirstPatch::of_values(adoption, &wishes),
        Some(own) => FirstPatch::of_rung(own, adoption),
        None => FirstPatch::default(),
    };
    let doubts = own.as_ref().map_or(&[][..], ScriptJob::doubts);
    let view = adopt_view::view(adoption, version, doubts, first);
    print::show(args.json, &view, |view| view.text())?;
    Ok(Exit::Success)
}

fn wish<'t>(adoption: &Adoption<'_>, text: &'t str) -> Result<(&'t str, Value), CommandFailure> {
    let (name, value) = text.split_once('=').ok_or_else(|| {
        Problem::new(format!("`--set {text}` is not KNOB=VALUE")).hint("write --set NAME=VALUE")
    })?;
    let knob = adoption.stack.and_then(|s| s.knob(name));
    let knob = knob.ok_or_else(|| {
        let names = adoption.stack.iter().flat_map(|s| &s.knobs);
        let question = meant(name, names.map(|k| k.name.as_str()));
        let all = || "`oomctl adopt` without --set lists what it has".to_owned();
        Problem::new(format!("the program has no knob named {name}"))
            .hint(question.unwrap_or_else(all))
    })?;
    let value = knob.kind.parse(value).map_err(|what| {
        let problem = Problem::new(format!("{name}: {what}"));
        problem.hint(format!("give it {}", knob.kind.noun()))
    })?;
    Ok((name, value))
}
