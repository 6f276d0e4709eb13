//! `oomctl adopt`: what is understood of a job script of the user's own, and the patch that a rung would be.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;

use super::load;
use super::print::{self, Failure, adopt_view};
use crate::core::adopt::Own;
use crate::core::config::{parse_data, parse_knob_set, parse_preset};
use crate::core::patch::{Adoption, Given, Launchers, Stack, Submission};
use crate::core::recipe::{KnobSetFile, PresetFile, Problem};
use crate::io::files::read_text;
use crate::io::library::{Library, Shelf};

/// Largest file of a job that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;
/// Files of a job that are read.
const MAX_FILES: usize = 64;

/// Arguments of `adopt`.
#[derive(Debug, clap::Args)]
pub struct Args {
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
    #[arg(long)]
    json: bool,
    /// The script, and what stands behind it on sbatch's command line, which is the script's
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    script: Vec<String>,
}

/// Runs `oomctl adopt`.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let library = load::project(None)?.library;
    let (presets, launchers) = (
        presets(&library, args.preset.as_deref())?,
        launchers(&library)?,
    );
    let stacks: Vec<Stack> = presets.iter().map(Stack::of).collect();
    let (script, rest) = args.script.split_first().ok_or_else(|| Failure::quiet(2))?;
    let submission = Submission {
        options: args.sbatch.clone(),
        script: script.clone(),
        args: rest.to_vec(),
        variables: std::env::vars_os()
            .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
            .collect(),
    };
    let mut files = BTreeMap::from([(script.clone(), read_text(Path::new(script), MAX_FILE)?)]);
    let mut asked = BTreeSet::new();
    loop {
        let given = Given {
            submission: &submission,
            files: &files,
            launchers: &launchers,
            stacks: &stacks,
        };
        let adoption = Adoption::read(given);
        let wanted = adoption.reading.wanted.clone();
        let new: Vec<String> = wanted
            .into_iter()
            .filter(|p| asked.insert(p.clone()))
            .collect();
        if new.is_empty() || asked.len() > MAX_FILES {
            return show(args, &library, &adoption, &presets);
        }
        for path in new {
            // What is not there or cannot be read is told among what is missing.
            if let Ok(text) = read_text(Path::new(&path), MAX_FILE) {
                files.insert(path, text);
            }
        }
    }
}

fn presets(library: &Library, only: Option<&str>) -> Result<Vec<PresetFile>, Failure> {
    let names = match only {
        Some(name) => vec![name.to_owned()],
        None => library.names(Shelf::Presets),
    };
    let read = |name: &String| {
        let source = library.get(Shelf::Presets, name)?;
        Ok(parse_preset(&source.path, &source.text)?)
    };
    names.iter().map(read).collect()
}

fn launchers(library: &Library) -> Result<Launchers, Failure> {
    let mut all = Launchers::default();
    for name in library.names(Shelf::Launchers) {
        let source = library.get(Shelf::Launchers, &name)?;
        let table: Launchers = parse_data(&source.path, &source.text)?;
        all.launchers.extend(table.launchers);
    }
    Ok(all)
}

fn show(
    args: &Args,
    library: &Library,
    adoption: &Adoption<'_>,
    presets: &[PresetFile],
) -> Result<ExitCode, Failure> {
    let named = |file: &&PresetFile| adoption.stack.is_some_and(|s| s.name == file.preset);
    let own = match presets.iter().find(named) {
        Some(file) => Some(Own::new(file.clone(), sets(library, file)?, adoption)?),
        None => None,
    };
    let wishes = args.set.iter().map(|text| wish(adoption, text));
    let wishes = wishes.collect::<Result<Vec<_>, Failure>>()?;
    let view = adopt_view::view(adoption, own.as_ref(), &wishes);
    if args.json {
        print::json(&view)?;
    } else {
        print::data(&view.text())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn sets(library: &Library, file: &PresetFile) -> Result<Vec<KnobSetFile>, Failure> {
    let read = |name: &String| {
        let source = library.get(Shelf::Sets, name)?;
        Ok(parse_knob_set(&source.path, &source.text)?)
    };
    file.uses.iter().map(read).collect()
}

fn wish<'t>(adoption: &Adoption<'_>, text: &'t str) -> Result<adopt_view::Wish<'t>, Failure> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| Problem::new(format!("`--set {text}` is no KNOB=VALUE")))?;
    let knob = adoption.stack.and_then(|s| s.knob(name));
    let knob = knob.ok_or_else(|| Problem::new(format!("the program has no knob named {name}")))?;
    let value = knob.kind.parse(value);
    let value = value.map_err(|what| Problem::new(format!("{name}: {what}")))?;
    Ok((name, value))
}
